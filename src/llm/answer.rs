//! Turns a model's text into a checked value: finds the JSON, checks schema and rules, and keeps
//! the valid items.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::schema::{Mismatch, Validator};
use super::task::{Fault, Items, Task};

/// Maximum characters of an invalid value that are quoted back to the model.
const MAX_QUOTED: usize = 80;
/// Maximum number of errors that are listed; more do not help the model.
pub const MAX_FAULTS: usize = 20;

/// What a model is told about a character that PostgreSQL cannot store.
const NUL: &str = "the answer contains a NUL character";

/// The verdict on an answer.
pub enum Verdict<O> {
    /// The whole answer is valid.
    Good(O),
    /// These items are invalid; the others are valid.
    Part {
        good: Option<O>,
        wrong: Vec<i64>,
        faults: Vec<Fault>,
        whole: Option<O>,
    },
    /// Nothing is valid.
    Bad {
        faults: Vec<Fault>,
        whole: Option<O>,
    },
}

/// Checks a text. Also returns the parsed value, for the record.
pub fn judge<T: Task>(
    task: &T,
    validator: &Validator,
    text: &str,
) -> (Verdict<T::Output>, Option<Value>) {
    if let Some(output) = task.read_text(text) {
        // Not recorded: it belongs to its caller alone.
        let faults = if text.contains('\0') {
            vec![Fault::whole(NUL)]
        } else {
            task.check(&output)
        };
        let verdict = if faults.is_empty() {
            Verdict::Good(output)
        } else {
            bad(faults)
        };
        return (verdict, None);
    }

    let Some(value) = find_json(text).map(|value| unwrapped(value, T::TOOL.unwrap_or(T::STAGE)))
    else {
        return (bad(vec![Fault::whole(no_json(text))]), None);
    };
    let storable = match T::ITEMS {
        _ if !holds_nul(&value) => Some(value.clone()),
        Some(items) => without_nul(value.clone(), items),
        None => None,
    };

    let verdict = match T::ITEMS {
        _ if storable.is_none() => bad(vec![Fault::whole(NUL)]),
        Some(items) => judge_items(task, validator, value, items),
        None => judge_whole(task, validator, value),
    };

    (verdict, storable)
}

/// The part of an answer that can be stored: items with a NUL are omitted. A replay finds them
/// missing in the record and requests them again, as the original call did.
fn without_nul(mut value: Value, items: Items) -> Option<Value> {
    value
        .get_mut(items.list)?
        .as_array_mut()?
        .retain(|item| !holds_nul(item));
    (!holds_nul(&value)).then_some(value)
}

fn bad<O>(faults: Vec<Fault>) -> Verdict<O> {
    Verdict::Bad {
        faults,
        whole: None,
    }
}

fn judge_whole<T: Task>(task: &T, validator: &Validator, mut value: Value) -> Verdict<T::Output> {
    task.complete(&mut value);
    let faults: Vec<Fault> = validator
        .mismatches(&value)
        .iter()
        .take(MAX_FAULTS)
        .map(|mismatch| Fault::whole(explain(mismatch)))
        .collect();

    if !faults.is_empty() {
        return bad(faults);
    }

    let output: T::Output = match serde_json::from_value(value) {
        Ok(output) => task.settle(output),
        Err(error) => return bad(vec![Fault::whole(error.to_string())]),
    };

    let faults = task.check(&output);
    if faults.is_empty() {
        Verdict::Good(output)
    } else {
        Verdict::Bad {
            faults,
            whole: Some(output),
        }
    }
}

