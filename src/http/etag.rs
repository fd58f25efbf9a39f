//! Entity tags: a hash of what a response shows, and the conditions that name one.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;

use memoir_text::hash::sha256_hex;

/// A hash of everything that a response shows.
pub fn etag(shown: &impl Serialize) -> HeaderValue {
    let shown = serde_json::to_vec(shown).unwrap_or_default();
    let etag = format!("\"{}\"", &sha256_hex(&shown)[..32]);
    HeaderValue::from_str(&etag).unwrap_or(HeaderValue::from_static("\"\""))
}

/// The response with its tag, or 304 if the client has it already.
pub fn respond(headers: &HeaderMap, shown: &impl Serialize) -> Response {
    let etag = etag(shown);
    if names(headers, &header::IF_NONE_MATCH, &etag, true) {
        return (StatusCode::NOT_MODIFIED, [(header::ETAG, etag)]).into_response();
    }

    ([(header::ETAG, etag)], axum::Json(shown)).into_response()
}

/// The response to a change: what it shows now, with its tag.
pub fn changed(shown: &impl Serialize) -> Response {
    ([(header::ETAG, etag(shown))], axum::Json(shown)).into_response()
}

/// The condition in `If-Match` on a thing that responses show as it is.
pub fn condition<T: Serialize>(headers: &HeaderMap) -> impl Fn(&T) -> bool {
    |thing| is_unchanged(headers, thing)
}

/// The condition in `If-Match` on a thing, of which a response shows `shown`.
pub fn condition_on<'h, T, S: Serialize>(
    headers: &'h HeaderMap,
    shown: impl Fn(&T) -> S + 'h,
) -> impl Fn(&T) -> bool + 'h {
    move |thing| is_unchanged(headers, &shown(thing))
}

/// Whether the condition in `If-Match`, if there is one, holds.
pub fn is_unchanged(headers: &HeaderMap, shown: &impl Serialize) -> bool {
    !headers.contains_key(header::IF_MATCH)
        || names(headers, &header::IF_MATCH, &etag(shown), false)
}

/// Whether the condition in `If-Match`, if there is one, holds for a thing that may not exist yet:
/// what does not exist has no tag.
pub fn is_unchanged_if_any(headers: &HeaderMap, shown: Option<&impl Serialize>) -> bool {
    match shown {
        Some(shown) => is_unchanged(headers, shown),
        None => !headers.contains_key(header::IF_MATCH),
    }
}

/// Whether the header contains this tag. `weak` accepts `W/`, as `If-None-Match` does and
/// `If-Match` does not.
fn names(headers: &HeaderMap, header: &HeaderName, etag: &HeaderValue, weak: bool) -> bool {
    let etag = etag.to_str().unwrap_or_default();
    let given = headers.get_all(header).into_iter();
    let given = given.filter_map(|value| value.to_str().ok());
    let mut tags = given.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|one| {
        let strong = if weak {
            one.strip_prefix("W/").unwrap_or(one)
        } else {
            one
        };
        one == "*" || strong == etag
    })
}
