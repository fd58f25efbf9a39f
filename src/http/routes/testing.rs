//! Queues probe jobs; exists only with `testing.probe_jobs` and is not part of the API reference.

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::post;

use super::jobs::JobSummaryResponse;
use crate::base::user_id;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::{JsonBody, PathId};
use crate::http::idempotency::Idempotency;
use crate::http::state::AppState;
use crate::model::job::{Lane, NewJob};
use crate::probe::{KIND, ProbeRequest};

/// The router with these routes, if the settings ask for them.
pub fn add_to(router: Router<AppState>, state: &AppState) -> Router<AppState> {
    if !state.settings.testing.probe_jobs {
        return router;
    }

    router
        .route("/v1/testing/jobs", post(create_probe))
        .route("/v1/testing/jobs/{id}/resume", post(resume_probe))
}

/// Resumes a waiting job, as the confirmation of a helper does.
pub async fn resume_probe(
    caller: Caller,
    State(state): State<AppState>,
    PathId(id): PathId,
) -> Result<StatusCode, ApiError> {
    let mut tx = state.store.begin().await?;
    state.jobs.resume(&mut tx, &caller.call, &id).await?;

    tx.commit().await?;
    state.jobs.announce();
    Ok(StatusCode::ACCEPTED)
}

pub async fn create_probe(
    caller: Caller,
    State(state): State<AppState>,
    headers: HeaderMap,
    JsonBody {
        value: request,
        bytes,
        ..
    }: JsonBody<ProbeRequest>,
) -> Result<Response, ApiError> {
    let idempotency = Idempotency::of(&headers, "create_probe", &bytes)?;
    let request =
        serde_json::to_string(&request).map_err(|error| ApiError::internal(error.to_string()))?;
    let max_attempts = state.jobs.max_attempts();
    let new = NewJob {
        kind: KIND,
        lane: Lane::Requested,
        user_id: user_id::DEFAULT.to_owned(),
        source_id: None,
        request,
        max_attempts,
        group_size: 1,
    };

    idempotency
        .queue(&state, &caller, &new, |job| JobSummaryResponse::from(job))
        .await
}
