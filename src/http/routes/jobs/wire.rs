//! The wire format of a job.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::http::error::{ApiError, Problem};
use crate::http::page::list_response;
use crate::http::state::AppState;
use crate::ingestion;
use crate::model::batch::Batch;
use crate::model::job::{
    Job, JobEvent, JobState, WAITING_FOR_PROVIDER, WAITING_FOR_QUEUE, WAITING_FOR_STORAGE,
};
use crate::model::llm_call::LlmCall;

/// A background job with all its details.
#[derive(Debug, Serialize, ToSchema)]
pub struct JobResponse {
    #[serde(flatten)]
    pub summary: JobSummaryResponse,
    /// A log entry for each classification call.
    pub batches: Vec<Batch>,
    /// All model call attempts, in order.
    pub responses: Vec<LlmCall>,
    /// The origin of the source's helper.
    pub helper_events: Vec<HelperEventResponse>,
    /// The most recent errors, oldest first, including those of earlier attempts.
    pub last_errors: Vec<Problem>,
    /// How often database calls were retried because the database was unreachable or busy; updated
    /// when an attempt ends.
    pub db_retries: i64,
}

/// A background job.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "id": "0199a7e0-1c2d-7000-8000-000000000000", "kind": "ingestion", "state": "running", "phase": "classifying",
    "user_id": "default", "source_id": null, "progress": {"done": 3, "total": 12}, "waiting": null, "attempt": 1,
    "max_attempts": 3, "losses": 0, "warnings": [], "result": null, "error": null, "created_at": "2026-01-31T12:00:00.000000Z",
    "started_at": "2026-01-31T12:00:00.100000Z", "finished_at": null
}))]
pub struct JobSummaryResponse {
    pub id: String,
    /// The kind of job: `ingestion`, `query`, `enrich` (classifies messages), `extract` (extracts
    /// facts), `backfill` (adds an approved term to memories), `reclassify` (after a change to
    /// another preset of the vocabulary), `balance` (splits and merges categories after ingestions),
    /// `reembed` (after a change of the embedding model) or `reindex` (after a change of how memoir
    /// stores search terms).
    pub kind: String,
    pub state: JobState,
    /// The current phase of a running job. For a queued job, `waiting_for_provider` if a provider
    /// does not respond or is paused; `error` then contains the reason and the remedy, and
    /// `waiting` the start of the wait. For a job that has ended, `erased` if its text was deleted.
    pub phase: Option<String>,
    /// The end user within the space.
    pub user_id: String,
    /// The source that the job works on.
    pub source_id: Option<String>,
    /// Progress so far.
    #[schema(value_type = Option<std::collections::HashMap<String, Value>>)]
    pub progress: Option<Map<String, Value>>,
    /// The current wait for a provider, for free space in the database, or for places in the queue;
    /// null if the job is not waiting. Waiting uses no attempt: it lasts up to `jobs.patience` during
    /// an outage, and indefinitely while the provider is paused or the queue is full.
    pub waiting: Option<JobWaitingResponse>,
    /// How often the job was started. A run whose process died or froze does not count.
    pub attempt: i64,
    /// Maximum number of attempts.
    pub max_attempts: i64,
    /// How many processes in a row died or froze while they ran the job; a saved step resets it to
    /// 0. At `jobs.max_losses` the job fails with the code `worker_lost`.
    pub losses: i64,
    pub warnings: Vec<JobWarningResponse>,
    /// The result of a successful job. For an ingestion it also lists existing chunks that were
    /// moved to another category (`moved`: `chunk_id`, `from`, `to`) and categories that were renamed
    /// (`renamed`: `category_id`, `from`, `to`), which only the embedded model does.
    #[schema(value_type = Option<std::collections::HashMap<String, Value>>)]
    pub result: Option<Map<String, Value>>,
    /// Why the job failed, or why it will be retried.
    pub error: Option<Problem>,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[schema(format = DateTime)]
    pub started_at: Option<String>,
    #[schema(format = DateTime)]
    pub finished_at: Option<String>,
}

