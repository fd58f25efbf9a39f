//! The smallest value that a JSON schema accepts, for stages without a rule. Covers what schemas
//! for model output use; patterns and formats are ignored.

use serde_json::{Map, Value, json};

/// A deeper schema is recursive.
const DEEPEST: usize = 32;

pub(super) fn value(schema: &Value) -> Value {
    build(schema, schema, DEEPEST)
}

fn build(schema: &Value, root: &Value, depth: usize) -> Value {
    if depth == 0 {
        return Value::Null;
    }

    if let Some(fixed) = fixed(schema) {
        return fixed;
    }

    if let Some(inner) = indirect(schema, root) {
        return build(inner, root, depth - 1);
    }

    match kind(schema).as_str() {
        "object" => object(schema, root, depth),
        "array" => array(schema, root, depth),
        "string" => "x".repeat(whole(schema, "minLength")).into(),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or_else(|| json!(0)),
        "boolean" => false.into(),
        _ => Value::Null,
    }
}

fn fixed(schema: &Value) -> Option<Value> {
    let listed = schema.get("enum").and_then(|values| values.get(0));
    schema.get("const").or(listed).cloned()
}

/// The schema that this one refers to: by reference, or the first alternative.
fn indirect<'a>(schema: &'a Value, root: &'a Value) -> Option<&'a Value> {
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        return root.pointer(target.strip_prefix('#')?);
    }
    ["anyOf", "oneOf", "allOf"]
        .iter()
        .find_map(|choice| schema.get(choice)?.get(0))
}

/// In lower case, because Gemini's older schemas use capitals.
fn kind(schema: &Value) -> String {
    let named = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str),
        other => other.and_then(Value::as_str),
    };

    let implied = if schema.get("properties").is_some() {
        "object"
    } else {
        "null"
    };

    named.unwrap_or(implied).to_lowercase()
}

fn object(schema: &Value, root: &Value, depth: usize) -> Value {
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array);
    let names = required.into_iter().flatten().filter_map(Value::as_str);
    let member = |name: &str| {
        properties
            .and_then(|all| all.get(name))
            .unwrap_or(&Value::Null)
    };

    let members: Map<String, Value> = names
        .map(|name| (name.to_owned(), build(member(name), root, depth - 1)))
        .collect();
    members.into()
}

fn array(schema: &Value, root: &Value, depth: usize) -> Value {
    let item = schema.get("items").unwrap_or(&Value::Null);
    (0..whole(schema, "minItems"))
        .map(|_| build(item, root, depth - 1))
        .collect()
}

fn whole(schema: &Value, bound: &str) -> usize {
    schema
        .get(bound)
        .and_then(Value::as_u64)
        .and_then(|bound| usize::try_from(bound).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_only_required_fields() {
        let schema = json!({
            "type": "object",
            "required": ["ok", "n", "kind", "list", "ref"],
            "properties": {
                "ok": {"type": "boolean"},
                "n": {"type": ["integer", "null"], "minimum": 2},
                "kind": {"enum": ["b", "a"]},
                "list": {"type": "ARRAY", "minItems": 1, "items": {"anyOf": [{"type": "string", "minLength": 2}]}},
                "ref": {"$ref": "#/$defs/empty"},
                "left out": {"type": "string"},
            },
            "$defs": {"empty": {"type": "string"}},
        });
        assert_eq!(
            value(&schema),
            json!({"ok": false, "n": 2, "kind": "b", "list": ["xx"], "ref": ""})
        );
    }

    #[test]
    fn a_recursive_schema_terminates() {
        let schema =
            json!({"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}});
        assert!(value(&schema).get("a").is_some());
    }
}
