//! The API reference: the OpenAPI document and a page to browse it, both served from the binary.

use std::borrow::Cow;
use std::io::Read as _;
use std::sync::{Arc, LazyLock};

use axum::body::{Body, Bytes};
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use flate2::read::GzDecoder;
use utoipa_swagger_ui::Config;

use crate::http::error::ApiError;
use crate::http::{middleware, openapi};

static OPENAPI_JSON: LazyLock<Bytes> =
    LazyLock::new(|| openapi::to_json(openapi::Version::V3_1).into());
static PAGE: LazyLock<Arc<Config<'static>>> =
    LazyLock::new(|| Arc::new(Config::from("/openapi.json")));

/// The page may load its own files and inline styles, nothing else.
const PAGE_POLICY: &str = "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'";

/// Get the OpenAPI document
///
/// Returns OpenAPI 3.1. For older generators, `memoir openapi --spec 3.0` writes the same API as
/// 3.0.
#[utoipa::path(
    get, path = "/openapi.json", tag = "system", operation_id = "get_openapi", security(()),
    responses((status = 200, description = "The OpenAPI document.", content_type = "application/json", body = Object))
)]
pub async fn get_openapi() -> Response {
    file("application/json", OPENAPI_JSON.clone())
}

/// Browse the API
///
/// Serves a page that shows every operation and lets you try it.
#[utoipa::path(
    get, path = "/docs", tag = "system", operation_id = "get_docs", security(()),
    responses((status = 200, description = "The page.", content_type = "text/html", body = String))
)]
pub async fn get_docs() -> Result<Response, ApiError> {
    serve("index.html", false)
}

/// A file of the page.
pub async fn get_docs_file(
    Path(path): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let accepted = headers.get(header::ACCEPT_ENCODING);
    let accepted = accepted.and_then(|value| value.to_str().ok());
    serve(&path, accepted.is_some_and(|value| value.contains("gzip")))
}

/// A file of the page, as it is stored if the client takes `packed` files.
fn serve(path: &str, packed: bool) -> Result<Response, ApiError> {
    let internal = |error: &dyn ToString| ApiError::internal(error.to_string());
    let found = utoipa_swagger_ui::serve(path, Arc::clone(&PAGE))
        .map_err(|error| internal(&error))?
        .ok_or_else(middleware::no_such_path)?;

    let stays_packed = found.gzpipped && packed;
    let mut bytes = found.bytes;
    if found.gzpipped && !packed {
        let mut plain = Vec::new();
        GzDecoder::new(&*bytes)
            .read_to_end(&mut plain)
            .map_err(|error| internal(&error))?;
        bytes = Cow::Owned(plain);
    }

    if path == "index.html" && !stays_packed {
        // The links of the page are relative to a folder, and /docs is not one.
        let page =
            String::from_utf8_lossy(&bytes).replacen("<head>", "<head><base href=\"/docs/\">", 1);
        bytes = Cow::Owned(page.into_bytes());
    }

    let mut response = file(&found.content_type, Bytes::from(bytes.into_owned()));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(PAGE_POLICY),
    );
    if stays_packed {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }

    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    Ok(response)
}

fn file(media_type: &str, bytes: Bytes) -> Response {
    let mut response = Response::new(Body::from(bytes));
    let headers = response.headers_mut();
    if let Ok(media_type) = HeaderValue::from_str(media_type) {
        headers.insert(header::CONTENT_TYPE, media_type);
    }

    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
