//! Checks a value against a schema in the form that memoir writes: types, fields, choices, lengths
//! and ranges. A crate for every schema there is would add 4 MB to the binary.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// The keywords that a schema may have.
#[cfg(any(test, debug_assertions))]
const KEYWORDS: [&str; 15] = [
    "type",
    "enum",
    "const",
    "anyOf",
    "oneOf",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
];
/// Keywords that say nothing about what is valid.
#[cfg(any(test, debug_assertions))]
const NOTES: [&str; 1] = ["description"];

/// Options that an error lists.
const MAX_LISTED: usize = 3;

/// A schema that values are checked against.
pub struct Validator(Value);

/// What is wrong with a part of a value.
#[derive(Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The part, as a JSON pointer.
    pub pointer: String,
    pub message: String,
}

impl Validator {
    pub fn new(schema: Value) -> Self {
        #[cfg(debug_assertions)]
        assert_eq!(unknown_keyword(&schema), None, "{schema}");
        Self(schema)
    }

    /// Everything that is wrong with a value.
    pub fn mismatches(&self, value: &Value) -> Vec<Mismatch> {
        let mut check = Check::default();
        check.value(&self.0, value);
        check.found
    }
}

/// The first keyword that no check knows.
#[cfg(any(test, debug_assertions))]
fn unknown_keyword(schema: &Value) -> Option<&str> {
    let fields = schema.as_object()?;
    let known = |name: &str| KEYWORDS.contains(&name) || NOTES.contains(&name);
    let own = fields.keys().find(|name| !known(name));
    own.map(String::as_str).or_else(|| {
        let named = fields.get("properties").and_then(Value::as_object);
        let lists = ["anyOf", "oneOf"]
            .iter()
            .filter_map(|name| fields.get(*name)?.as_array());
        let single = ["items", "additionalProperties"]
            .iter()
            .filter_map(|name| fields.get(*name));
        named
            .into_iter()
            .flat_map(Map::values)
            .chain(lists.flatten())
            .chain(single)
            .find_map(unknown_keyword)
    })
}

#[derive(Default)]
struct Check {
    pointer: String,
    found: Vec<Mismatch>,
}

impl Check {
    fn add(&mut self, message: String) {
        let pointer = self.pointer.clone();
        self.found.push(Mismatch { pointer, message });
    }

    /// Checks a part of the value.
    fn part(&mut self, name: &str, schema: &Value, value: &Value) {
        let end = self.pointer.len();
        let _ = write!(
            self.pointer,
            "/{}",
            name.replace('~', "~0").replace('/', "~1")
        );
        self.value(schema, value);
        self.pointer.truncate(end);
    }

