//! The role that each route requires: one table, for the check and for the OpenAPI document.
//!
//! A new route requires `read` for reading and `user` for everything else, unless it is listed
//! here.

use axum::http::Method;

use crate::config::auth::Role;

/// POST routes that only read. Queries write a receipt, which is the service's own record.
const READING: &[&str] = &[
    // Each tool requires what its own calls require.
    "/mcp",
    // It counts what it delivers, which is the service's own record.
    "/v1/context",
    "/v1/context/analyze",
    "/v1/documents/retrieve",
    "/v1/exports",
    "/v1/memory/retrieve",
    "/v1/policies/try",
    // It stores nothing, and a run ends without a trace.
    "/v1/prompts",
    "/v1/prompts/estimate",
    "/v1/queries",
    "/v1/queries/estimate",
    // With `mode: live` it calls models again and requires `user`, which the handler checks.
    "/v1/queries/{id}/replay",
    "/v1/runs/{id}/cancel",
    "/v1/search",
    "/v1/sources/{id}/helper/preview",
    "/v1/threads/{id}/episodic",
    "/v1/tokens/count",
];

/// The role that a route requires, by its path in the router.
pub fn needed(method: &Method, path: &str) -> Role {
    let changes_vocabulary = path == "/v1/vocabulary" && *method == Method::PUT;
    let is_operated = ["/v1/admin/", "/v1/erasures"];
    let is_operated = is_operated.iter().any(|begin| path.starts_with(begin));
    if is_operated || path == "/metrics" || changes_vocabulary {
        return Role::Admin;
    }

    let reads = matches!(*method, Method::GET | Method::HEAD)
        || (*method == Method::POST && READING.contains(&path));
    if reads { Role::Read } else { Role::User }
}