/// Checks each item separately and keeps the valid ones.
fn judge_items<T: Task>(
    task: &T,
    validator: &Validator,
    mut value: Value,
    items: Items,
) -> Verdict<T::Output> {
    let asked: BTreeSet<i64> = task.ids().into_iter().collect();
    let mut wrong: BTreeMap<i64, String> = BTreeMap::new();
    let mut broken: BTreeSet<usize> = BTreeSet::new();

    // All errors, because an invalid item that is overlooked would invalidate the others.
    for mismatch in validator.mismatches(&value) {
        let Some(place) = place_in_list(&mismatch.pointer, items.list) else {
            return bad(vec![Fault::whole(explain(&mismatch))]);
        };
        broken.insert(place);
        if let Some(id) = value[items.list][place][items.id]
            .as_i64()
            .filter(|id| asked.contains(id))
        {
            wrong.entry(id).or_insert_with(|| explain(&mismatch));
        }
    }

    // An error outside the list of items concerns the whole answer.
    let list = value[items.list].as_array().into_iter().flatten();
    for (place, item) in list.enumerate().filter(|(_, item)| holds_nul(item)) {
        broken.insert(place);
        if let Some(id) = item[items.id].as_i64().filter(|id| asked.contains(id)) {
            wrong
                .entry(id)
                .or_insert_with(|| format!("{} {id} contains a NUL character", items.noun));
        }
    }

    let mut seen: BTreeMap<i64, usize> = BTreeMap::new();
    if let Some(list) = value.get_mut(items.list).and_then(Value::as_array_mut) {
        let mut place = 0;
        list.retain(|item| {
            let id = item[items.id].as_i64().filter(|id| asked.contains(id));
            // An id that was not requested is ignored: there is nothing to request again.
            let kept = id.filter(|_| !broken.contains(&place));
            place += 1;
            if let Some(id) = kept {
                *seen.entry(id).or_default() += 1;
            }

            kept.is_some()
        });
    }

    for id in &asked {
        match seen.get(id) {
            Some(1) => {}
            Some(_) => {
                _ = wrong.insert(*id, format!("{} {id} appears more than once", items.noun));
            }
            None => {
                _ = wrong
                    .entry(*id)
                    .or_insert_with(|| format!("{} {id} is missing", items.noun));
            }
        }
    }

    check_items(task, value, items, wrong)
}

/// The task's own rules, item by item.
fn check_items<T: Task>(
    task: &T,
    mut value: Value,
    items: Items,
    mut wrong: BTreeMap<i64, String>,
) -> Verdict<T::Output> {
    drop_items(&mut value, items, &wrong);
    let read =
        |value: Value| serde_json::from_value::<T::Output>(value).map(|output| task.settle(output));
    let output = match read(value.clone()) {
        Ok(output) => output,
        Err(error) => return bad(vec![Fault::whole(error.to_string())]),
    };

    let none_missing = wrong.is_empty();
    for fault in task.check(&output) {
        match fault.item {
            Some(id) => _ = wrong.entry(id).or_insert(fault.message),
            None => {
                return Verdict::Bad {
                    faults: vec![fault],
                    whole: none_missing.then_some(output),
                };
            }
        }
    }

    if wrong.is_empty() {
        return Verdict::Good(output);
    }

    drop_items(&mut value, items, &wrong);
    let good = value[items.list]
        .as_array()
        .is_some_and(|list| !list.is_empty())
        .then(|| read(value).ok())
        .flatten();

    let faults = wrong
        .iter()
        .map(|(id, message)| Fault::item(*id, message.clone()))
        .collect();

    let wrong = wrong.into_keys().collect();
    Verdict::Part {
        good,
        wrong,
        faults,
        whole: none_missing.then_some(output),
    }
}

fn drop_items(value: &mut Value, items: Items, wrong: &BTreeMap<i64, String>) {
    if let Some(list) = value.get_mut(items.list).and_then(Value::as_array_mut) {
        list.retain(|item| {
            item[items.id]
                .as_i64()
                .is_none_or(|id| !wrong.contains_key(&id))
        });
    }
}

/// The index in `/chunks/3/category`.
fn place_in_list(pointer: &str, list: &str) -> Option<usize> {
    pointer
        .strip_prefix('/')?
        .strip_prefix(list)?
        .strip_prefix('/')?
        .split('/')
        .next()?
        .parse()
        .ok()
}

fn explain(mismatch: &Mismatch) -> String {
    let message: String = mismatch.message.chars().take(MAX_QUOTED * 2).collect();
    if mismatch.pointer.is_empty() {
        message
    } else {
        format!("at {}: {message}", mismatch.pointer)
    }
}

