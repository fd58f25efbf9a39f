//! The default rule: solves every stage from the text of its prompt. The same prompt always gives
//! the same answer, in every process and on every machine.

use std::cmp::Reverse;
use std::collections::HashSet;

use serde_json::{Value, json};

use super::frame::{Chunk, Frame, first_number};
use super::minimal;
use super::types::Seen;

pub(super) fn solve(seen: &Seen, categories_per_parent: u64) -> Value {
    let frame = Frame::read(&seen.user);
    match seen.stage.as_str() {
        "classify" => classify(&frame, categories_per_parent.max(1)),
        "select" => select(&frame),
        "summarize" => summarize(&frame),
        "answer" => answer(&frame),
        "helper" if seen.user.starts_with("Document ") => helpers(&seen.user),
        "helper" => helper(&frame),
        "send" => reply(&seen.user),
        _ => other(seen),
    }
}

/// Free text: repeats the last line of the prompt.
fn reply(prompt: &str) -> Value {
    let last = prompt.lines().rfind(|line| !line.trim().is_empty());
    format!("You asked: {}", last.unwrap_or_default().trim()).into()
}

fn classify(frame: &Frame<'_>, kinds: u64) -> Value {
    let level = frame.value("level:").and_then(first_number).unwrap_or(1);
    if frame.value("new categories:").is_none() {
        return name_freely(frame, level, kinds);
    }

    let listed = frame.list("categories:");
    let may_add = frame.value("new categories:") != Some("not allowed");
    let decide = |text: &str| match level {
        0 => entry(text, kinds, &listed),
        level => category(text, level, kinds, &listed, may_add),
    };
    let chunks: Vec<Value> = frame
        .chunks
        .iter()
        .map(|chunk| json!({"id": id(chunk), "category": decide(&chunk.text)}))
        .collect();

    json!({ "chunks": chunks })
}

/// Without a list: the subject is the beginning of the text; on level 0, all levels get a name.
fn name_freely(frame: &Frame<'_>, level: u64, kinds: u64) -> Value {
    let depth = frame
        .value("level:")
        .and_then(|line| first_number(line.split_once("of")?.1));
    let chunks: Vec<Value> = frame
        .chunks
        .iter()
        .map(|chunk| {
            let text = chunk
                .text
                .lines()
                .find(|line| !line.starts_with("category"));
            let subject = head(text.unwrap_or_default(), 40);
            let name = |level| wished(&chunk.text, level, kinds);
            let mut answer =
                json!({"id": id(chunk), "subject": subject, "category": name(level.max(1))});
            if level == 0 {
                let topics = 2..=depth.unwrap_or(1);
                answer["topics"] = topics.map(name).collect::<Vec<_>>().into();
            }
            answer
        })
        .collect();

    json!({ "chunks": chunks })
}

/// The entry of a shortlist: the path of the text, its first category, or the last entry, which is
/// none of the others.
fn entry(text: &str, kinds: u64, listed: &[&str]) -> String {
    let ends_here = |path: &str| {
        let names = path.split(" / ").zip(1..);
        let mut names = names.map(|(name, level)| name == wished(text, level, kinds));
        names.all(|is_wished| is_wished)
    };
    let found = listed.iter().find(|path| ends_here(path));
    let entry = found.or(listed.last()).copied();
    entry.unwrap_or_default().to_owned()
}

/// The category that a text names on a level, or that its hash stands for.
fn wished(text: &str, level: u64, kinds: u64) -> String {
    let label = format!("category{level}:");
    let told = text
        .lines()
        .find_map(|line| line.strip_prefix(&label))
        .map(|name| name.trim().to_owned());

    told.unwrap_or_else(|| format!("L{level}-{}", hash(text) % kinds))
}

fn category(text: &str, level: u64, kinds: u64, listed: &[&str], may_add: bool) -> String {
    let wished = wished(text, level, kinds);
    if may_add || listed.is_empty() || listed.contains(&wished.as_str()) {
        return wished;
    }

    let nearest = hash(text) % listed.len() as u64;
    listed
        .iter()
        .zip(0u64..)
        .find(|(_, index)| *index == nearest)
        .map_or(wished, |(name, _)| (*name).to_owned())
}

fn select(frame: &Frame<'_>) -> Value {
    let options = frame.list("options:");
    let query = words(frame.value("query:").unwrap_or_default());
    let most = frame
        .value("select: at most")
        .and_then(first_number)
        .unwrap_or(1);

    let count = options
        .len()
        .min(usize::try_from(most).unwrap_or(usize::MAX));
    let mut ranked = options;

    // Stable, so that equal options stay in order.
    ranked.sort_by_key(|label| Reverse(words(label).intersection(&query).count()));
    let selections: Vec<Value> = ranked
        .iter()
        .take(count)
        .enumerate()
        .map(|(place, label)| json!({"category": label, "ranked_relevance": count - place}))
        .collect();

    json!({ "selections": selections })
}

fn summarize(frame: &Frame<'_>) -> Value {
    let summaries: Vec<Value> = frame
        .chunks
        .iter()
        .map(|chunk| {
            let target = chunk
                .note
                .split_once("target_chars=")
                .and_then(|(_, rest)| first_number(rest));
            json!({"chunk_id": id(chunk), "summary": head(&chunk.text, target.unwrap_or(100))})
        })
        .collect();
    json!({ "summaries": summaries })
}

fn answer(frame: &Frame<'_>) -> Value {
    let Some(first) = frame.chunks.first() else {
        return json!({"answer": "No chunks were given."});
    };
    let ids: Vec<&str> = frame.chunks.iter().map(|chunk| chunk.id.as_str()).collect();
    json!({"answer": format!("From chunks {}: {}", ids.join(", "), head(&first.text, 80))})
}

