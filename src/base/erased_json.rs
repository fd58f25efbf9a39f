//! Stored JSON without its texts: ids, numbers and words of our own stay, and its form does too.

use serde_json::Value;

/// Members whose texts are words of our own.
const OWN_WORDS: &[&str] = &[
    "code",
    "confidence",
    "decision",
    "error",
    "mode",
    "overflow",
    "prompt_limiting_strategy",
    "scope",
    "strategy",
    "tier",
    "tokenizer",
    "version_scope",
];

/// Replaces every text by an empty one, except ids and words of our own.
pub fn without_texts(value: &mut Value) {
    match value {
        Value::String(text) if uuid::Uuid::parse_str(text).is_err() => text.clear(),
        Value::Array(items) => items.iter_mut().for_each(without_texts),
        Value::Object(members) => {
            for (name, member) in members {
                if !(member.is_string() && OWN_WORDS.contains(&name.as_str())) {
                    without_texts(member);
                }
            }
        }
        _ => {}
    }
}

/// The ids in a value, and the end users that it names, as [`super::ids::use_of_user`] writes them.
pub fn uses(value: &Value, found: &mut std::collections::BTreeSet<String>) {
    match value {
        Value::String(text) => {
            if let Some(id) = as_id(text) {
                found.insert(id);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| uses(item, found)),
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(user_id) if name == "user_id" => {
                        found.insert(super::ids::use_of_user(user_id.trim()));
                    }
                    member => uses(member, found),
                }
            }
        }
        _ => {}
    }
}

/// Most texts are no ids: their length tells it.
fn as_id(text: &str) -> Option<String> {
    let is_long_enough = text.len() == 36;
    is_long_enough.then(|| uuid::Uuid::parse_str(text).ok().map(|id| id.to_string()))?
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    const ID: &str = "0199a7e0-0000-7000-8000-000000000000";

    #[test]
    fn ids_numbers_and_our_own_words_stay() {
        let mut value = json!({
            "query": "Who was at the harbour?", "mode": "answer", "names": ["Harbour", "Boats"],
            "helpers": [[ID, 3]], "found": true, "paths": [{"ids": [1, 2], "names": ["Harbour"]}], "next": null
        });

        without_texts(&mut value);
        assert_eq!(
            value,
            json!({
                "query": "", "mode": "answer", "names": ["", ""], "helpers": [[ID, 3]], "found": true,
                "paths": [{"ids": [1, 2], "names": [""]}], "next": null
            })
        );
    }

    #[test]
    fn ids_and_users_are_found_at_any_depth() {
        let value = json!({"id": ID, "items": [{"user_id": " ann ", "title": "Ann"}]});
        let mut found = BTreeSet::new();
        uses(&value, &mut found);
        let ann = crate::base::ids::use_of_user("ann");
        assert_eq!(found, BTreeSet::from([ID.to_owned(), ann]));
    }
}
