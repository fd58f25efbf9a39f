//! Information about this installation: version, database, limits and non-secret settings.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::page;
use crate::http::state::AppState;

/// Information about this installation.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct InfoResponse {
    /// Always `memoir`.
    #[schema(example = "memoir")]
    pub name: String,
    /// The version of this binary.
    #[schema(example = "0.1.0")]
    pub version: String,
    pub database: DatabaseInfo,
    pub llm: LlmInfo,
    pub auth: AuthInfo,
    pub limits: LimitsInfo,
    /// The effective settings by section, without secrets.
    #[schema(value_type = std::collections::HashMap<String, serde_json::Value>)]
    pub settings: serde_json::Map<String, serde_json::Value>,
}

/// The database of this installation.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct DatabaseInfo {
    /// `sqlite`, `postgres` or `mysql`.
    #[schema(example = "sqlite")]
    pub engine: String,
    /// The newest applied migration.
    pub schema_version: i64,
}

/// The model that is used unless a stage or a request specifies another.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct LlmInfo {
    /// `provider:model`.
    #[schema(example = "local:embedded")]
    pub model: String,
    /// Whether this is the embedded model, which needs no key and no network.
    pub embedded: bool,
    /// Models of model servers on this machine that responded when memoir started. Empty if there
    /// are none, if a model other than the embedded one is in use, or if `llm.notice_local_models`
    /// is `false`. memoir asks these servers only for the list of their models.
    pub local_models: Vec<LocalModelInfo>,
}

/// A model on this machine that could be used.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct LocalModelInfo {
    /// `provider:model`.
    #[schema(example = "ollama:qwen2.5:7b")]
    pub model: String,
    /// How to make memoir use it.
    #[schema(
        example = "ollama has a model on this machine; to use it, set MEMOIR__LLM__MODEL=ollama:qwen2.5:7b and restart memoir"
    )]
    pub how_to_use: String,
}

/// How callers authenticate.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct AuthInfo {
    /// Whether an API key is required.
    pub required: bool,
}

/// Limits of a single request.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct LimitsInfo {
    /// Largest request body in bytes.
    pub max_body_bytes: u64,
    /// Page size if `limit` is omitted.
    pub page_size_default: u64,
    /// Maximum page size.
    pub page_size_max: u64,
}

impl LimitsInfo {
    /// Combines the configured limit with the fixed ones.
    pub fn new(max_body_bytes: u64) -> Self {
        Self {
            max_body_bytes,
            page_size_default: page::DEFAULT_LIMIT as u64,
            page_size_max: page::MAX_LIMIT as u64,
        }
    }
}

/// Get information about the installation
///
/// Returns the version, the database engine, the limits, the effective settings without secrets,
/// and the models that memoir found on this machine.
#[utoipa::path(
    get, path = "/v1/info", tag = "system", operation_id = "get_info",
    responses((status = 200, description = "This installation.", body = InfoResponse))
)]
pub async fn get_info(caller: Caller, State(state): State<AppState>) -> Result<Response, ApiError> {
    let settings = &state.settings;
    let [open, guarded] = settings
        .info_with_local_models
        .get()
        .unwrap_or(&settings.info_json);

    let info = if caller.key.is_some() { guarded } else { open };
    let mut response = Response::new(Body::from(info.clone()));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );

    Ok(response)
}
