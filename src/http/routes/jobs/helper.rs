//! Helper dialogue with the user of a job that waits for a helper.

use axum::Json;
use axum::extract::State;

use super::JobResponse;
use crate::contextual_helpers::HelperFields;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::{JsonBody, PathId};
use crate::http::routes::sources::HelperPreviewResponse;
use crate::http::state::AppState;

/// Propose a helper for a waiting job
///
/// Returns the paragraph that would be stored and its token count. Send another proposal to change
/// it. The job continues when you confirm the helper.
#[utoipa::path(
    put, path = "/v1/jobs/{id}/helper", tag = "jobs", operation_id = "update_job_helper",
    request_body = HelperFields, params(("id" = String, Path, description = "The job's id.")),
    responses(
        (status = 200, description = "The paragraph.", body = HelperPreviewResponse),
        (status = 409, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn update_job_helper(
    caller: Caller,
    State(state): State<AppState>,
    PathId(id): PathId,
    JsonBody { value: request, .. }: JsonBody<HelperFields>,
) -> Result<Json<HelperPreviewResponse>, ApiError> {
    let helper = state
        .ingestion
        .preview_helper(&caller.call, &id, &request)
        .await?;
    Ok(Json(HelperPreviewResponse {
        preview: helper.text,
        token_count: helper.token_count,
    }))
}

/// Confirm the helper of a waiting job
///
/// Stores the helper as user-provided and resumes the job.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/helper/confirm", tag = "jobs", operation_id = "confirm_job_helper",
    params(("id" = String, Path, description = "The job's id.")),
    responses(
        (status = 200, description = "The queued job.", body = JobResponse),
        (status = 409, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn confirm_job_helper(
    caller: Caller,
    State(state): State<AppState>,
    PathId(id): PathId,
) -> Result<Json<JobResponse>, ApiError> {
    state.ingestion.confirm_helper(&caller.call, &id).await?;

    let job = state.jobs.find(&caller.call, &id).await?;
    Ok(Json(JobResponse::of(&state, job).await?))
}
