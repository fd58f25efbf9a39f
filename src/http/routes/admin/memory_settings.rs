//! The settings by which memories are selected.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use memoir_policy::Settings;
use memoir_policy::settings::{Interleaving, Redaction, Retrieval};
use memoir_text::field_error::FieldError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::http::auth::{Admin, Caller};
use crate::http::error::ApiError;
use crate::http::etag;
use crate::http::extract::JsonBody;
use crate::http::routes::policies::PolicyResponse;
use crate::memory_retrieval::{MemoryPolicies, PolicyError, PolicyVersion};

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
    params(("If-None-Match" = Option<String>, Header, description = "The ETag from an earlier response.")),
    responses(
        (status = 200, description = "The settings and their version.", body = PolicyResponse, headers(("ETag" = String, description = "The current ETag, for `If-Match`."))),
        (status = 304, description = "The settings have not changed."),
    )
)]
pub async fn get_memory_settings(
    Admin(caller): Admin,
    State(policies): State<MemoryPolicies>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let current = policies.current(&caller.call).await?;
    let shown = PolicyResponse::from(PolicyVersion::from(current));
    Ok(etag::respond(&headers, &shown))
}

/// Replace the memory settings
///
/// Stores the settings as a new version of the policy `retrieval`, which every process uses from
/// then on. Every omitted field gets its default: to change single fields, use `PATCH`. Older
/// versions stay available: to use one, name it in the request (`policy: "retrieval@2"`). With
/// `If-Match`, returns 412 if the settings have changed since you read them.
#[utoipa::path(
    put, path = "/v1/admin/memory-settings", tag = "memory", operation_id = "update_memory_settings",
    request_body = MemorySettingsRequest,
    params(("If-Match" = Option<String>, Header, description = "The ETag from an earlier response.")),
    responses(
        (status = 200, description = "The new version.", body = PolicyResponse, headers(("ETag" = String, description = "The current ETag, for `If-Match`."))),
        (status = 412, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn update_memory_settings(
    Admin(caller): Admin,
    State(policies): State<MemoryPolicies>,
    headers: HeaderMap,
    JsonBody { value: request, .. }: JsonBody<MemorySettingsRequest>,
) -> Result<Response, ApiError> {
    let settings = Settings {
        retrieval: request.retrieval,
        interleaving: request.interleaving,
        redaction: request.redaction,
    };
    change(&caller, &policies, &headers, |_| Ok(settings.clone())).await
}

/// Change single memory settings
///
/// Stores the current settings with these fields changed as a new version of the policy
/// `retrieval`; fields that are omitted stay as they are, and `null` gives a field its default. With
/// `If-Match`, returns 412 if the settings have changed since you read them.
#[utoipa::path(
    patch, path = "/v1/admin/memory-settings", tag = "memory", operation_id = "patch_memory_settings",
    request_body(content = MemorySettingsRequest, example = json!({"retrieval": {"minScore": 0.2}})),
    params(("If-Match" = Option<String>, Header, description = "The ETag from an earlier response.")),
    responses(
        (status = 200, description = "The new version.", body = PolicyResponse, headers(("ETag" = String, description = "The current ETag, for `If-Match`."))),
        (status = 412, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn patch_memory_settings(
    Admin(caller): Admin,
    State(policies): State<MemoryPolicies>,
    headers: HeaderMap,
    JsonBody { value: given, .. }: JsonBody<Map<String, Value>>,
) -> Result<Response, ApiError> {
    let edit = |current: &PolicyVersion| {
        let invalid = |error: &dyn std::fmt::Display| {
            PolicyError::Invalid(vec![FieldError::new("body", error.to_string())])
        };
        let mut whole = serde_json::to_value(&current.settings).map_err(|error| invalid(&error))?;
        merge(&mut whole, Value::Object(given.clone()));
        let request: MemorySettingsRequest =
            serde_path_to_error::deserialize(whole).map_err(|error| {
                let (field, rule) = (error.path().to_string(), error.inner().to_string());
                PolicyError::Invalid(vec![FieldError::new(field, rule)])
            })?;
        Ok(Settings {
            retrieval: request.retrieval,
            interleaving: request.interleaving,
            redaction: request.redaction,
        })
    };
    change(&caller, &policies, &headers, edit).await
}

async fn change(
    caller: &Caller,
    policies: &MemoryPolicies,
    headers: &HeaderMap,
    edit: impl Fn(&PolicyVersion) -> Result<Settings, PolicyError>,
) -> Result<Response, ApiError> {
    let unchanged = etag::condition_on(headers, |current: &PolicyVersion| {
        PolicyResponse::from(current.clone())
    });
    let changed = policies.change(&caller.call, unchanged, edit).await?;
    let shown = PolicyResponse::from(PolicyVersion::from(changed));
    Ok(etag::changed(&shown))
}

/// Merges the fields of one object into another; `null` removes a field.
fn merge(whole: &mut Value, given: Value) {
    match (whole, given) {
        (Value::Object(whole), Value::Object(given)) => {
            for (name, value) in given {
                if value.is_null() {
                    whole.remove(&name);
                } else {
                    merge(whole.entry(name).or_insert(Value::Null), value);
                }
            }
        }
        (whole, given) => *whole = given,
    }
}
