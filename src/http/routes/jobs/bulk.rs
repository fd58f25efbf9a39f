//! Bulk operations: cancel or retry jobs selected by state, kind, source, error and time.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::{JsonBody, moment};
use crate::jobs::Jobs;
use crate::model::job::{JobFilter, JobState, Span};

/// The maximum number of jobs that one request changes.
const MAX_LIMIT: usize = 1000;

/// The state of the jobs to retry.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RetriedState {
    Failed,
    Cancelled,
}

/// The state of the jobs to cancel.
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

/// Which jobs to retry: those that match all given filters.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"code": "worker_lost", "finished_after": "2026-01-31T12:00:00Z"}))]
pub struct RetryJobsRequest {
    /// `failed` or `cancelled`; `failed` if omitted.
    #[serde(default)]
    pub state: Option<RetriedState>,
    /// Only jobs of this kind: `ingestion`, `query`, `enrich`, `extract`, `backfill`, `reembed` or
    /// `reindex`.
    #[serde(default)]
    pub kind: Option<String>,
    /// Only jobs for this source.
    #[serde(default)]
    pub source_id: Option<String>,
    /// Only jobs whose `error` has this code.
    #[serde(default)]
    pub code: Option<String>,
    /// Only jobs created at or after this time.
    #[serde(default)]
    #[schema(format = DateTime)]
    pub created_after: Option<String>,
    /// Only jobs created before this time.
    #[serde(default)]
    #[schema(format = DateTime)]
    pub created_before: Option<String>,
    /// Only jobs that ended at or after this time.
    #[serde(default)]
    #[schema(format = DateTime)]
    pub finished_after: Option<String>,
    /// Only jobs that ended before this time.
    #[serde(default)]
    #[schema(format = DateTime)]
    pub finished_before: Option<String>,
    /// Set to true to retry all failed jobs of the space; required if no filter is given. Filters,
    /// if given, still apply.
    #[serde(default)]
    pub all: bool,
    /// Maximum number of jobs to retry.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1000, default = 1000)]
    pub limit: Option<usize>,
}

/// Which jobs to cancel: those that match all given filters.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"state": "queued", "kind": "ingestion", "created_before": "2026-01-31T12:00:00Z"}))]
pub struct CancelJobsRequest {
    /// `queued`, `running` or `awaiting_helper`; all three if omitted.
    #[serde(default)]
    pub state: Option<CancelledState>,
    /// Only jobs of this kind: `ingestion`, `query`, `enrich`, `extract`, `backfill`, `reembed` or
    /// `reindex`.
    #[serde(default)]
    pub kind: Option<String>,
    /// Only jobs for this source.
    #[serde(default)]
    pub source_id: Option<String>,
    /// Only jobs whose `error` has this code; for an unfinished job, `error` is the reason for its
    /// next retry.
    #[serde(default)]
    pub code: Option<String>,
    /// Only jobs created at or after this time.
    #[serde(default)]
    #[schema(format = DateTime)]
    pub created_after: Option<String>,
    /// Only jobs created before this time.
    #[serde(default)]
    #[schema(format = DateTime)]
    pub created_before: Option<String>,
    /// Set to true to cancel all unfinished jobs of the space; required if no filter is given.
    /// Filters, if given, still apply.
    #[serde(default)]
    pub all: bool,
    /// Maximum number of jobs to cancel.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1000, default = 1000)]
    pub limit: Option<usize>,
}

/// The result of a bulk retry.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"matched": 60, "changed": 60, "superseded": 0, "more": false, "queue_full": false}))]
pub struct RetryJobsResponse {
    /// Number of matching jobs, up to `limit`, not counting superseded ones.
    pub matched: usize,
    /// Number of jobs that were queued again.
    pub changed: usize,
    /// Number of matching jobs, up to `limit`, that were skipped because their source has received
    /// a newer text, which a retry would replace. `POST /v1/jobs/{id}/retry` retries such a job
    /// anyway.
    pub superseded: usize,
    /// Whether more jobs match; if so, repeat the request.
    pub more: bool,
    /// Whether the queue already holds `jobs.max_queued` jobs; repeat the request when some of them
    /// have finished.
    pub queue_full: bool,
}

/// The result of a bulk cancellation.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"matched": 60, "changed": 60, "more": false}))]
pub struct CancelJobsResponse {
    /// Number of matching jobs, up to `limit`.
    pub matched: usize,
    /// Number of jobs that were cancelled; the other matching jobs finished in the meantime.
    pub changed: usize,
    /// Whether more jobs match; if so, repeat the request.
    pub more: bool,
}

/// Retry many jobs
///
/// Queues all failed jobs of the space that match the filters, or all cancelled jobs if `state` is
/// `cancelled`; completed steps are not repeated. Requires at least one filter or `"all": true`.
/// Skips a job if its source has received a newer text since. One request changes up to `limit`
/// jobs; while `more` is true, repeat it.
#[utoipa::path(
    post, path = "/v1/jobs/retry", tag = "jobs", operation_id = "retry_jobs", request_body = RetryJobsRequest,
    responses((status = 200, description = "The number of jobs queued again.", body = RetryJobsResponse))
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
/// Cancels all unfinished jobs of the space that match the filters. Requires at least one filter or
/// `"all": true`. Running jobs stop within two seconds. One request changes up to `limit` jobs;
/// while `more` is true, repeat it.
#[utoipa::path(
    post, path = "/v1/jobs/cancel", tag = "jobs", operation_id = "cancel_jobs", request_body = CancelJobsRequest,
    responses((status = 200, description = "The number of cancelled jobs.", body = CancelJobsResponse))
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

/// The time range between `NAME_after` and `NAME_before`.
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

/// A body without a filter is more likely a mistake than a request to change every job.
fn check(filter: &JobFilter, all: bool) -> Result<(), ApiError> {
    if *filter == JobFilter::default() && !all {
        return Err(ApiError::invalid_field(
            "all",
            "must be true if no filter is given, because every job would match",
        ));
    }
    Ok(())
}
