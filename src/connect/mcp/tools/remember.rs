//! `remember`: stores what was said, or what is worth knowing later.

use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::super::api::{ApiRequest, query, segment};
use super::super::bounded::{Output, fitted};
use super::super::call::{Call, ToolError};

pub const DESCRIPTION: &str = "Store something worth knowing in later conversations: a fact, a preference, a \
decision, or what was said. Use it when the user asks to remember something, states something lasting about \
themselves or their work, or when a decision is made. One matter per call, in a sentence that is clear on its own, \
with names instead of pronouns. Do not use it for whole documents or files (use ingest), for text that recall \
returned, or for keys and passwords, which are replaced before anything is stored.";

/// What kind of memory it is.
#[derive(Debug, Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Kind {
    #[default]
    Fact,
    Preference,
}

/// Who said it.
#[derive(Debug, Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Role {
    #[default]
    User,
    Assistant,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arguments {
    /// What to remember, stored verbatim.
    #[schemars(length(min = 1, max = 200_000))]
    text: String,
    /// The conversation that the text is a message of, such as its id in your application; created if it does not
    /// exist. Without it, the text is stored as a fact or a preference of the user.
    #[schemars(length(min = 1, max = 128))]
    thread: Option<String>,
    /// With `thread`: who said it.
    role: Option<Role>,
    /// Without `thread`: whether it is a fact, or a preference that holds whatever the subject.
    kind: Option<Kind>,
    /// Words to find it by, at most 20.
    #[serde(default)]
    #[schemars(length(max = 20))]
    tags: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Remembered {
    /// The id of the memory, for `forget` and `read`.
    id: String,
    /// `message`, `fact` or `preference`.
    kind: String,
    /// Whether secrets in the text were replaced before it was stored.
    redacted: bool,
}

pub async fn run(call: &Call<'_>, given: Arguments) -> Result<CallToolResult, ToolError> {
    let mut body = Map::new();
    body.insert("content".to_owned(), given.text.into());
    body.insert("tags".to_owned(), given.tags.into());
    let user = call.user.as_deref();
    let path = if let Some(thread) = &given.thread {
        if given.kind.is_some() {
            let rule = "kind: is for memories outside of a conversation; omit it, or omit thread";
            return Err(ToolError::Argument(rule.to_owned()));
        }
        body.insert("role".to_owned(), json!(given.role.unwrap_or_default()));
        let thread = segment(thread);
        format!(
            "/v1/threads/by-name/{thread}/messages{}",
            query(&[("user_id", user)])
        )
    } else {
        if given.role.is_some() {
            let rule = "role: is for messages of a conversation; name its thread, or omit role";
            return Err(ToolError::Argument(rule.to_owned()));
        }
        body.insert("type".to_owned(), json!(given.kind.unwrap_or_default()));
        body.extend(user.map(|user| ("user_id".to_owned(), user.into())));
        "/v1/memories".to_owned()
    };

    let stored = call
        .json(ApiRequest::post(path, Value::Object(body)))
        .await?;
    let text = |name: &str| stored[name].as_str().unwrap_or_default().to_owned();
    let done = Remembered {
        id: text("id"),
        kind: text("type"),
        redacted: stored["redacted"].as_bool().unwrap_or_default(),
    };
    let hidden = if done.redacted {
        " Secrets in it were replaced before."
    } else {
        ""
    };
    Ok(fitted(call.max_result_tokens, |_| Output {
        text: format!("Remembered as {} {}.{hidden}", done.kind, done.id),
        data: json!(done),
    }))
}
