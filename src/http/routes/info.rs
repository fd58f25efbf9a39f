//! What this installation is: version, database, limits, settings that are no secret.

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

/// What this installation is and can do.
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
    /// The effective settings, section by section, without secrets.
    #[schema(value_type = std::collections::HashMap<String, serde_json::Value>)]
    pub settings: serde_json::Map<String, serde_json::Value>,
}

/// The database behind this installation.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct DatabaseInfo {
    /// `sqlite`, `postgres` or `mysql`.
    #[schema(example = "sqlite")]
    pub engine: String,
    /// The newest migration that has run.
    pub schema_version: i64,
}

/// The model that answers unless a stage or a request names another.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct LlmInfo {
    /// `provider:model`.
    #[schema(example = "local:embedded")]
    pub model: String,
    /// Whether that is the embedded model, which needs no key and no network.
    pub embedded: bool,
}

/// How callers identify themselves.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct AuthInfo {
    /// Whether an API key is needed.
    pub required: bool,
}

/// How much one request may bring or ask for.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct LimitsInfo {
    /// Largest request body in bytes.
    pub max_body_bytes: u64,
    /// Items on a page unless `limit` says otherwise.
    pub page_size_default: u64,
    /// Most items on a page.
    pub page_size_max: u64,
}

impl LimitsInfo {
    /// The limits that are settings, and those that are fixed.
    pub fn new(max_body_bytes: u64) -> Self {
        Self {
            max_body_bytes,
            page_size_default: page::DEFAULT_LIMIT as u64,
            page_size_max: page::MAX_LIMIT as u64,
        }
    }
}

/// What is this installation?
///
/// Version, database engine, limits and the effective settings without secrets.
#[utoipa::path(
    get, path = "/v1/info", tag = "system", operation_id = "get_info",
    responses((status = 200, description = "This installation.", body = InfoResponse))
)]
pub async fn get_info(caller: Caller, State(state): State<AppState>) -> Result<Response, ApiError> {
    let [open, guarded] = &state.settings.info_json;
    let info = if caller.key.is_some() { guarded } else { open };
    let mut response = Response::new(Body::from(info.clone()));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );

    Ok(response)
}
