//! Background jobs: list, read, wait for, watch, cancel and retry.

mod bulk;
mod events;
mod helper;
mod wire;

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::base::clock::Timestamp;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::{PathId, QueryParams};
use crate::http::page::{Page, list_query};
use crate::http::state::AppState;
use crate::http::wait;
use crate::jobs::Jobs;
use crate::model::job::{Job, JobFilter, JobState, Span};
use crate::store::JobPage;
pub use bulk::{__path_cancel_jobs, __path_retry_jobs, cancel_jobs, retry_jobs};
pub use helper::{
    __path_confirm_job_helper, __path_update_job_helper, confirm_job_helper, update_job_helper,
};
pub use wire::{JobListResponse, JobResponse, JobSummaryResponse};

/// The longest time that a request may wait for a job.
const MAX_WAIT_SECONDS: f64 = 60.0;

list_query! {
    /// Filters and pagination of the job list.
    ListJobsQuery {
        /// Only jobs in this state.
        #[param(inline)]
        state: Option<JobState>,
        /// Only jobs of this kind: `ingestion`, `query`, `enrich`, `extract`, `backfill`,
        /// `reclassify`, `balance`, `reembed` or `reindex`.
        kind: Option<String>,
        /// Only jobs for this source.
        source_id: Option<String>,
        /// Only jobs whose `error` has this code.
        code: Option<String>,
        /// Only jobs created at or after this time.
        #[param(value_type = Option<String>, format = DateTime)]
        created_after: Option<Timestamp>,
        /// Only jobs created before this time.
        #[param(value_type = Option<String>, format = DateTime)]
        created_before: Option<Timestamp>,
        /// Only jobs that ended at or after this time.
        #[param(value_type = Option<String>, format = DateTime)]
        finished_after: Option<Timestamp>,
        /// Only jobs that ended before this time.
        #[param(value_type = Option<String>, format = DateTime)]
        finished_before: Option<Timestamp>,
    }
}

/// Options for reading a job.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct GetJobQuery {
    /// Maximum number of seconds to wait until the job has ended or needs a helper; without it, the
    /// response is immediate. The response shows the state of the job at that time.
    #[param(minimum = 0, maximum = 60)]
    wait: Option<f64>,
    /// Whether to include batches, responses and errors; true if omitted. A long job has thousands
    /// of them.
    details: Option<bool>,
}

/// List jobs
///
/// Returns jobs without their details, newest first.
#[utoipa::path(
    get, path = "/v1/jobs", tag = "jobs", operation_id = "list_jobs", params(ListJobsQuery),
    responses((status = 200, description = "A page of jobs.", body = JobListResponse))
)]
pub async fn list_jobs(
    caller: Caller,
    State(jobs): State<Jobs>,
    QueryParams(query): QueryParams<ListJobsQuery>,
) -> Result<Json<JobListResponse>, ApiError> {
    let filter = JobFilter {
        state: query.state,
        kind: query.kind,
        source_id: query.source_id,
        code: query.code,
        created: Span {
            after: query.created_after,
            before: query.created_before,
        },
        finished: Span {
            after: query.finished_after,
            before: query.finished_before,
        },
    };

    let page = Page::new(query.limit, query.cursor, format!("{filter:?}"))?;
    let wanted = JobPage {
        before: page.after_item()?,
        limit: page.rows(),
    };
    let found = jobs.list(&caller.call, &filter, &wanted).await?;
    let key = |job: &Job| (job.created_at.as_micros(), job.id.to_string());
    Ok(page.list(found, key, |job| JobSummaryResponse::from(&job)))
}

/// Get a job
///
/// Returns the job with its progress, its result and its errors. With `wait`, responds when the job
/// has ended or needs a helper, at the latest after that many seconds.
#[utoipa::path(
    get, path = "/v1/jobs/{id}", tag = "jobs", operation_id = "get_job",
    params(("id" = String, Path, description = "The job's id."), GetJobQuery),
    responses((status = 200, description = "The job.", body = JobResponse))
)]
pub async fn get_job(
    caller: Caller,
    State(state): State<AppState>,
    PathId(id): PathId,
    QueryParams(query): QueryParams<GetJobQuery>,
) -> Result<Json<JobResponse>, ApiError> {
    let wait = query.wait.unwrap_or(0.0);
    if !(0.0..=MAX_WAIT_SECONDS).contains(&wait) {
        return Err(ApiError::invalid_field(
            "wait",
            "must be a number of seconds from 0 to 60",
        ));
    }

    let job = wait::for_job(&state, &caller, &id, Duration::from_secs_f64(wait)).await?;
    if query.details == Some(false) {
        return Ok(Json(JobResponse::fresh(&job)));
    }

    Ok(Json(JobResponse::of(&state, job).await?))
}

/// Cancel a job
///
/// Cancels the job immediately. Returns 409 if the job has already ended. Its completed steps stay
/// recorded, so that a retry can continue from them. A cancelled ingestion adds no version to its
/// source.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/cancel", tag = "jobs", operation_id = "cancel_job",
    params(("id" = String, Path, description = "The job's id.")),
    responses(
        (status = 200, description = "The cancelled job.", body = JobResponse),
        (status = 409, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn cancel_job(
    caller: Caller,
    State(state): State<AppState>,
    PathId(id): PathId,
) -> Result<Json<JobResponse>, ApiError> {
    let job = state.jobs.cancel(&caller.call, &id).await?;
    Ok(Json(JobResponse::of(&state, job).await?))
}

/// Retry a job
///
/// Queues a failed or cancelled job again; completed steps are not repeated.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/retry", tag = "jobs", operation_id = "retry_job",
    params(("id" = String, Path, description = "The job's id.")),
    responses(
        (status = 202, description = "The queued job.", body = JobResponse),
        (status = 409, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn retry_job(
    caller: Caller,
    State(state): State<AppState>,
    PathId(id): PathId,
) -> Result<Response, ApiError> {
    let job = state.jobs.retry(&caller.call, &id).await?;
    Ok((
        StatusCode::ACCEPTED,
        Json(JobResponse::of(&state, job).await?),
    )
        .into_response())
}

/// Watch a job
///
/// Streams server-sent events: `state`, `progress`, `warning`, `error` and `helper` (the origin of
/// the source's helper), each with an id. Progress events arrive within 250 ms, those of short
/// texts within a second. The stream ends with the job, or when the service stops. To resume after
/// a disconnection, send the last id as `Last-Event-ID`; no event is then lost or repeated.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/events", tag = "jobs", operation_id = "watch_job",
    params(
        ("id" = String, Path, description = "The job's id."),
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event received."),
    ),
    responses((status = 200, description = "The event stream.", body = Object, content_type = "text/event-stream"))
)]
pub async fn watch_job(
    caller: Caller,
    State(state): State<AppState>,
    PathId(id): PathId,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let job = state.jobs.find(&caller.call, &id).await?;
    let after = match headers.get("last-event-id") {
        Some(value) => value
            .to_str()
            .ok()
            .and_then(|text| text.trim().parse::<i64>().ok())
            .filter(|seq| *seq >= 0)
            .ok_or_else(|| {
                ApiError::invalid_field("Last-Event-ID", "must be the id of an event of this job")
            })?,
        None => 0,
    };

    Ok(events::stream(
        state.jobs,
        (caller.call, job),
        after,
        state.stop,
    ))
}
