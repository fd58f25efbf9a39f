//! `ask`: answers a question from what is stored, with citations.

use std::fmt::Write as _;

use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::api::ApiRequest;
use super::super::bounded::{Output, cut, fitted};
use super::super::call::{Call, ToolError};
use crate::base::user_id;

pub const DESCRIPTION: &str = "Answer a question from the documents and conversations that are stored, with \
citations: the sentence, the file and its heading. Use it for questions about content that was ingested, and when an \
answer must be backed by a source. If nothing stored fits, it says so instead of guessing. Do not use it for general \
knowledge, or for the preferences of the user (use recall).";

const SHORTENED: &str = " [… shortened]";

/// What to answer from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Scope {
    Sources,
    Memories,
    #[default]
    Both,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arguments {
    /// The question, complete in itself.
    #[schemars(length(min = 1, max = 100_000))]
    question: String,
    /// Whether to answer from documents (`sources`), from conversations and remembered facts (`memories`), or from
    /// both; both if omitted.
    scope: Option<Scope>,
    /// Only documents that have all of these tags.
    #[serde(default)]
    #[schemars(length(max = 100))]
    tags: Vec<String>,
    /// Only these documents, by their ids.
    #[serde(default)]
    #[schemars(length(max = 100))]
    source_ids: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answered {
    /// Whether anything stored has to do with the question.
    found: bool,
    /// The answer; empty if there is none.
    answer: String,
    /// How sure it is that the evidence answers the question: `high`, `medium`, `low`, or empty if unknown.
    confidence: String,
    /// The sentences that the answer is based on.
    citations: Vec<Citation>,
    /// The id of the receipt, which says why this was found.
    query_id: String,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Citation {
    /// The number in square brackets in the answer.
    number: i64,
    /// The sentence, verbatim.
    quote: String,
    /// The document or memory that it is from, for `read`.
    id: String,
    /// The file and the headings above the sentence; for a memory, `memory`.
    place: String,
    /// Where the sentence starts, for `read`.
    start_char: i64,
}

pub async fn run(call: &Call<'_>, given: Arguments) -> Result<CallToolResult, ToolError> {
    let scope = given.scope.unwrap_or_default();
    let mut body = json!({
        "query": given.question, "scope": scope, "tags": given.tags, "source_ids": given.source_ids,
    });
    // Memories belong to a user, and without a name that is `default`.
    let whose = call
        .user
        .as_deref()
        .or((scope != Scope::Sources).then_some(user_id::DEFAULT));
    if let Some(user) = whose {
        body["user_id"] = user.into();
    }

    let result = call.json(ApiRequest::post("/v1/queries", body)).await?;
    let text = |name: &str| result[name].as_str().unwrap_or_default();
    let citations = result["citations"].as_array();
    let citations: Vec<Citation> = citations.into_iter().flatten().map(citation).collect();

    Ok(fitted(call.max_result_tokens, |chars| {
        // The answer and the quotes are sent twice.
        let each = chars / 2 / (citations.len() + 1);
        let shown = citations.iter().take(chars / 400).map(|one| Citation {
            quote: cut(&one.quote, each, SHORTENED),
            place: cut(&one.place, each.min(300), SHORTENED),
            ..one.clone()
        });
        let answered = Answered {
            found: result["found"].as_bool().unwrap_or_default(),
            answer: cut(text("answer"), chars / 3, SHORTENED),
            confidence: text("confidence").to_owned(),
            citations: shown.collect(),
            query_id: text("id").to_owned(),
        };
        Output {
            text: told(&answered),
            data: json!(answered),
        }
    }))
}

fn citation(one: &Value) -> Citation {
    let text = |name: &str| one[name].as_str().unwrap_or_default();
    let id = [text("source_id"), text("memory_id")];
    let place = [text("filename"), text("heading")];
    let place: Vec<&str> = place.into_iter().filter(|part| !part.is_empty()).collect();
    Citation {
        number: one["number"].as_i64().unwrap_or_default(),
        quote: text("quote").to_owned(),
        id: id.concat(),
        place: if place.is_empty() {
            "memory".to_owned()
        } else {
            place.join(" › ")
        },
        start_char: one["start_char"].as_i64().unwrap_or_default(),
    }
}

fn told(answered: &Answered) -> String {
    if answered.answer.is_empty() {
        return "Nothing that is stored answers this question.".to_owned();
    }

    let mut told = answered.answer.clone();
    if !answered.confidence.is_empty() {
        let _ = write!(told, "\n\nConfidence: {}", answered.confidence);
    }
    for one in &answered.citations {
        let Citation {
            number,
            quote,
            place,
            id,
            ..
        } = one;
        let _ = write!(told, "\n[{number}] “{quote}” ({place}, {id})");
    }

    told
}
