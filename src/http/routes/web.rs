//! The web page at `/` and its files.

use axum::extract::Path;
use axum::http::HeaderMap;
use axum::response::Response;

use crate::http::error::ApiError;
use crate::http::middleware;
use crate::web;

/// Open the page
///
/// The web page of the service: library, hierarchy, queries, conversations, vocabulary, policy,
/// workbench, jobs and status.
#[utoipa::path(
    get, path = "/", tag = "system", operation_id = "get_page", security(()),
    responses((status = 200, description = "The page.", content_type = "text/html", body = String))
)]
pub async fn get_page(headers: HeaderMap) -> Result<Response, ApiError> {
    web::file("index.html", &headers).ok_or_else(middleware::no_such_path)
}

/// A script, a stylesheet or the sample text.
pub async fn get_page_file(
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    web::file(&name, &headers).ok_or_else(middleware::no_such_path)
}
