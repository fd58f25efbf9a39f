//! Runs in progress: cancel one.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::PathId;
use crate::workbench::Workbench;

/// A cancelled run.
#[derive(Debug, Serialize, ToSchema)]
pub struct CancelledRunResponse {
    pub run_id: String,
    /// `compose`, `send` or `query`.
    pub kind: String,
    /// Always `cancelled`.
    pub state: String,
    pub started_at: String,
}

/// Cancel a run
///
/// Immediately ends a run that composes or sends a prompt, or a streamed query: memoir closes the
/// connections to models, and the request that started the run gets 409 `run_cancelled`. To know
/// the id of a run in advance, send a `run_id` of your own with its request; a streamed query sends
/// its id in its first event. Runs exist only in the memory of the process that received the
/// request. A run that has ended, or that another process runs, is not found.
#[utoipa::path(
    post, path = "/v1/runs/{id}/cancel", tag = "prompts", operation_id = "cancel_run",
    params(("id" = String, Path, description = "The run's id.")),
    responses((status = 200, description = "The cancelled run.", body = CancelledRunResponse))
)]
pub async fn cancel_run(
    caller: Caller,
    State(workbench): State<Workbench>,
    PathId(id): PathId,
) -> Result<Json<CancelledRunResponse>, ApiError> {
    let run = workbench.runs().cancel(&caller.call, &id)?;
    Ok(Json(CancelledRunResponse {
        run_id: run.id.to_string(),
        kind: run.kind.into_str().to_owned(),
        state: "cancelled".to_owned(),
        started_at: run.started_at.to_string(),
    }))
}
