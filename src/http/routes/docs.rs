//! The API reference: the OpenAPI document and a page to browse it, both served from the binary.

use std::sync::LazyLock;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{Redirect, Response};

use crate::http::error::ApiError;
use crate::http::{middleware, openapi};
use crate::web;

static OPENAPI_JSON: LazyLock<Bytes> =
    LazyLock::new(|| openapi::to_json(openapi::Version::V3_1).into());

/// Get the OpenAPI document
///
/// Returns OpenAPI 3.1. For older generators, `memoir openapi --spec 3.0` writes the same API as
/// 3.0.
#[utoipa::path(
    get, path = "/openapi.json", tag = "system", operation_id = "get_openapi", security(()),
    responses((status = 200, description = "The OpenAPI document.", content_type = "application/json", body = Object))
)]
pub async fn get_openapi() -> Response {
    let mut response = Response::new(Body::from(OPENAPI_JSON.clone()));
    for (name, value) in [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-cache"),
    ] {
        let headers = response.headers_mut();
        headers.insert(name, HeaderValue::from_static(value));
    }

    response
}

/// Browse the API
///
/// Serves a page that shows every operation and lets you try it.
#[utoipa::path(
    get, path = "/docs", tag = "system", operation_id = "get_docs", security(()),
    responses((status = 200, description = "The page.", content_type = "text/html", body = String))
)]
pub async fn get_docs(headers: HeaderMap) -> Result<Response, ApiError> {
    web::file("docs.html", &headers).ok_or_else(middleware::no_such_path)
}

/// The links of the page are relative to the folder that contains `docs`, also behind a proxy.
pub async fn redirect_to_docs() -> Redirect {
    Redirect::permanent("../docs")
}
