//! Which role each route needs: the one table, for the check and for the OpenAPI document.
//!
//! A route that is added needs `read` to be read from and `user` for everything else, unless it is
//! named here.

use axum::http::Method;

use crate::config::auth::Role;

/// Routes that are asked with POST and only read. Queries write a receipt, which is the service's
/// own record.
const READING: &[&str] = &[
    "/v1/documents/retrieve",
    "/v1/queries",
    "/v1/queries/estimate",
    // With `mode: live` it asks models again, and needs `user`: the handler looks.
    "/v1/queries/{id}/replay",
    "/v1/search",
    "/v1/sources/{id}/helper/preview",
    "/v1/tokens/count",
];

/// The role that a route needs, by its path as the router has it.
pub fn needed(method: &Method, path: &str) -> Role {
    if path.starts_with("/v1/admin/") || path == "/metrics" {
        return Role::Admin;
    }

    let reads = matches!(*method, Method::GET | Method::HEAD)
        || (*method == Method::POST && READING.contains(&path));
    if reads { Role::Read } else { Role::User }
}
