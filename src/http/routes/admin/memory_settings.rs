//! The settings by which memories are selected.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use memoir_policy::Settings;
use memoir_policy::settings::{Interleaving, Redaction, Retrieval};
use memoir_text::field_error::FieldError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use crate::http::auth::{Admin, Caller};
use crate::http::error::ApiError;
use crate::http::etag;
use crate::http::extract::{JsonBody, QueryParams};
use crate::http::routes::policies::PolicyResponse;
use crate::memory_retrieval::{MemoryPolicies, PolicyError, PolicyName, PolicyVersion, RETRIEVAL};

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

/// Which policy is meant.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct MemorySettingsQuery {
    /// The policy; `retrieval` if omitted, which every request uses that names no other. The first
    /// change of a new name creates a policy from the defaults.
    #[param(min_length = 1, max_length = 64, pattern = "^[a-z0-9_-]+$")]
    policy: Option<String>,
}

impl MemorySettingsQuery {
    fn name(self) -> Result<PolicyName, ApiError> {
        let name = self.policy.unwrap_or_else(|| RETRIEVAL.to_owned());
        let parsed = name.parse().ok();
        parsed
            .filter(|name: &PolicyName| name.version.is_none())
            .ok_or_else(|| {
                let rule = "must be 1 to 64 characters of a-z, 0-9, _ and -, without a version";
                ApiError::invalid_field("policy", rule)
            })
    }
}

/// Get the memory settings
///
/// Returns the current version of a policy: of `retrieval`, which `POST /v1/memory/retrieve` uses
/// unless the request names another, or of the one named.
#[utoipa::path(
    get, path = "/v1/admin/memory-settings", tag = "memory", operation_id = "get_memory_settings",
    params(MemorySettingsQuery, ("If-None-Match" = Option<String>, Header, description = "The ETag from an earlier response.")),
    responses(
        (status = 200, description = "The settings and their version.", body = PolicyResponse, headers(("ETag" = String, description = "The current ETag, for `If-Match`."))),
        (status = 304, description = "The settings have not changed."),
        (status = 404, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn get_memory_settings(
    Admin(caller): Admin,
    State(policies): State<MemoryPolicies>,
    QueryParams(query): QueryParams<MemorySettingsQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let current = policies.find(&caller.call, &query.name()?).await?;
    let shown = PolicyResponse::from(PolicyVersion::from(current));
    Ok(etag::respond(&headers, &shown))
}

/// Replace the memory settings
///
/// Stores the settings as a new version of the policy, which every process uses from then on. Every omitted field gets its default: to change single fields, use `PATCH`. Older
/// versions stay available: to use one, name it in the request (`policy: "retrieval@2"`). With
/// `If-Match`, returns 412 if the settings have changed since you read them.
#[utoipa::path(
    put, path = "/v1/admin/memory-settings", tag = "memory", operation_id = "update_memory_settings",
    request_body = MemorySettingsRequest,
    params(MemorySettingsQuery, ("If-Match" = Option<String>, Header, description = "The ETag from an earlier response.")),
    responses(
        (status = 200, description = "The new version.", body = PolicyResponse, headers(("ETag" = String, description = "The current ETag, for `If-Match`."))),
        (status = 412, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn update_memory_settings(
    Admin(caller): Admin,
    State(policies): State<MemoryPolicies>,
    QueryParams(query): QueryParams<MemorySettingsQuery>,
    headers: HeaderMap,
    JsonBody { value: request, .. }: JsonBody<MemorySettingsRequest>,
) -> Result<Response, ApiError> {
    let settings = Settings {
        retrieval: request.retrieval,
        interleaving: request.interleaving,
        redaction: request.redaction,
    };
    let edit = |_: &PolicyVersion| Ok(settings.clone());
    change(&caller, &policies, (query.name()?, &headers), edit).await
}

/// Change single memory settings
///
/// Stores the current settings with these fields changed as a new version of the policy; fields that are omitted stay as they are. With
/// `If-Match`, returns 412 if the settings have changed since you read them.
#[utoipa::path(
    patch, path = "/v1/admin/memory-settings", tag = "memory", operation_id = "patch_memory_settings",
    request_body(content = MemorySettingsRequest, example = json!({"retrieval": {"minScore": 0.2}})),
    params(MemorySettingsQuery, ("If-Match" = Option<String>, Header, description = "The ETag from an earlier response.")),
    responses(
        (status = 200, description = "The new version.", body = PolicyResponse, headers(("ETag" = String, description = "The current ETag, for `If-Match`."))),
        (status = 412, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn patch_memory_settings(
    Admin(caller): Admin,
    State(policies): State<MemoryPolicies>,
    QueryParams(query): QueryParams<MemorySettingsQuery>,
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
    change(&caller, &policies, (query.name()?, &headers), edit).await
}

async fn change(
    caller: &Caller,
    policies: &MemoryPolicies,
    (policy, headers): (PolicyName, &HeaderMap),
    edit: impl Fn(&PolicyVersion) -> Result<Settings, PolicyError>,
) -> Result<Response, ApiError> {
    let unchanged = |current: Option<&PolicyVersion>| {
        let shown = current.map(|current| PolicyResponse::from(current.clone()));
        etag::is_unchanged_if_any(headers, shown.as_ref())
    };
    let changed = policies
        .change(&caller.call, &policy.name, unchanged, edit)
        .await?;
    let shown = PolicyResponse::from(PolicyVersion::from(changed));
    Ok(etag::changed(&shown))
}

/// Merges the fields of one object into another.
fn merge(whole: &mut Value, given: Value) {
    match (whole, given) {
        (Value::Object(whole), Value::Object(given)) => {
            for (name, value) in given {
                merge(whole.entry(name).or_insert(Value::Null), value);
            }
        }
        (whole, given) => *whole = given,
    }
}
