//! Queries with a scripted model: the walk, the chunks read, the budget, receipts.

mod auto;
mod budget;
mod command;
mod concurrency;
mod engines;
mod evaluating;
mod failures;
mod identifiers;
mod jobs;
mod limits;
mod reading;
mod receipts;
mod settings;
mod streaming;
mod summaries;
mod walk;
mod with_memories;

use memoir::scripted_model::Seen;
use memoir_text::tokens::TokenCounter;
use serde_json::Value;

use crate::support::library::{Desk, Filed};

/// Three categories on each level, and a chunk in every leaf that contains its path.
pub async fn three_by_three(desk: &Desk) {
    let mut chunks: Vec<(Vec<&str>, String)> = Vec::new();
    for one in ["Animals", "Plants", "Stones"] {
        for two in ["Big", "Middling", "Small"] {
            for three in ["Old", "Recent", "New"] {
                chunks.push((
                    vec![one, two, three],
                    format!("{one} that are {two} and {three}. "),
                ));
            }
        }
    }

    let filed: Vec<Filed<'_>> = chunks
        .iter()
        .map(|(path, text)| (path.as_slice(), text.as_str()))
        .collect();

    desk.library.add("/nature.txt", &filed).await;
}

pub fn tokens(text: &str) -> i64 {
    i64::try_from(TokenCounter::for_model(Some("gpt-4o")).count(text)).unwrap()
}

/// Tokens of everything that a model reads: the messages, and the schema or tool beside them.
pub fn sent_tokens(seen: &Seen) -> i64 {
    let beside = ["response_format", "tools", "tool_choice"];
    let beside = beside.iter().filter_map(|name| seen.body.get(name));
    let beside: i64 = beside.map(|value| tokens(&value.to_string())).sum();
    tokens(&seen.system) + tokens(&seen.user) + beside
}

/// The values of one field in a list.
pub fn each(list: &Value, field: &str) -> Vec<Value> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|item| item[field].clone())
        .collect()
}

pub fn texts(result: &Value) -> Vec<String> {
    each(&result["chunks"], "text_content")
        .iter()
        .map(|text| text.as_str().unwrap().to_owned())
        .collect()
}
