//! The settings by which memories are selected.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::auth::Admin;
use crate::http::error::ApiError;
use crate::http::extract::JsonBody;
use crate::http::routes::policies::PolicyResponse;
use crate::memory_retrieval::{MemoryPolicies, PolicyVersion};
use crate::policy::Settings;
use crate::policy::settings::{Interleaving, Redaction, Retrieval};

/// New settings; a section or field that is omitted gets its default.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"retrieval": {"topK": 10, "enableRedaction": true}, "redaction": {"builtIn": ["iban"]}}))]
pub struct MemorySettingsRequest {
    #[serde(default)]
    pub retrieval: Retrieval,
    #[serde(default)]
    pub interleaving: Interleaving,
    #[serde(default)]
    pub redaction: Redaction,
    /// Ignored, like `version` and `created_at`, so that a response can be changed and sent back.
    pub name: Option<String>,
    pub version: Option<i64>,
    pub created_at: Option<String>,
}

/// Get the memory settings
///
/// Returns the current version of the policy `retrieval`, which `POST /v1/memory/retrieve` uses
/// unless the request names another version.
#[utoipa::path(
    get, path = "/v1/admin/memory-settings", tag = "memory", operation_id = "get_memory_settings",
    responses((status = 200, description = "The settings and their version.", body = PolicyResponse))
)]
pub async fn get_memory_settings(
    Admin(caller): Admin,
    State(policies): State<MemoryPolicies>,
) -> Result<Json<PolicyResponse>, ApiError> {
    let current = policies.current(&caller.space).await?;
    Ok(Json(PolicyVersion::from(current).into()))
}

/// Replace the memory settings
///
/// Stores the settings as a new version of the policy `retrieval`, which every process uses from
/// then on. Omitted fields get their defaults. Older versions stay available: to use one, name it
/// in the request (`policy: "retrieval@1"`).
#[utoipa::path(
    put, path = "/v1/admin/memory-settings", tag = "memory", operation_id = "update_memory_settings",
    request_body = MemorySettingsRequest,
    responses((status = 200, description = "The new version.", body = PolicyResponse))
)]
pub async fn update_memory_settings(
    Admin(caller): Admin,
    State(policies): State<MemoryPolicies>,
    JsonBody { value: request, .. }: JsonBody<MemorySettingsRequest>,
) -> Result<Json<PolicyResponse>, ApiError> {
    let settings = Settings {
        retrieval: request.retrieval,
        interleaving: request.interleaving,
        redaction: request.redaction,
    };
    let changed = policies.change(&caller.space, settings, caller.now).await?;
    Ok(Json(PolicyVersion::from(changed).into()))
}
