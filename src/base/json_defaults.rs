//! Stores JSON objects without the fields that have their default value.

use serde_json::{Map, Value};

/// The fields of `object` that differ from `defaults`. A field that `defaults` does not have stays.
pub fn without_defaults(object: &Map<String, Value>, defaults: &Value) -> Map<String, Value> {
    let mut kept = Map::new();
    for (name, value) in object {
        let value = match (value, &defaults[name]) {
            (value, default) if value == default && defaults.get(name).is_some() => continue,
            (Value::Object(inner), default @ Value::Object(_)) => {
                without_defaults(inner, default).into()
            }
            (value, _) => value.clone(),
        };
        kept.insert(name.clone(), value);
    }

    kept
}

/// The object with the fields that [`without_defaults`] left out, in the order of `defaults`.
pub fn with_defaults(mut object: Map<String, Value>, defaults: &Value) -> Map<String, Value> {
    let mut whole = Map::new();
    for (name, default) in defaults.as_object().into_iter().flatten() {
        let value = match (object.shift_remove(name), default) {
            (None, default) => default.clone(),
            (Some(Value::Object(inner)), Value::Object(_)) => with_defaults(inner, default).into(),
            (Some(value), _) => value,
        };
        whole.insert(name.clone(), value);
    }

    whole.extend(object);
    whole
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_read_as_it_was_written() {
        let defaults = json!({"a": null, "b": {"c": 1, "d": [2]}, "e": false});
        let stored = |value: &Value| without_defaults(value.as_object().unwrap(), &defaults);
        for (whole, kept) in [
            (
                json!({"a": null, "b": {"c": 1, "d": [2]}, "e": false}),
                json!({}),
            ),
            (
                json!({"a": "x", "b": {"c": 1, "d": []}, "e": true}),
                json!({"a": "x", "b": {"d": []}, "e": true}),
            ),
            (
                json!({"a": null, "b": null, "e": false, "f": null}),
                json!({"b": null, "f": null}),
            ),
        ] {
            let stored = stored(&whole);
            assert_eq!(Value::from(stored.clone()), kept);
            let read = Value::from(with_defaults(stored, &defaults));
            assert_eq!(read.to_string(), whole.to_string(), "with its order");
        }
    }
}
