//! Bulk operations: cancel or retry jobs selected by state, kind, source, error and time.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::base::clock::Timestamp;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::JsonBody;
use crate::jobs::{Changed, Jobs};
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

/// Declares the filters of a bulk operation, and what is particular to it.
macro_rules! bulk_request {
    (
        $(#[$about:meta])*
        $name:ident { $(#[$state_about:meta])* state: $state:ty, $(#[$code_about:meta])* code, $($more:tt)* }
    ) => {
        #[derive(Debug, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        $(#[$about])*
        pub struct $name {
            $(#[$state_about])*
            pub state: Option<$state>,
            /// Only jobs of this kind: `ingestion`, `query`, `enrich`, `extract`, `backfill`,
            /// `reclassify`, `balance`, `reembed` or `reindex`.
            pub kind: Option<String>,
            /// Only jobs for this source.
            pub source_id: Option<String>,
            $(#[$code_about])*
            pub code: Option<String>,
            /// Only jobs created at or after this time.
            #[schema(value_type = Option<String>, format = DateTime)]
            pub created_after: Option<Timestamp>,
            /// Only jobs created before this time.
            #[schema(value_type = Option<String>, format = DateTime)]
            pub created_before: Option<Timestamp>,
            $($more)*
        }

        impl $name {
            /// The filter, without the time at which the jobs ended.
            fn filter(&self) -> JobFilter {
                JobFilter {
                    state: self.state.map(JobState::from),
                    kind: self.kind.clone(),
                    source_id: self.source_id.clone(),
                    code: self.code.clone(),
                    created: Span {
                        after: self.created_after,
                        before: self.created_before,
                    },
                    finished: Span::default(),
                }
            }
        }
    };
}

bulk_request! {
    /// Which jobs to retry: those that match all given filters.
    #[schema(example = json!({"code": "worker_lost", "finished_after": "2026-01-31T12:00:00Z"}))]
    RetryJobsRequest {
        /// `failed` or `cancelled`; `failed` if omitted.
        state: RetriedState,
        /// Only jobs whose `error` has this code.
        code,
        /// Only jobs that ended at or after this time.
        #[schema(value_type = Option<String>, format = DateTime)]
        pub finished_after: Option<Timestamp>,
        /// Only jobs that ended before this time.
        #[schema(value_type = Option<String>, format = DateTime)]
        pub finished_before: Option<Timestamp>,
        /// Set to true to retry all failed jobs of the space; required if no filter is given. Filters,
        /// if given, still apply.
        #[serde(default)]
        pub all: bool,
        /// Maximum number of jobs to retry.
        #[schema(minimum = 1, maximum = 1000, default = 1000)]
        pub limit: Option<usize>,
    }
}

bulk_request! {
    /// Which jobs to cancel: those that match all given filters.
    #[schema(example = json!({"state": "queued", "kind": "ingestion", "created_before": "2026-01-31T12:00:00Z"}))]
    CancelJobsRequest {
        /// `queued`, `running` or `awaiting_helper`; all three if omitted.
        state: CancelledState,
        /// Only jobs whose `error` has this code; for an unfinished job, `error` is the reason for its
        /// next retry.
        code,
        /// Set to true to cancel all unfinished jobs of the space; required if no filter is given.
        /// Filters, if given, still apply.
        #[serde(default)]
        pub all: bool,
        /// Maximum number of jobs to cancel.
        #[schema(minimum = 1, maximum = 1000, default = 1000)]
        pub limit: Option<usize>,
    }
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
    responses((status = 200, description = "The number of jobs queued again.", body = Changed))
)]
pub async fn retry_jobs(
    caller: Caller,
    State(jobs): State<Jobs>,
    JsonBody { value: request, .. }: JsonBody<RetryJobsRequest>,
) -> Result<Json<Changed>, ApiError> {
    let filter = JobFilter {
        finished: Span {
            after: request.finished_after,
            before: request.finished_before,
        },
        ..request.filter()
    };

    check(&filter, request.all)?;
    let most = limit(request.limit)?;
    let done = jobs.retry_many(&caller.call, &filter, most).await?;
    Ok(Json(done))
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
    let filter = request.filter();
    check(&filter, request.all)?;
    let most = limit(request.limit)?;
    let done = jobs.cancel_many(&caller.call, &filter, most).await?;
    Ok(Json(CancelJobsResponse {
        matched: done.matched,
        changed: done.changed,
        more: done.more,
    }))
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
