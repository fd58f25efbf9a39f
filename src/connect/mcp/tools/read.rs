//! `read`: a stored document or a part of it, a chunk, or a memory.

use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::api::{ApiRequest, query, segment};
use super::super::bounded::{Output, fitted};
use super::super::call::{Call, ToolError};

pub const DESCRIPTION: &str = "Read a stored document, or a part of it, verbatim: by the id that a citation or a \
resource names, or by file name. Also reads a chunk or a memory by its id. A long document comes in parts: continue \
with start_char. Use it when the quoted sentences of ask are not enough. Do not use it to find something (use ask or \
recall).";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arguments {
    /// The id of a document, a memory or a chunk.
    #[schemars(length(min = 1, max = 128))]
    id: Option<String>,
    /// Instead of `id`: the file name of a document; of several, the one that changed last.
    #[schemars(length(min = 1, max = 255))]
    filename: Option<String>,
    /// The version of the document; the newest if omitted.
    #[schemars(range(min = 1))]
    version: Option<u32>,
    /// The character to start at; 0 if omitted.
    start_char: Option<u32>,
    /// Maximum characters to read; as many as a result may have if omitted.
    #[schemars(range(min = 1))]
    max_chars: Option<u32>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Read {
    /// `source`, `chunk` or `memory`.
    kind: String,
    id: String,
    /// The file name of a document, the path of categories of a chunk, or the type of a memory.
    name: String,
    /// The text, verbatim.
    text: String,
    start_char: usize,
    /// Where the text ends, exclusive.
    end_char: usize,
    /// Characters of the whole.
    total_chars: usize,
    /// Whether there is more after `end_char`.
    more: bool,
}

/// What was found, whole.
struct Whole {
    kind: &'static str,
    id: String,
    name: String,
    text: String,
}

pub async fn run(call: &Call<'_>, given: Arguments) -> Result<CallToolResult, ToolError> {
    let whole = match (&given.id, &given.filename) {
        (Some(id), None) => by_id(call, id, given.version).await?,
        (None, Some(name)) => by_name(call, name, given.version).await?,
        _ => {
            let rule = "send either id or filename";
            return Err(ToolError::Argument(rule.to_owned()));
        }
    };
    let Some(whole) = whole else {
        let hint = "nothing has this id or file name. Ids are in the citations of ask and in the resources.";
        return Err(ToolError::Argument(hint.to_owned()));
    };

    let size =
        |given: Option<u32>, other| given.map_or(other, |n| usize::try_from(n).unwrap_or(other));
    let start = size(given.start_char, 0);
    let most = size(given.max_chars, usize::MAX);
    let total = whole.text.chars().count();
    if start > total {
        let hint = format!("start_char: the text has {total} characters");
        return Err(ToolError::Argument(hint));
    }

    Ok(fitted(call.max_result_tokens, |chars| {
        // The text is sent twice.
        let text: String = whole
            .text
            .chars()
            .skip(start)
            .take(most.min(chars / 2))
            .collect();
        let end = start + text.chars().count();
        let more = end < total;
        let rest = if more {
            format!("\n[characters {start} to {end} of {total}; continue with start_char = {end}]")
        } else {
            String::new()
        };
        Output {
            text: format!("{text}{rest}"),
            data: json!(Read {
                kind: whole.kind.to_owned(),
                id: whole.id.clone(),
                name: whole.name.clone(),
                start_char: start,
                end_char: end,
                total_chars: total,
                more,
                text,
            }),
        }
    }))
}

async fn by_id(
    call: &Call<'_>,
    id: &str,
    version: Option<u32>,
) -> Result<Option<Whole>, ToolError> {
    if id.bytes().all(|byte| byte.is_ascii_digit()) {
        return chunk(call, id).await;
    }
    let source = ApiRequest::get(format!("/v1/sources/{}", segment(id)));
    if let Some(source) = call.found(source).await? {
        return content(call, &source, version).await;
    }

    memory(call, id).await
}

async fn by_name(
    call: &Call<'_>,
    name: &str,
    version: Option<u32>,
) -> Result<Option<Whole>, ToolError> {
    let filters = [
        ("filename", Some(name)),
        ("user_id", call.user.as_deref()),
        ("sort", Some("-updated_at")),
        ("limit", Some("1")),
    ];
    let page = call
        .json(ApiRequest::get(format!("/v1/sources{}", query(&filters))))
        .await?;
    match page["items"].get(0) {
        Some(source) => content(call, source, version).await,
        None => Ok(None),
    }
}

/// The text of a version of a source.
async fn content(
    call: &Call<'_>,
    source: &Value,
    version: Option<u32>,
) -> Result<Option<Whole>, ToolError> {
    let id = source["id"].as_str().unwrap_or_default();
    let version = version.map_or_else(|| source["latest_version"].to_string(), |n| n.to_string());
    let path = format!("/v1/sources/{}/versions/{version}/content", segment(id));
    let text = match call.send(ApiRequest::get(path)).await?.accepted() {
        Err(failure) if Call::names_nothing(&failure) => {
            let hint = format!("the document has no version {version}");
            return Err(ToolError::Argument(hint));
        }
        text => text?,
    };

    Ok(Some(Whole {
        kind: "source",
        id: id.to_owned(),
        name: source["filename"].as_str().unwrap_or_default().to_owned(),
        text,
    }))
}

async fn chunk(call: &Call<'_>, id: &str) -> Result<Option<Whole>, ToolError> {
    let Some(chunk) = call
        .found(ApiRequest::get(format!("/v1/chunks/{id}")))
        .await?
    else {
        return Ok(None);
    };
    // A chunk belongs to whom its source belongs to.
    let source = segment(chunk["source_id"].as_str().unwrap_or_default());
    let source = ApiRequest::get(format!("/v1/sources/{source}"));
    if call.user.is_some() && call.found(source).await?.is_none() {
        return Ok(None);
    }

    let path = chunk["category_path"].as_array().into_iter().flatten();
    let path: Vec<&str> = path.filter_map(Value::as_str).collect();
    Ok(Some(Whole {
        kind: "chunk",
        id: id.to_owned(),
        name: path.join(" / "),
        text: chunk["text_content"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
    }))
}

async fn memory(call: &Call<'_>, id: &str) -> Result<Option<Whole>, ToolError> {
    let user = query(&[("user_id", call.user.as_deref())]);
    let memory = ApiRequest::get(format!("/v1/memories/{}{user}", segment(id)));
    let memory = call.found(memory).await?;
    Ok(memory.map(|memory| Whole {
        kind: "memory",
        id: id.to_owned(),
        name: memory["type"].as_str().unwrap_or_default().to_owned(),
        text: memory["content"].as_str().unwrap_or_default().to_owned(),
    }))
}
