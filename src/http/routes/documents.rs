//! One source for a description and a time.

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

/// Retrieve one source
///
/// Exactly one version of one source, by its name, what it is about, its tags and a time.
/// Sources of this space and end user that retrieval may use are looked at, nothing else. A name,
/// tags or a time that nothing fits are left out, which the answer says; with `strict` that is a
/// 404. With `Accept: text/plain` the text alone, and the rest in headers.
#[utoipa::path(
    post, path = "/v1/documents/retrieve", tag = "documents", operation_id = "retrieve_document",
    request_body = RetrieveDocumentRequest,
    responses(
        (
            status = 200, description = "The source.",
            content((DocumentResponse = "application/json"), (String = "text/plain")),
            headers(
                ("X-Memoir-Source-Id" = String, description = "Of `text/plain`: the source."),
                ("X-Memoir-Source-Version" = String, description = "Of `text/plain`: the version."),
                ("X-Memoir-Relaxed" = String, description = "Of `text/plain`: the filters that were left out, if any."),
                ("X-Memoir-Warnings" = String, description = "Of `text/plain`: the codes of the warnings, if any."),
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
        .retrieve(&caller.space, request.into_wish()?)
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

    // Whatever the text is, a browser must not run it.
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

/// Whether the caller would rather have plain text than JSON; JSON if they do not care.
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
    fn text_is_given_to_whoever_prefers_it() {
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
