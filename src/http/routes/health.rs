//! Probes for whoever runs the service. They ask no model and need no key.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::error::ApiError;
use crate::http::state::AppState;

const PATIENCE: Duration = Duration::from_secs(1);

/// How a probe is answered.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"status": "ok"}))]
pub struct HealthResponse {
    /// Always `ok`; anything else is a problem document.
    pub status: String,
}

impl HealthResponse {
    fn ok() -> Json<Self> {
        Json(Self { status: "ok".to_owned() })
    }
}

/// Is the process alive?
///
/// Answers without touching anything else; restart the process when it does not.
#[utoipa::path(
    get, path = "/health/live", tag = "system", operation_id = "get_live", security(()),
    responses((status = 200, description = "The process is alive.", body = HealthResponse))
)]
pub async fn get_live() -> Json<HealthResponse> {
    HealthResponse::ok()
}

/// Can the service take requests?
///
/// Checks that the database answers and, now and then, that it can be written; migrations have run before the service
/// listens. 503 while the database is unreachable (`database_unavailable`) or full (`storage_full`), and from the moment
/// the service is asked to stop.
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
    Ok(HealthResponse::ok())
}
