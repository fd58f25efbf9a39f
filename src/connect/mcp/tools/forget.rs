//! `forget`: deletes one memory or one document, and nothing else.

use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::super::api::{ApiRequest, query, segment};
use super::super::bounded::{Output, fitted};
use super::super::call::{Call, ToolError};

pub const DESCRIPTION: &str = "Permanently delete one memory or one document by its id, with everything that quotes \
it. Use it only when the user asks to forget or delete something, after recall or ask has shown its id. It cannot be \
undone.";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arguments {
    /// The id of the memory or the document.
    #[schemars(length(min = 1, max = 128))]
    id: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Forgotten {
    /// `memory` or `source`.
    kind: String,
    id: String,
    /// The receipt of the deletion, without content.
    receipt_id: String,
}

pub async fn run(call: &Call<'_>, given: Arguments) -> Result<CallToolResult, ToolError> {
    let id = segment(&given.id);
    let user = query(&[("user_id", call.user.as_deref())]);
    let memory = format!("/v1/memories/{id}{user}");
    let source = format!("/v1/sources/{id}");
    let (kind, path) = if call.found(ApiRequest::get(memory.clone())).await?.is_some() {
        ("memory", memory)
    } else if call.found(ApiRequest::get(source.clone())).await?.is_some() {
        ("source", source)
    } else {
        let hint =
            "no memory and no document has this id. Ids are in the results of recall and ask.";
        return Err(ToolError::Argument(hint.to_owned()));
    };

    let receipt = call.json(ApiRequest::delete(path)).await?;
    Ok(fitted(call.max_result_tokens, |_| Output {
        text: format!("Deleted the {kind} {}.", given.id),
        data: json!(Forgotten {
            kind: kind.to_owned(),
            id: given.id.clone(),
            receipt_id: receipt["id"].as_str().unwrap_or_default().to_owned(),
        }),
    }))
}
