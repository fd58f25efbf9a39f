//! Many jobs at once: cancel them or try them again, by state, kind, source, error and time.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::{JsonBody, moment};
use crate::jobs::Jobs;
use crate::model::job::{JobFilter, JobState, Span};

/// Jobs that one request changes at the most.
const MAX_LIMIT: usize = 1000;

/// A state from which a job can be tried again.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RetriedState {
    Failed,
    Cancelled,
}

/// A state in which a job can be cancelled.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CancelledState {
    Queued,
    Running,
    AwaitingHelper,
}

impl From<RetriedState> for JobState {
    fn from(state: RetriedState) -> Self {
        match state {
            RetriedState::Failed => Self::Failed,
            RetriedState::Cancelled => Self::Cancelled,
        }
    }
}

impl From<CancelledState> for JobState {
    fn from(state: CancelledState) -> Self {
        match state {
            CancelledState::Queued => Self::Queued,
            CancelledState::Running => Self::Running,
            CancelledState::AwaitingHelper => Self::AwaitingInput,
        }
    }
}

/// Which jobs to try again: those that match every filter given.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"code": "worker_lost", "finished_after": "2026-01-31T12:00:00Z"}))]
pub struct RetryJobsRequest {
    /// `failed` or `cancelled`; `failed` if left out.
    #[serde(default)]
    pub state: Option<RetriedState>,
    /// Only those of this kind.
    #[serde(default)]
    pub kind: Option<String>,
    /// Only those about this source.
    #[serde(default)]
    pub source_id: Option<String>,
    /// Only those whose `error` has this code.
    #[serde(default)]
    pub code: Option<String>,
    /// Only those created at this moment or later.
    #[serde(default)]
    #[schema(format = DateTime)]
    pub created_after: Option<String>,
    /// Only those created before this moment.
    #[serde(default)]
    #[schema(format = DateTime)]
    pub created_before: Option<String>,
    /// Only those that ended at this moment or later.
    #[serde(default)]
    #[schema(format = DateTime)]
    pub finished_after: Option<String>,
    /// Only those that ended before this moment.
    #[serde(default)]
    #[schema(format = DateTime)]
    pub finished_before: Option<String>,
    /// Set to true to retry all failed jobs of the space; required if no filter is given. Filters
    /// narrow it all the same.
    #[serde(default)]
    pub all: bool,
    /// Jobs to try again at the most.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1000, default = 1000)]
    pub limit: Option<usize>,
}

/// Which jobs to cancel: those that match every filter given.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"state": "queued", "kind": "ingestion", "created_before": "2026-01-31T12:00:00Z"}))]
pub struct CancelJobsRequest {
    /// `queued`, `running` or `awaiting_helper`; all three if left out.
    #[serde(default)]
    pub state: Option<CancelledState>,
    /// Only those of this kind.
    #[serde(default)]
    pub kind: Option<String>,
    /// Only those about this source.
    #[serde(default)]
    pub source_id: Option<String>,
    /// Only those whose `error`, the reason why they are tried again, has this code.
    #[serde(default)]
    pub code: Option<String>,
    /// Only those created at this moment or later.
    #[serde(default)]
    #[schema(format = DateTime)]
    pub created_after: Option<String>,
    /// Only those created before this moment.
    #[serde(default)]
    #[schema(format = DateTime)]
    pub created_before: Option<String>,
    /// Set to true to cancel all jobs of the space that are not over; required if no filter is
    /// given. Filters narrow it all the same.
    #[serde(default)]
    pub all: bool,
    /// Jobs to cancel at the most.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1000, default = 1000)]
    pub limit: Option<usize>,
}

/// What became of the jobs.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"matched": 60, "changed": 60, "superseded": 0, "more": false, "queue_full": false}))]
pub struct RetryJobsResponse {
    /// How many jobs matched, up to `limit` and without those superseded.
    pub matched: usize,
    /// How many of them are queued again.
    pub changed: usize,
    /// How many more match but were left alone, counted up to `limit`: their source has got a newer
    /// text since, which theirs would replace. `POST /v1/jobs/{id}/retry` tries one again
    /// nevertheless.
    pub superseded: usize,
    /// Whether more jobs are left to try again: repeat the request.
    pub more: bool,
    /// Whether `jobs.max_queued` jobs wait already: repeat the request when some of them are done.
    pub queue_full: bool,
}

