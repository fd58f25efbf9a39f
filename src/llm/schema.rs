//! One schema per task, in a form that every provider accepts, and the check of an output against
//! it.
//!
//! The form is the common part of all dialects: one object, no references, every field required,
//! nothing else allowed, no lengths and ranges (each task checks those itself). A closed choice
//! becomes an `enum` while it is small enough for the providers' limits.

mod validator;

use serde_json::Value;

pub use validator::{Mismatch, Validator};

use super::task::Task;

/// Maximum number of values of an `enum`. Providers limit its characters only above that.
const MAX_OPTIONS: usize = 250;

/// Items of a list and characters of a text for models that write endlessly, where a task sets no
/// limits of its own.
const MAX_ITEMS: usize = 50;
const MAX_CHARS: usize = 4000;

/// The schema of a task's answers, without a closed choice.
pub fn of<T: Task>() -> Value {
    let mut settings = schemars::generate::SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<T::Output>()
        .to_value();

    tidy(&mut schema);
    schema
}

/// The schema for validation. The one that providers receive requires every field; an
/// answer may still omit a nullable field.
pub fn validator(schema: &Value) -> Validator {
    let mut schema = schema.clone();
    relax(&mut schema);
    Validator::new(schema)
}

/// The schema for the validation of a task whose answers may have more fields.
pub fn lenient_validator(schema: &Value) -> Validator {
    let mut schema = schema.clone();
    if let Some(fields) = schema.as_object_mut() {
        fields.shift_remove("additionalProperties");
    }
    validator(&schema)
}

/// Restricts the string at `pointer` to these options, if providers support that many.
pub fn close(schema: &mut Value, pointer: &str, options: &[String]) {
    if options.is_empty() || options.len() > MAX_OPTIONS {
        return;
    }
    if let Some(field) = schema.pointer_mut(pointer).and_then(Value::as_object_mut) {
        field.insert("enum".to_owned(), options.into());
    }
}

/// Adds these limits to the schema at `pointer`.
pub fn limit(schema: &mut Value, pointer: &str, limits: &[(&str, usize)]) {
    if let Some(field) = schema.pointer_mut(pointer).and_then(Value::as_object_mut) {
        field.extend(
            limits
                .iter()
                .map(|(name, limit)| ((*name).to_owned(), (*limit).into())),
        );
    }
}

/// Adds limits to every list and every free text that has none.
pub fn limit_rest(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            let is = |kind: &str| match &fields["type"] {
                Value::Array(kinds) => kinds.iter().any(|one| one == kind),
                one => one == kind,
            };
            let (list, text) = if fields.contains_key("type") {
                (is("array"), is("string") && !fields.contains_key("enum"))
            } else {
                (false, false)
            };
            for (applies, name, limit) in [
                (list, "maxItems", MAX_ITEMS),
                (text, "maxLength", MAX_CHARS),
            ] {
                if applies && !fields.contains_key(name) {
                    fields.insert(name.to_owned(), limit.into());
                }
            }

            for value in fields.values_mut() {
                limit_rest(value);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(limit_rest),
        _ => {}
    }
}

/// An example value that matches the schema. Small models copy an example better than they read a
/// schema.
pub fn form(schema: &Value) -> Value {
    let kind = schema["type"]
        .as_str()
        .or_else(|| schema["type"][0].as_str());
    match kind {
        Some("object") => {
            let fields = schema["properties"].as_object().into_iter().flatten();
            Value::Object(
                fields
                    .map(|(name, field)| (name.clone(), form(field)))
                    .collect(),
            )
        }
        Some("array") => vec![form(&schema["items"])].into(),
        Some("integer") => 1.into(),
        Some("number") => 0.5.into(),
        Some("boolean") => true.into(),
        _ => "…".into(),
    }
}

/// Requires only the fields that are not nullable.
fn relax(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };

    if let Some(properties) = fields.get("properties").and_then(Value::as_object) {
        let needed = properties.iter().filter(|(_, field)| !may_be_null(field));
        let names: Vec<Value> = needed.map(|(name, _)| name.as_str().into()).collect();
        fields.insert("required".to_owned(), names.into());
    }

    for value in fields.values_mut() {
        match value {
            Value::Object(_) => relax(value),
            Value::Array(list) => list.iter_mut().for_each(relax),
            _ => {}
        }
    }
}

fn may_be_null(field: &Value) -> bool {
    let is_null = |kind: &Value| kind == "null" || kind["type"] == "null";
    ["type", "anyOf"].iter().any(|list| {
        let kinds = field[*list].as_array();
        kinds.is_some_and(|kinds| kinds.iter().any(is_null))
    })
}

/// Keeps only what every dialect supports.
fn tidy(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    for unknown in [
        "title",
        "format",
        "minimum",
        "maximum",
        "default",
        "minLength",
        "maxLength",
        "$schema",
    ] {
        // `properties` may contain a field with this name, whose value is an object; that of the
        // keyword never is.
        if fields.get(unknown).is_some_and(|value| !value.is_object()) {
            fields.shift_remove(unknown);
        }
    }

    if let Some(properties) = fields.get("properties").and_then(Value::as_object) {
        let names: Vec<Value> = properties.keys().map(|name| name.as_str().into()).collect();
        fields.insert("required".to_owned(), names.into());
        fields.insert("additionalProperties".to_owned(), false.into());
    }

    for value in fields.values_mut() {
        match value {
            Value::Object(_) => tidy(value),
            Value::Array(list) => list.iter_mut().for_each(tidy),
            _ => {}
        }
    }
}