fn no_json(text: &str) -> String {
    if text.trim().is_empty() {
        return "the answer is empty".to_owned();
    }

    let shown: String = text.trim().chars().take(MAX_QUOTED).collect();
    format!("the answer is not a complete JSON object; it begins with {shown:?}")
}

fn holds_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(list) => list.iter().any(holds_nul),
        Value::Object(fields) => fields
            .iter()
            .any(|(name, value)| name.contains('\0') || holds_nul(value)),
        _ => false,
    }
}

/// The JSON object in a text: the text itself, or the last complete object in it, without
/// reasoning.
///
/// The last one, because a model that reasons first ends with its answer.
pub fn find_json(text: &str) -> Option<Value> {
    let text = text
        .rsplit_once("</think>")
        .map_or(text, |(_, answer)| answer)
        .trim();

    if let Ok(value @ Value::Object(_)) = serde_json::from_str(text) {
        return Some(value);
    }

    let mut found = None;
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        let mut stream = serde_json::Deserializer::from_str(&rest[start..]).into_iter::<Value>();
        match stream.next() {
            Some(Ok(value)) => {
                found = Some(value);
                rest = &rest[start + stream.byte_offset()..];
            }
            _ => rest = &rest[start + 1..],
        }
    }

    found
}

/// The answer inside a tool call that a model has written as text: `{"name": "classify",
/// "arguments": {…}}`.
fn unwrapped(mut value: Value, stage: &str) -> Value {
    if value["name"] != stage {
        return value;
    }

    for field in ["arguments", "parameters", "input"] {
        match value.get_mut(field).map(Value::take) {
            Some(arguments @ Value::Object(_)) => return arguments,
            Some(Value::String(text)) => return find_json(&text).unwrap_or(value),
            _ => {}
        }
    }

    value
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn finds_json_in_the_text_of_small_models() {
        let wanted = Some(json!({"answer": "a {b} c"}));
        for text in [
            r#"{"answer": "a {b} c"}"#,
            "```json\n{\"answer\": \"a {b} c\"}\n```",
            "Sure! Here it is:\n```\n{\"answer\": \"a {b} c\"}\n```\nAnything else?",
            "<think>{\"answer\": \"no\"}</think>{\"answer\": \"a {b} c\"}",
            "{\"draft\": 1} then {\"answer\": \"a {b} c\"} {oops",
            " \u{feff}{\"answer\": \"a {b} c\"}",
        ] {
            assert_eq!(find_json(text), wanted, "{text}");
        }

        for text in ["", "no", "{\"answer\": \"cut", "[1, 2]", "<html></html>"] {
            assert_eq!(find_json(text), None, "{text}");
        }
    }

    #[test]
    fn items_with_nul_are_not_recorded() {
        let items = Items {
            list: "chunks",
            id: "id",
            noun: "chunk",
        };

        let value =
            json!({"chunks": [{"id": 1, "category": "a\u{0}b"}, {"id": 2, "category": "B"}]});
        assert_eq!(
            without_nul(value, items),
            Some(json!({"chunks": [{"id": 2, "category": "B"}]}))
        );

        assert_eq!(
            without_nul(json!({"chunks": [], "note": "\u{0}"}), items),
            None
        );

        assert_eq!(without_nul(json!({"note": "\u{0}"}), items), None);
    }

    #[test]
    fn reads_a_tool_call_written_as_text() {
        let wanted = json!({"chunks": []});
        for text in [
            r#"{"name": "classify", "arguments": {"chunks": []}}"#,
            r#"<tool_call>{"name": "classify", "arguments": "{\"chunks\": []}"}</tool_call>"#,
            r#"{"name": "classify", "parameters": {"chunks": []}}"#,
        ] {
            assert_eq!(
                unwrapped(find_json(text).unwrap(), "classify"),
                wanted,
                "{text}"
            );
        }

        let other = json!({"name": "Ada", "arguments": {"x": 1}});
        assert_eq!(unwrapped(other.clone(), "classify"), other);
    }

    #[test]
    fn a_million_braces_are_parsed_quickly() {
        assert_eq!(find_json(&"{".repeat(10_000)), None);
        assert_eq!(find_json(&"{\"a\":".repeat(2_000)), None);
    }
}
