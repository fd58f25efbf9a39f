//! `recall`: what was said and remembered that has to do with a question, as text for a prompt.

use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::api::ApiRequest;
use super::super::bounded::{Output, cut, fitted};
use super::super::call::{Call, ToolError};

pub const DESCRIPTION: &str = "Find what was said or remembered in earlier conversations that matters for the \
current question: facts and preferences of the user, decisions, messages, each with its date. Call it before you \
answer anything that may depend on the past. Do not use it to search documents that were ingested (use ask), and do \
not store its result again.";

const NOTHING: &str = "Nothing was remembered about this. Stored documents are searched by ask.";
const SHORTENED: &str = "\n[… shortened: ask a narrower question]";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arguments {
    /// What the user asks or says, or what you want to know, as a sentence.
    #[schemars(length(min = 1, max = 4000))]
    query: String,
    /// Maximum tokens of the text; 2000 if omitted.
    #[schemars(range(min = 10, max = 200_000))]
    max_tokens: Option<u32>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Recalled {
    /// Whether anything has to do with the question. If not, the text has preferences and pinned memories only.
    found: bool,
    /// The memories as text, with dates.
    text: String,
    /// The memories in the text, best first.
    memories: Vec<RecalledMemory>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct RecalledMemory {
    /// For `read` and `forget`.
    id: String,
    /// `message`, `fact`, `preference` or `summary`.
    kind: String,
    /// When it was said.
    created_at: String,
}

pub async fn run(call: &Call<'_>, given: Arguments) -> Result<CallToolResult, ToolError> {
    let mut body = json!({"query": given.query});
    if let Some(user) = &call.user {
        body["user_id"] = user.as_str().into();
    }
    if let Some(most) = given.max_tokens {
        body["max_tokens"] = most.into();
    }

    let context = call.json(ApiRequest::post("/v1/context", body)).await?;
    let text = context["context"].as_str().unwrap_or_default();
    let memories = context["memories"].as_array().into_iter().flatten();
    let included: Vec<&Value> = memories
        .filter(|memory| memory["included"] == true)
        .collect();

    Ok(fitted(call.max_result_tokens, |chars| {
        // The text is sent twice, and an id takes about as much as 100 characters.
        let text = cut(text, chars / 2, SHORTENED);
        let shown = included.iter().take(chars / 200);
        let recalled = Recalled {
            found: context["found"].as_bool().unwrap_or(!text.is_empty()),
            memories: shown.map(|memory| shown_memory(memory)).collect(),
            text: if text.is_empty() {
                NOTHING.to_owned()
            } else {
                text
            },
        };
        Output {
            text: recalled.text.clone(),
            data: json!(recalled),
        }
    }))
}

fn shown_memory(memory: &Value) -> RecalledMemory {
    let text = |name: &str| memory[name].as_str().unwrap_or_default().to_owned();
    RecalledMemory {
        id: text("id"),
        kind: text("type"),
        created_at: text("created_at"),
    }
}