/// What became of the jobs.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"matched": 60, "changed": 60, "more": false}))]
pub struct CancelJobsResponse {
    /// How many jobs matched, up to `limit`.
    pub matched: usize,
    /// How many of them are cancelled; the others ended by themselves meanwhile.
    pub changed: usize,
    /// Whether more jobs match: repeat the request.
    pub more: bool,
}

/// Retry many jobs
///
/// Queues all failed jobs of the space again that match the filters, or all cancelled ones; the
/// steps that they have finished are not repeated. At least one filter or `"all": true` is needed.
/// A job is left alone if its source has got a newer text since. One request changes up to `limit`
/// jobs; while `more` is true, repeat it.
#[utoipa::path(
    post, path = "/v1/jobs/retry", tag = "jobs", operation_id = "retry_jobs", request_body = RetryJobsRequest,
    responses((status = 200, description = "How many jobs are queued again.", body = RetryJobsResponse))
)]
pub async fn retry_jobs(
    caller: Caller,
    State(jobs): State<Jobs>,
    JsonBody { value: request, .. }: JsonBody<RetryJobsRequest>,
) -> Result<Json<RetryJobsResponse>, ApiError> {
    let filter = JobFilter {
        state: request.state.map(JobState::from),
        kind: request.kind,
        source_id: request.source_id,
        code: request.code,
        created: span(
            "created",
            request.created_after.as_deref(),
            request.created_before.as_deref(),
        )?,
        finished: span(
            "finished",
            request.finished_after.as_deref(),
            request.finished_before.as_deref(),
        )?,
    };

    check(&filter, request.all)?;
    let most = limit(request.limit)?;
    let done = jobs
        .retry_many(&caller.space, &filter, most, caller.now)
        .await?;
    Ok(Json(RetryJobsResponse {
        matched: done.matched,
        changed: done.changed,
        superseded: done.superseded,
        more: done.more,
        queue_full: done.queue_full,
    }))
}

/// Cancel many jobs
///
/// Cancels all jobs of the space that match the filters and are not over. At least one filter or
/// `"all": true` is needed. Whoever runs one of them stops within a second or two. One request
/// changes up to `limit` jobs; while `more` is true, repeat it.
#[utoipa::path(
    post, path = "/v1/jobs/cancel", tag = "jobs", operation_id = "cancel_jobs", request_body = CancelJobsRequest,
    responses((status = 200, description = "How many jobs are cancelled.", body = CancelJobsResponse))
)]
pub async fn cancel_jobs(
    caller: Caller,
    State(jobs): State<Jobs>,
    JsonBody { value: request, .. }: JsonBody<CancelJobsRequest>,
) -> Result<Json<CancelJobsResponse>, ApiError> {
    let filter = JobFilter {
        state: request.state.map(JobState::from),
        kind: request.kind,
        source_id: request.source_id,
        code: request.code,
        created: span(
            "created",
            request.created_after.as_deref(),
            request.created_before.as_deref(),
        )?,
        finished: Span::default(),
    };

    check(&filter, request.all)?;
    let most = limit(request.limit)?;
    let done = jobs
        .cancel_many(&caller.space, &filter, most, caller.now)
        .await?;
    Ok(Json(CancelJobsResponse {
        matched: done.matched,
        changed: done.changed,
        more: done.more,
    }))
}

/// The stretch of time between `NAME_after` and `NAME_before`.
pub(super) fn span(
    name: &str,
    after: Option<&str>,
    before: Option<&str>,
) -> Result<Span, ApiError> {
    let after = moment(&format!("{name}_after"), after)?;
    Ok(Span {
        after,
        before: moment(&format!("{name}_before"), before)?,
    })
}

fn limit(asked: Option<usize>) -> Result<usize, ApiError> {
    match asked.unwrap_or(MAX_LIMIT) {
        limit @ 1..=MAX_LIMIT => Ok(limit),
        _ => Err(ApiError::invalid_field(
            "limit",
            format!("must be from 1 to {MAX_LIMIT}"),
        )),
    }
}

/// A body without a filter is more likely a slip than a wish for everything.
fn check(filter: &JobFilter, all: bool) -> Result<(), ApiError> {
    if *filter == JobFilter::default() && !all {
        return Err(ApiError::invalid_field(
            "all",
            "must be true where no filter is given: every job would match",
        ));
    }
    Ok(())
}
