//! Sources and categories as resources, which a client can list, read and attach to a conversation.

use std::fmt::Write as _;

use rmcp::ErrorData;
use rmcp::model::{
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate,
};
use serde_json::Value;

use super::api::{ApiFailure, ApiRequest, query, segment};
use super::bounded::{cut, fitting};
use super::call::Call;

const TREE: &str = "memoir://categories";
const SOURCE: &str = "memoir://sources/";
const CATEGORY: &str = "memoir://categories/";
const PAGE: &str = "20";
/// Characters of a helper that describes a resource.
const MAX_DESCRIPTION: usize = 200;
const PROMPT_SHORTENED: &str = "\n[… shortened: mcp.max_result_tokens is too low for this prompt]";
const SHORTENED: &str = "\n[… shortened: the tool `read` returns the rest]";

pub fn templates() -> ListResourceTemplatesResult {
    let template = |uri: &str, name: &str, title: &str, description: &str| {
        ResourceTemplate::new(uri, name)
            .with_title(title)
            .with_description(description)
            .with_mime_type("text/plain")
    };
    ListResourceTemplatesResult::with_all_items(vec![
        template(
            "memoir://sources/{id}",
            "source",
            "Document",
            "The newest version of a document, verbatim.",
        ),
        template(
            "memoir://categories/{id}",
            "category",
            "Category",
            "The chunks of a category, oldest first.",
        ),
    ])
}

/// A page of resources; the first one begins with the hierarchy.
pub async fn list(call: &Call<'_>, cursor: Option<&str>) -> Result<ListResourcesResult, ErrorData> {
    let filters = [
        ("limit", Some(PAGE)),
        ("cursor", cursor),
        ("user_id", call.user.as_deref()),
    ];
    let path = format!("/v1/sources{}", query(&filters));
    let page = call
        .json(ApiRequest::get(path))
        .await
        .map_err(|failure| refused(&failure))?;
    let mut resources = Vec::new();
    // The hierarchy is that of the whole space, so a single user does not see it.
    if cursor.is_none() && call.user.is_none() {
        let tree = Resource::new(TREE, "categories").with_title("Categories");
        let tree = tree.with_description(
            "The category hierarchy, with the number of chunks in each category.",
        );
        resources.push(tree.with_mime_type("text/plain"));
    }
    resources.extend(page["items"].as_array().into_iter().flatten().map(resource));

    let mut listed = ListResourcesResult::with_all_items(resources);
    listed.next_cursor = page["next_cursor"].as_str().map(str::to_owned);
    Ok(listed)
}

fn resource(source: &Value) -> Resource {
    let text = |name: &str| source[name].as_str().unwrap_or_default();
    let mut resource = Resource::new(format!("{SOURCE}{}", text("id")), text("filename"))
        .with_title(text("path"))
        .with_mime_type("text/plain");
    if !text("helper").is_empty() {
        resource = resource.with_description(cut(text("helper"), MAX_DESCRIPTION, "…"));
    }
    match source["size_bytes"].as_u64() {
        Some(size) => resource.with_size(size),
        None => resource,
    }
}

pub async fn read(call: &Call<'_>, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let text = if uri == TREE && call.user.is_none() {
        tree(call).await
    } else if let Some(id) = uri.strip_prefix(SOURCE) {
        source(call, id).await
    } else if let Some(id) = uri.strip_prefix(CATEGORY).filter(|_| call.user.is_none()) {
        chunks(call, id).await
    } else {
        return Err(unknown(uri));
    };

    let text = text
        .map_err(|failure| refused(&failure))?
        .ok_or_else(|| unknown(uri))?;
    let text = fitting(&text, call.max_result_tokens, SHORTENED);
    Ok(ReadResourceResult::new(vec![ResourceContents::text(
        text, uri,
    )]))
}

async fn tree(call: &Call<'_>) -> Result<Option<String>, ApiFailure> {
    let tree = call
        .json(ApiRequest::get("/v1/categories/tree?limit=500"))
        .await?;
    let mut told = String::new();
    for category in tree["items"].as_array().into_iter().flatten() {
        let level = category["level"]
            .as_u64()
            .and_then(|level| usize::try_from(level).ok());
        let indent = "  ".repeat(level.unwrap_or(1).saturating_sub(1));
        let name = category["name"].as_str().unwrap_or_default();
        let _ = writeln!(
            told,
            "{indent}{name} ({}, id {})",
            category["chunk_count"], category["id"]
        );
    }
    if !tree["next_cursor"].is_null() {
        told.push_str("[… more categories: memoir tree prints all]\n");
    }

    Ok(Some(told))
}

async fn source(call: &Call<'_>, id: &str) -> Result<Option<String>, ApiFailure> {
    let id = segment(id);
    let Some(source) = call
        .found(ApiRequest::get(format!("/v1/sources/{id}")))
        .await?
    else {
        return Ok(None);
    };
    let version = &source["latest_version"];
    let path = format!("/v1/sources/{id}/versions/{version}/content");
    match call.send(ApiRequest::get(path)).await?.accepted() {
        Err(failure) if failure.is_not_found() => Ok(None),
        text => Ok(Some(text?)),
    }
}

async fn chunks(call: &Call<'_>, id: &str) -> Result<Option<String>, ApiFailure> {
    let path = format!("/v1/categories/{}/chunks?limit={PAGE}", segment(id));
    let Some(page) = call.found(ApiRequest::get(path)).await? else {
        return Ok(None);
    };
    let chunks = page["items"].as_array().into_iter().flatten();
    let texts = chunks.filter_map(|chunk| chunk["text_content"].as_str());
    Ok(Some(texts.collect::<Vec<_>>().join("\n\n---\n\n")))
}

fn unknown(uri: &str) -> ErrorData {
    ErrorData::resource_not_found(format!("there is no resource {}", cut(uri, 200, "…")), None)
}

fn refused(failure: &ApiFailure) -> ErrorData {
    match failure {
        ApiFailure::Refused { status, .. } if status.is_client_error() => {
            ErrorData::invalid_request(failure.to_string(), None)
        }
        _ => ErrorData::internal_error(failure.to_string(), None),
    }
}

/// The prompt of the workbench for a task.
pub async fn prompt(call: &Call<'_>, task: &str) -> Result<String, ErrorData> {
    let mut body = serde_json::json!({"task": task});
    if let Some(user) = &call.user {
        body["user_id"] = user.as_str().into();
    }
    let composed = call
        .json(ApiRequest::post("/v1/prompts", body))
        .await
        .map_err(|failure| refused(&failure))?;
    let prompt = composed["prompt"].as_str().unwrap_or_default();
    Ok(fitting(prompt, call.max_result_tokens, PROMPT_SHORTENED))
}
