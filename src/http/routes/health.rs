//! Probes for whoever runs the service. They ask no model and need no key.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::error::ApiError;
use crate::http::state::AppState;
use crate::llm::{Llm, PauseView, ProviderView};

const PATIENCE: Duration = Duration::from_secs(1);

/// How a probe is answered.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"status": "ok"}))]
pub struct HealthResponse {
    /// Always `ok`; anything else is a problem document.
    pub status: String,
    /// What keeps some of the work from being done though the service takes requests; empty if
    /// there is nothing.
    #[serde(default)]
    pub warnings: Vec<HealthWarningResponse>,
}

/// Something that somebody should act upon.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct HealthWarningResponse {
    /// `provider_auth`, `provider_quota` or `model_not_found`: the provider is paused, and jobs
    /// wait for it.
    pub code: String,
    /// Which provider, or which of its models as `provider:model`.
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

/// Which providers are paused. Without what they said: whoever probes needs no key.
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

/// Is the process alive?
///
/// Answers without touching anything else; restart the process when it does not.
#[utoipa::path(
    get, path = "/health/live", tag = "system", operation_id = "get_live", security(()),
    responses((status = 200, description = "The process is alive.", body = HealthResponse))
)]
pub async fn get_live() -> Json<HealthResponse> {
    HealthResponse::ok(Vec::new())
}

/// Can the service take requests?
///
/// Checks that the database answers and, now and then, that it can be written; migrations have run
/// before the service listens. 503 while the database is unreachable (`database_unavailable`) or
/// full (`storage_full`), and from the moment the service is asked to stop. A provider that refuses
/// its key, its account or a model is a warning: the service is ready, but jobs wait for that
/// provider.
#[utoipa::path(
    get, path = "/health/ready", tag = "system", operation_id = "get_ready", security(()),
    responses((status = 200, description = "The service takes requests.", body = HealthResponse))
)]
pub async fn get_ready(State(state): State<AppState>) -> Result<Json<HealthResponse>, ApiError> {
    if state.stop.is_cancelled() {
        return Err(ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "shutting_down",
            "Shutting down",
            "the service is asked to stop and takes no new work",
        )
        .fix("Send requests to another instance.")
        .header(header::RETRY_AFTER, HeaderValue::from_static("5")));
    }

    // Probes are impatient, and so is whoever waits for their verdict.
    match tokio::time::timeout(PATIENCE, state.store.ping()).await {
        Ok(answered) => answered?,
        Err(_) => return Err(state.store.unanswered(PATIENCE).into()),
    }

    state.store.check_writable(PATIENCE).await?;
    Ok(HealthResponse::ok(paused_providers(&state.llm)))
}
