//! Health probes. They call no model and need no key.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::base::problems;
use crate::http::error::ApiError;
use crate::http::state::AppState;
use crate::llm::{Llm, PauseView, ProviderView};

const PATIENCE: Duration = Duration::from_secs(1);

/// The response to a health check.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"status": "ok"}))]
pub struct HealthResponse {
    /// Always `ok`; anything else is a problem document.
    pub status: String,
    /// Problems that block some of the work although the service accepts requests; empty if there
    /// are none.
    #[serde(default)]
    pub warnings: Vec<HealthWarningResponse>,
}

/// A problem that needs attention.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct HealthWarningResponse {
    /// `provider_auth`, `provider_quota` or `model_not_found`: the provider is paused, and jobs
    /// wait for it.
    pub code: String,
    /// The provider, or one of its models as `provider:model`.
    pub provider: String,
    /// What to do about it.
    pub remediation: String,
}

impl HealthResponse {
    fn ok(warnings: Vec<HealthWarningResponse>) -> Json<Self> {
        Json(Self {
            status: "ok".to_owned(),
            warnings,
        })
    }
}

/// The paused providers, without their messages, because probes need no key.
fn paused_providers(llm: &Llm) -> Vec<HealthWarningResponse> {
    let warning = |provider: &str, pause: PauseView| HealthWarningResponse {
        code: pause.code.to_owned(),
        provider: pause.model.map_or_else(
            || provider.to_owned(),
            |model| format!("{provider}:{model}"),
        ),
        remediation: pause.remediation,
    };

    let of = |view: ProviderView| {
        view.pauses
            .into_iter()
            .map(move |pause| warning(&view.name, pause))
    };

    llm.models().providers.into_iter().flat_map(of).collect()
}

/// Check liveness
///
/// Responds without using the database or a model. Restart the process if it does not respond.
#[utoipa::path(
    get, path = "/health/live", tag = "system", operation_id = "get_live", security(()),
    responses((status = 200, description = "The process is alive.", body = HealthResponse))
)]
pub async fn get_live() -> Json<HealthResponse> {
    HealthResponse::ok(Vec::new())
}

/// Check readiness
///
/// Checks that the database responds and, at intervals, that it is writable. Migrations finish
/// before the service starts to listen. Returns 503 while the database is unreachable
/// (`database_unavailable`) or full (`storage_full`), and during shutdown. If a provider rejects
/// the configured key, the account or a model, the response contains a warning: the service is
/// ready, but jobs wait for that provider.
#[utoipa::path(
    get, path = "/health/ready", tag = "system", operation_id = "get_ready", security(()),
    responses((status = 200, description = "The service accepts requests.", body = HealthResponse))
)]
pub async fn get_ready(State(state): State<AppState>) -> Result<Json<HealthResponse>, ApiError> {
    if state.stop.is_cancelled() {
        return Err(ApiError::new(
            problems::SHUTTING_DOWN,
            "the service is shutting down and accepts no new work",
        )
        .header(header::RETRY_AFTER, HeaderValue::from_static("5")));
    }

    // Probes have short timeouts, so the check must have one too.
    match tokio::time::timeout(PATIENCE, state.store.ping()).await {
        Ok(answered) => answered?,
        Err(_) => return Err(state.store.unanswered(PATIENCE).into()),
    }

    state.store.check_writable(PATIENCE).await?;
    Ok(HealthResponse::ok(paused_providers(&state.llm)))
}