    fn value(&mut self, schema: &Value, value: &Value) {
        let Some(rules) = schema.as_object() else {
            if schema == false {
                self.add(format!("False schema does not allow {value}"));
            }
            return;
        };

        self.kind(rules, value);
        self.choice(rules, value);
        match value {
            Value::Object(fields) => self.fields(rules, fields),
            Value::Array(items) => self.items(rules, items, value),
            Value::String(text) => {
                let length = || text.chars().count();
                self.length(rules, ["minLength", "maxLength"], length, value);
            }
            Value::Number(_) => self.range(rules, value),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn kind(&mut self, rules: &Map<String, Value>, value: &Value) {
        let Some(wanted) = rules.get("type") else {
            return;
        };
        let mut kinds: Vec<&str> = match wanted {
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
            one => one.as_str().into_iter().collect(),
        };
        if kinds.iter().any(|kind| is_of(kind, value)) {
            return;
        }

        kinds.sort_unstable();
        let quoted: Vec<String> = kinds.iter().map(|kind| format!("\"{kind}\"")).collect();
        let noun = if wanted.is_array() { "types" } else { "type" };
        self.add(format!("{value} is not of {noun} {}", quoted.join(", ")));
    }

    fn choice(&mut self, rules: &Map<String, Value>, value: &Value) {
        if let Some(options) = rules.get("enum").and_then(Value::as_array)
            && !options.contains(value)
        {
            self.add(format!("{value} is not one of {}", listed(options)));
        }

        if let Some(only) = rules.get("const")
            && only != value
        {
            self.add(format!("{only} was expected"));
        }

        for (name, unique) in [("anyOf", false), ("oneOf", true)] {
            let Some(schemas) = rules.get(name).and_then(Value::as_array) else {
                continue;
            };
            let fits = |schema: &&Value| {
                let mut check = Self::default();
                check.value(schema, value);
                check.found.is_empty()
            };
            let fitting = schemas.iter().filter(fits).count();
            if fitting == 0 {
                let rule =
                    format!("is not valid under any of the schemas listed in the '{name}' keyword");
                self.add(format!("{value} {rule}"));
            } else if unique && fitting > 1 {
                let rule =
                    "is valid under more than one of the schemas listed in the 'oneOf' keyword";
                self.add(format!("{value} {rule}"));
            }
        }
    }

    fn fields(&mut self, rules: &Map<String, Value>, fields: &Map<String, Value>) {
        for name in rules
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            if name.as_str().is_some_and(|name| !fields.contains_key(name)) {
                self.add(format!("{name} is a required property"));
            }
        }

        let properties = rules.get("properties").and_then(Value::as_object);
        let mut unexpected = Vec::new();
        for (name, value) in fields {
            let own = properties.and_then(|properties| properties.get(name));
            match own.or_else(|| rules.get("additionalProperties")) {
                Some(Value::Bool(false)) if own.is_none() => unexpected.push(format!("'{name}'")),
                Some(schema) => self.part(name, schema, value),
                None => {}
            }
        }

        if !unexpected.is_empty() {
            let verb = if unexpected.len() == 1 { "was" } else { "were" };
            let names = unexpected.join(", ");
            self.add(format!(
                "Additional properties are not allowed ({names} {verb} unexpected)"
            ));
        }
    }

    fn items(&mut self, rules: &Map<String, Value>, items: &[Value], value: &Value) {
        self.length(rules, ["minItems", "maxItems"], || items.len(), value);
        if let Some(schema) = rules.get("items") {
            for (place, item) in items.iter().enumerate() {
                self.part(&place.to_string(), schema, item);
            }
        }
    }

    /// Checks the number of items of a list, or of characters of a text.
    fn length(
        &mut self,
        rules: &Map<String, Value>,
        [min, max]: [&str; 2],
        length: impl Fn() -> usize,
        value: &Value,
    ) {
        let limit =
            |name: &str| Some(usize::try_from(rules.get(name)?.as_u64()?).unwrap_or(usize::MAX));
        let (less, more, noun) = if value.is_array() {
            ("has less than", "has more than", "item")
        } else {
            ("is shorter than", "is longer than", "character")
        };
        let plural = |limit: usize| if limit == 1 { "" } else { "s" };
        if let Some(min) = limit(min)
            && length() < min
        {
            self.add(format!("{value} {less} {min} {noun}{}", plural(min)));
        }
        if let Some(max) = limit(max)
            && length() > max
        {
            self.add(format!("{value} {more} {max} {noun}{}", plural(max)));
        }
    }

    fn range(&mut self, rules: &Map<String, Value>, value: &Value) {
        let Some(number) = value.as_f64() else {
            return;
        };
        if let Some(min) = rules.get("minimum")
            && min.as_f64().is_some_and(|min| number < min)
        {
            self.add(format!("{value} is less than the minimum of {min}"));
        }
        if let Some(max) = rules.get("maximum")
            && max.as_f64().is_some_and(|max| number > max)
        {
            self.add(format!("{value} is greater than the maximum of {max}"));
        }
    }
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => {
            value.is_i64()
                || value.is_u64()
                || value.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        _ => value.is_object(),
    }
}

/// The first options, and how many more there are.
fn listed(options: &[Value]) -> String {
    let texts: Vec<String> = options.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] if texts.len() <= MAX_LISTED => {
            format!("{} or {last}", first.join(", "))
        }
        all => {
            let shown = MAX_LISTED - 1;
            let more = all.len() - shown;
            format!("{} or {more} other candidates", all[..shown].join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object",
            "description": "Everything that a schema of memoir may contain.",
            "properties": {
                "chunks": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": 2,
                    "items": {
                        "type": "object",
                        "properties": {
                            "id": {"type": "integer"},
                            "category": {"type": "string", "enum": ["a", "b", "c", "d"]},
                            "note": {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]},
                        },
                        "required": ["id", "category"],
                        "additionalProperties": false,
                    },
                },
                "importance": {"type": "number", "minimum": 0.0, "maximum": 1.0},
                "kind": {"oneOf": [{"const": "x"}, {"type": "string", "minLength": 2}]},
                "facts": {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
                "last": {"type": "string", "enum": ["yes", "no"]},
            },
            "required": ["chunks"],
        })
    }

    fn values() -> Vec<Value> {
        vec![
            json!({"chunks": [{"id": 1, "category": "a"}]}),
            json!({"chunks": [{"id": 1.0, "category": "b", "note": null}], "facts": {"a/b": "c"}}),
            json!({"chunks": []}),
            json!({"chunks": [1, {"id": 1.5, "category": "e"}, {}]}),
            json!({"chunks": [{"id": "1", "category": "a", "note": "long", "x": 1, "y": 2}]}),
            json!({"chunks": [{"id": 1, "category": "a", "note": "ééé", "x": 1}]}),
            json!({"importance": 1.5, "kind": "x", "facts": {"a/b": 1, "~": 2}, "last": "maybe"}),
            json!({"chunks": {}, "importance": -1, "kind": "", "facts": [], "last": 1}),
            json!({"chunks": null, "kind": "xx", "other": true}),
            json!([]),
            json!("text"),
            json!(null),
        ]
    }

    #[test]
    fn agrees_with_a_complete_implementation() {
        let complete = jsonschema::validator_for(&schema()).unwrap();
        let own = Validator::new(schema());
        for value in values() {
            let mut expected: Vec<(String, String)> = complete
                .iter_errors(&value)
                .map(|error| (error.instance_path().to_string(), error.to_string()))
                .collect();
            let found = own.mismatches(&value).into_iter();
            let mut found: Vec<(String, String)> =
                found.map(|one| (one.pointer, one.message)).collect();

            expected.sort();
            found.sort();
            assert_eq!(found, expected, "{value}");
        }
    }

    #[test]
    fn a_keyword_without_a_check_is_noticed() {
        assert_eq!(unknown_keyword(&schema()), None);
        let pattern = json!({"type": "object", "properties": {"a": {"items": {"pattern": "x"}}}});
        assert_eq!(unknown_keyword(&pattern), Some("pattern"));
    }
}