/// A job's wait for a provider or for free space in the database.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct JobWaitingResponse {
    /// When the first of these waits began; reset when the job makes progress.
    #[schema(format = DateTime)]
    pub since: String,
    /// Number of waits since then.
    pub waits: i64,
    /// When the job will be retried, unless memoir notices earlier that the provider responds
    /// again.
    #[schema(format = DateTime)]
    pub next_try_at: String,
}

/// A problem that did not stop the job.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct JobWarningResponse {
    pub code: String,
    pub message: String,
}

/// The origin of a source's helper.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct HelperEventResponse {
    /// `generated` by a model, `provided` with the text, or `confirmed` by the user.
    pub event: String,
    /// `user` or `generated`.
    pub origin: String,
    #[schema(format = DateTime)]
    pub timestamp: String,
    /// Token count of the helper.
    pub token_count: i64,
    /// Prompt tokens used to generate the helper.
    pub tokens_prompt: i64,
    pub tokens_completion: i64,
}

list_response! {
    /// A page of jobs, newest first.
    JobListResponse of JobSummaryResponse
}

impl JobResponse {
    /// The job with its details.
    pub async fn of(state: &AppState, job: Job) -> Result<Self, ApiError> {
        let jobs = &state.jobs;
        let (ingestion, calls, errors, db_retries) = tokio::try_join!(
            state.ingestion.details(&job),
            jobs.calls(&job),
            jobs.last_errors(&job),
            jobs.db_retries(&job)
        )?;

        let (batches, helpers) = (ingestion.batches, ingestion.helper_events);
        Ok(Self {
            helper_events: helpers.iter().map(HelperEventResponse::from).collect(),
            summary: JobSummaryResponse::from(&job),
            batches,
            responses: calls,
            last_errors: errors
                .into_iter()
                .filter_map(|event| serde_json::from_value(event.data).ok())
                .collect(),
            db_retries,
        })
    }
}

impl JobResponse {
    /// The job without its details, because there are none yet or the caller does not want them.
    pub fn fresh(job: &Job) -> Self {
        Self {
            summary: JobSummaryResponse::from(job),
            batches: Vec::new(),
            responses: Vec::new(),
            helper_events: Vec::new(),
            last_errors: Vec::new(),
            db_retries: 0,
        }
    }
}

impl From<&JobEvent> for HelperEventResponse {
    fn from(event: &JobEvent) -> Self {
        let text = |name: &str| event.data[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str| event.data[name].as_i64().unwrap_or(0);
        Self {
            event: text("event"),
            origin: text("origin"),
            timestamp: event.created_at.to_string(),
            token_count: number("token_count"),
            tokens_prompt: number("tokens_prompt"),
            tokens_completion: number("tokens_completion"),
        }
    }
}

impl From<&Job> for JobSummaryResponse {
    fn from(job: &Job) -> Self {
        let object = |value: &Option<Value>| value.as_ref().and_then(Value::as_object).cloned();
        let warnings = job
            .warnings
            .iter()
            .filter_map(|warning| serde_json::from_value(warning.clone()).ok());

        Self {
            id: job.id.to_string(),
            kind: job.kind.clone(),
            state: job.state,
            phase: job.phase.clone(),
            user_id: job.user_id.clone(),
            source_id: job.source_id.clone(),
            progress: object(&job.progress),
            waiting: waiting(job),
            attempt: job.attempt,
            max_attempts: job.max_attempts,
            losses: job.losses,
            warnings: warnings.collect(),
            result: object(&job.result).map(|result| ingestion::whole_result(job, result)),
            error: job
                .error
                .clone()
                .and_then(|error| serde_json::from_value(error).ok()),
            created_at: job.created_at.to_string(),
            started_at: job.started_at.map(|moment| moment.to_string()),
            finished_at: job.finished_at.map(|moment| moment.to_string()),
        }
    }
}

fn waiting(job: &Job) -> Option<JobWaitingResponse> {
    let waits = job.state == JobState::Queued
        && matches!(
            job.phase.as_deref(),
            Some(WAITING_FOR_PROVIDER | WAITING_FOR_STORAGE | WAITING_FOR_QUEUE)
        );

    let since = job.waiting_since.filter(|_| waits)?;
    let next_try_at = job.run_after.to_string();
    Some(JobWaitingResponse {
        since: since.to_string(),
        waits: job.waits,
        next_try_at,
    })
}