/// Several documents, each under its number.
fn helpers(user: &str) -> Value {
    let (mut documents, mut number) = (Vec::new(), None);
    for line in user.lines() {
        if let Some(id) = line.strip_prefix("Document ") {
            number = first_number(id);
        } else if let (Some(name), Some(id)) = (line.strip_prefix("filename: "), number.take()) {
            documents.push(json!({
                "id": id,
                "author": "Ada Example",
                "date": "2024-05-01",
                "topic": "Testing",
                "summary": format!("A text named {name}."),
            }));
        }
    }

    json!({ "documents": documents })
}

fn helper(frame: &Frame<'_>) -> Value {
    let filename = frame.value("filename:").unwrap_or("unknown");
    json!({
        "author": "Ada Example",
        "date": "2024-05-01",
        "topic": "Testing",
        "summary": format!("A text named {filename}."),
    })
}

/// In prompted mode, the schema is in the prompt.
fn other(seen: &Seen) -> Value {
    let schema = seen
        .schema
        .clone()
        .or_else(|| written_schema(&seen.system))
        .or_else(|| written_schema(&seen.user));
    schema.map_or_else(|| json!({}), |schema| minimal::value(&schema))
}

/// The first JSON object in `text` that looks like a schema.
fn written_schema(text: &str) -> Option<Value> {
    text.match_indices('{').find_map(|(at, _)| {
        let value = serde_json::Deserializer::from_str(&text[at..])
            .into_iter::<Value>()
            .next()?
            .ok()?;
        (value.get("properties").is_some() || value.get("$ref").is_some()).then_some(value)
    })
}

/// Numeric ids are returned as numbers, as the schemas require.
fn id(chunk: &Chunk) -> Value {
    chunk
        .id
        .parse::<u64>()
        .map_or_else(|_| chunk.id.as_str().into(), Value::from)
}

fn head(text: &str, chars: u64) -> String {
    text.chars()
        .take(usize::try_from(chars).unwrap_or(usize::MAX))
        .collect()
}

pub(super) fn words(text: &str) -> HashSet<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// FNV-1a: the standard library's hasher may change between releases, answers must not.
pub(super) fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classify_frame(allowed: &str) -> String {
        format!(
            "contextual_helper: none\nlevel: 2 of 3\nparent: Physics\ncategories:\n- Waves\n- Light\n\
             new categories: {allowed}\nChunk 1:\n\"\"\"\ncategory2: Sound\nabc\n\"\"\"\nChunk 2:\n\"\"\"\nLonely\n\"\"\"\n"
        )
    }

    #[test]
    fn classify_follows_the_text_and_the_hash() {
        let answer = classify(&Frame::read(&classify_frame("allowed")), 3);
        assert_eq!(answer["chunks"][0], json!({"id": 1, "category": "Sound"}));
        assert_eq!(
            answer["chunks"][1]["category"],
            format!("L2-{}", hash("Lonely") % 3)
        );
    }

    #[test]
    fn classify_uses_only_the_list_if_it_is_closed() {
        let answer = classify(&Frame::read(&classify_frame("not allowed")), 3);
        for chunk in answer["chunks"].as_array().unwrap() {
            assert!(["Waves", "Light"].contains(&chunk["category"].as_str().unwrap()));
        }
    }

    #[test]
    fn classify_finds_the_path_of_a_text_in_a_shortlist() {
        let frame = |entries: &str| {
            format!(
                "level: 0 of 2\nparent: (root)\ncategories:\n{entries}- none of these\n\
                 new categories: not allowed\nChunk 1:\n\"\"\"\ncategory1: Home\ncategory2: Heating\n\"\"\"\n"
            )
        };
        for (entries, wanted) in [
            (
                "- Home / Garden\n- Home / Heating\n- Home\n",
                "Home / Heating",
            ),
            ("- Home / Garden\n- Home\n", "Home"),
            ("- Music\n", "none of these"),
        ] {
            let answer = classify(&Frame::read(&frame(entries)), 3);
            assert_eq!(answer["chunks"][0]["category"], wanted);
        }
    }

    #[test]
    fn select_ranks_by_shared_words() {
        let frame = "query: how do sea waves move\nselect: at most 2\noptions:\n- Art\n- Land\n- Sea / Waves\n";
        let answer = select(&Frame::read(frame));
        let expected = json!([
            {"category": "Sea / Waves", "ranked_relevance": 2},
            {"category": "Art", "ranked_relevance": 1},
        ]);

        assert_eq!(answer["selections"], expected);
    }

    #[test]
    fn summarize_cuts_characters_not_bytes() {
        let frame =
            "Chunk 12 (original_chars=6, target_chars=3):\n\"\"\"\näöüabc\n\"\"\"\nSummarize.";
        let answer = summarize(&Frame::read(frame));
        assert_eq!(
            answer,
            json!({"summaries": [{"chunk_id": 12, "summary": "äöü"}]})
        );
    }

    #[test]
    fn answer_cites_all_and_quotes_the_first() {
        let frame =
            "query: q\nChunk 4 [A]:\n\"\"\"\nfour\n\"\"\"\nChunk 9 [B]:\n\"\"\"\nnine\n\"\"\"\n";
        assert_eq!(
            answer(&Frame::read(frame)),
            json!({"answer": "From chunks 4, 9: four"})
        );
    }

    #[test]
    fn a_schema_is_found_in_prose() {
        let text = r#"Reply like {"x"} and by {"type":"object","properties":{"a":{}}} only."#;
        assert!(written_schema(text).is_some());
    }
}
