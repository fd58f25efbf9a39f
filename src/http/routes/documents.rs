//! Retrieval of one document by its description and a time.

mod wire;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};

use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::JsonBody;
use crate::sources::retrieval::{DocumentRetrieval, Retrieved};

pub use wire::{DocumentResponse, RetrieveDocumentRequest};

/// Retrieve one document
///
/// Returns exactly one version of one source, selected by name, topic, tags and time. Only eligible
/// sources of this space and end user are considered. If no source matches the given name, tags or
/// time, memoir ignores that filter and lists it in `relaxed`; with `strict` it returns 404
/// instead. With `Accept: text/plain` the body is just the text, and the metadata is in headers.
#[utoipa::path(
    post, path = "/v1/documents/retrieve", tag = "documents", operation_id = "retrieve_document",
    request_body = RetrieveDocumentRequest,
    responses(
        (
            status = 200, description = "The selected version.",
            content((DocumentResponse = "application/json"), (String = "text/plain")),
            headers(
                ("X-Memoir-Source-Id" = String, description = "For `text/plain`: the id of the source."),
                ("X-Memoir-Source-Version" = String, description = "For `text/plain`: the version number."),
                ("X-Memoir-Relaxed" = String, description = "For `text/plain`: the ignored filters, if any."),
                ("X-Memoir-Warnings" = String, description = "For `text/plain`: the warning codes, if any."),
            ),
        ),
        (status = 404, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn retrieve_document(
    caller: Caller,
    State(documents): State<DocumentRetrieval>,
    headers: HeaderMap,
    JsonBody { value: request, .. }: JsonBody<RetrieveDocumentRequest>,
) -> Result<Response, ApiError> {
    let retrieved = documents
        .retrieve(&caller.call, request.into_input())
        .await?;
    if wants_text(&headers) {
        return Ok(as_text(retrieved));
    }

    Ok((
        [(header::VARY, "accept")],
        Json(DocumentResponse::from(retrieved)),
    )
        .into_response())
}

fn as_text(retrieved: Retrieved) -> Response {
    let relaxed = wire::relaxed(&retrieved)
        .into_iter()
        .map(|one| one.filter)
        .collect::<Vec<_>>()
        .join(", ");

    let warnings = wire::warnings(&retrieved)
        .into_iter()
        .map(|one| one.code)
        .collect::<Vec<_>>()
        .join(", ");

    let source_id = retrieved.found.source.id.to_string();
    let version = retrieved.found.version.version.to_string();

    // A browser must not execute the text, whatever it contains.
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::VARY, "accept"),
    ];

    let mut response = (headers, retrieved.content).into_response();
    let told = [
        ("x-memoir-source-id", source_id),
        ("x-memoir-source-version", version),
        ("x-memoir-relaxed", relaxed),
        ("x-memoir-warnings", warnings),
    ];

    for (name, value) in told.into_iter().filter(|(_, value)| !value.is_empty()) {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response
                .headers_mut()
                .insert(HeaderName::from_static(name), value);
        }
    }

    response
}

/// Whether the caller prefers plain text to JSON; without a preference, JSON.
fn wants_text(headers: &HeaderMap) -> bool {
    let named = headers
        .get_all(header::ACCEPT)
        .into_iter()
        .filter_map(|value| value.to_str().ok());

    let (mut text, mut json) = (0.0_f32, 0.0_f32);
    for range in named.flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
        let weight = parts
            .find_map(|part| part.strip_prefix("q="))
            .and_then(|q| q.parse().ok())
            .unwrap_or(1.0);

        match kind.as_str() {
            "text/plain" | "text/*" => text = text.max(weight),
            "application/json" | "application/*" => json = json.max(weight),
            _ => {}
        }
    }

    text > json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_plain_is_returned_if_the_client_prefers_it() {
        for (accept, wanted) in [
            ("", false),
            ("*/*", false),
            ("application/json", false),
            ("text/plain", true),
            ("text/*", true),
            ("text/plain;q=0.5, application/json", false),
            ("application/json;q=0.2, text/plain; q=0.9", true),
            ("text/plain, */*;q=0.1", true),
            ("text/plain;q=0", false),
            ("image/png", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_str(accept).unwrap());
            assert_eq!(wants_text(&headers), wanted, "{accept}");
        }
    }
}
