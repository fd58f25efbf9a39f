//! The request that applies a proposal.

use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

/// A request that applies a proposal.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ReviewCall {
    #[schema(example = "POST")]
    pub method: String,
    #[schema(example = "/v1/categories/5/merge")]
    pub path: String,
    /// The body of the request; null for none.
    pub body: Value,
}

impl ReviewCall {
    pub(super) fn merge(id: i64, into: i64) -> Self {
        Self::of(
            "POST",
            format!("/v1/categories/{id}/merge"),
            json!({"into": into}),
        )
    }

    pub(super) fn split(id: i64) -> Self {
        let path = format!("/v1/categories/{id}/split");
        Self::of("POST", path, json!({"dry_run": false}))
    }

    pub(super) fn remove(id: i64, into: i64) -> Self {
        let path = format!("/v1/categories/{id}?into={into}");
        Self::of("DELETE", path, Value::Null)
    }

    pub(super) fn rename(id: i64, name: &str) -> Self {
        Self::of(
            "PATCH",
            format!("/v1/categories/{id}"),
            json!({"name": name}),
        )
    }

    fn of(method: &str, path: String, body: Value) -> Self {
        Self {
            method: method.to_owned(),
            path,
            body,
        }
    }
}
