//! Rewrites an OpenAPI 3.1 document as 3.0, for generators that do not support 3.1.
//!
//! Handles what our documents use: nullable types, `null` alternatives, numeric bounds, examples,
//! the licence identifier. Problem documents are also listed as plain JSON, which some generators
//! need.

use serde_json::{Map, Value, json};

pub fn to_3_0(document: &mut Value) {
    document["openapi"] = "3.0.3".into();
    if let Some(license) = document
        .pointer_mut("/info/license")
        .and_then(Value::as_object_mut)
    {
        license.remove("identifier");
    }
    rewrite(document);
}

fn rewrite(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(rewrite),
        Value::Object(fields) => {
            nullable_type(fields);
            nullable_alternative(fields);
            exclusive_bounds(fields);
            if let Some(constant) = fields.remove("const") {
                fields.insert("enum".to_owned(), json!([constant]));
            }

            if let Some(Value::Array(mut examples)) = fields.remove("examples")
                && !examples.is_empty()
            {
                fields.insert("example".to_owned(), examples.swap_remove(0));
            }
            fields.remove("propertyNames");
            if let Some(content) = fields.get_mut("content").and_then(Value::as_object_mut)
                && let Some(problem) = content.get("application/problem+json").cloned()
            {
                content.insert("application/json".to_owned(), problem);
            }

            for (name, value) in fields.iter_mut() {
                match value {
                    // Its keys are names that we chose, such as a property called `examples`.
                    Value::Object(properties) if name == "properties" => {
                        properties.values_mut().for_each(rewrite);
                    }
                    value => rewrite(value),
                }
            }
        }
        _ => {}
    }
}

/// `type: [string, "null"]` → `type: string, nullable: true`.
fn nullable_type(fields: &mut Map<String, Value>) {
    let Some(Value::Array(types)) = fields.get("type") else {
        return;
    };
    let kept: Vec<Value> = types
        .iter()
        .filter(|kind| *kind != "null")
        .cloned()
        .collect();

    if kept.len() != types.len() {
        fields.insert("nullable".to_owned(), true.into());
    }

    if let [only] = kept.as_slice() {
        fields.insert("type".to_owned(), only.clone());
    }
}

/// `oneOf: [{type: "null"}, X]` → `allOf: [X], nullable: true`.
fn nullable_alternative(fields: &mut Map<String, Value>) {
    for name in ["oneOf", "anyOf"] {
        let Some(Value::Array(alternatives)) = fields.get_mut(name) else {
            continue;
        };
        let before = alternatives.len();
        alternatives
            .retain(|alternative| alternative.get("type").is_none_or(|kind| kind != "null"));
        if alternatives.len() == before {
            continue;
        }

        if alternatives.len() == 1 {
            let only = fields.remove(name).unwrap_or_default();
            fields.insert("allOf".to_owned(), only);
        }

        fields.insert("nullable".to_owned(), true.into());
    }
}

/// `exclusiveMinimum: 0` → `minimum: 0, exclusiveMinimum: true`.
fn exclusive_bounds(fields: &mut Map<String, Value>) {
    for (exclusive, bound) in [
        ("exclusiveMinimum", "minimum"),
        ("exclusiveMaximum", "maximum"),
    ] {
        if let Some(limit) = fields
            .get(exclusive)
            .filter(|limit| limit.is_number())
            .cloned()
        {
            fields.insert(bound.to_owned(), limit);
            fields.insert(exclusive.to_owned(), true.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rewrites_what_3_0_does_not_support() {
        let mut document = json!({
            "openapi": "3.1.0", "info": {"license": {"name": "MIT", "identifier": "MIT"}},
            "a": {"type": ["string", "null"]},
            "b": {"oneOf": [{"type": "null"}, {"$ref": "#/x"}]},
            "c": {"type": "integer", "exclusiveMinimum": 0, "examples": [1, 2]},
            "d": {"const": "x"},
            "e": {"content": {"application/problem+json": {"schema": {"type": "object"}}}},
        });

        to_3_0(&mut document);
        assert_eq!(
            document,
            json!({
                "openapi": "3.0.3", "info": {"license": {"name": "MIT"}},
                "a": {"type": "string", "nullable": true},
                "b": {"allOf": [{"$ref": "#/x"}], "nullable": true},
                "c": {"type": "integer", "minimum": 0, "exclusiveMinimum": true, "example": 1},
                "d": {"enum": ["x"]},
                "e": {"content": {
                    "application/problem+json": {"schema": {"type": "object"}},
                    "application/json": {"schema": {"type": "object"}},
                }},
            })
        );
    }
}
