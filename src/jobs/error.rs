//! Why a job did not succeed: a temporary error, a permanent one, or none of its own.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::base::problems::{self, ProblemKind};
use crate::llm::LlmError;
use crate::model::job::{WAITING_FOR_PROVIDER, WAITING_FOR_QUEUE, WAITING_FOR_STORAGE};
use crate::store::StoreError;

/// A job's failure.
#[derive(Debug, Clone, thiserror::Error)]
pub enum JobError {
    /// Temporary: queued again until the attempts are used up.
    #[error("{0}")]
    Retry(Box<Failure>),
    /// What it needs is not there, such as its provider: returned to the queue for a while, without
    /// using up an attempt.
    #[error("{0}")]
    Wait(Box<Failure>, Wait),
    /// Permanent: the job fails.
    #[error("{0}")]
    Fail(Box<Failure>),
    /// The process must stop: returned to the queue without using up an attempt.
    #[error("the process is shutting down")]
    Interrupted,
    /// The database was unreachable: returned to the queue for a while, without using up an
    /// attempt.
    #[error("the database is unreachable")]
    Away,
    /// Another process has the job now, or it was cancelled: nothing may be written.
    #[error("the lease was lost")]
    LeaseLost,
}

/// What a job waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// An unreachable or busy provider, with the wait that it asks for. Up to `jobs.patience`
    /// before an attempt is lost.
    Outage(Option<Duration>),
    /// A paused provider, which is tried again after this time. An operator must act, so there is
    /// no limit.
    Paused(Duration),
    /// Space in the database. Up to `jobs.patience` before an attempt is lost.
    Storage,
    /// Places in the queue for the jobs that it queues. Others free them, so there is no limit.
    Queue,
}

impl Wait {
    /// The phase in which the job waits.
    pub fn phase(self) -> &'static str {
        match self {
            Self::Outage(_) | Self::Paused(_) => WAITING_FOR_PROVIDER,
            Self::Storage => WAITING_FOR_STORAGE,
            Self::Queue => WAITING_FOR_QUEUE,
        }
    }
}

impl JobError {
    pub fn retry(failure: Failure) -> Self {
        Self::Retry(Box::new(failure))
    }

    pub fn fail(failure: Failure) -> Self {
        Self::Fail(Box::new(failure))
    }
}

/// What went wrong, as in a problem document.
#[derive(Debug, Clone)]
pub struct Failure {
    pub kind: ProblemKind,
    pub detail: String,
    pub remediation: String,
    pub context: Map<String, Value>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.kind.code, self.detail)
    }
}

impl Failure {
    pub fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            remediation: kind.remedy.to_owned(),
            context: Map::new(),
        }
    }

    #[must_use]
    pub fn fix(mut self, remediation: impl Into<String>) -> Self {
        self.remediation = remediation.into();
        self
    }

    /// The problem document of a job. A job has no request, so it carries the job's id instead.
    pub fn problem(&self, job_id: &str) -> Value {
        let mut problem = json!({
            "type": format!("urn:memoir:problem:{}", self.kind.code),
            "title": self.kind.title,
            "status": self.kind.status,
            "detail": self.detail,
            "code": self.kind.code,
            "remediation": self.remediation,
            "request_id": job_id,
        });

        if !self.context.is_empty() {
            problem["context"] = Value::Object(self.context.clone());
        }

        problem
    }

    /// The process that ran the job died or froze, and the job is queued again.
    pub fn worker_lost() -> Self {
        Self::new(
            problems::WORKER_LOST,
            "the process that ran this job died or froze",
        )
        .fix(
            "No action is needed: another process takes over the job, and the attempt does not \
             count.",
        )
    }

    /// So many processes died or froze while running the job that it fails.
    pub fn workers_lost(losses: i64) -> Self {
        let detail = format!(
            "{losses} processes in a row died or froze while they ran this job, and it saved \
             no step in between"
        );
        let remediation = "Check the logs of the processes for the cause, such as too little memory; the job \
             itself may cause the crashes. Then POST /v1/jobs/{id}/retry. jobs.max_losses sets \
             the limit.";
        let mut failure = Self::new(problems::WORKER_LOST, detail).fix(remediation);
        failure.context.insert("losses".to_owned(), losses.into());

        failure
    }

    /// The code of the job panicked.
    pub fn panicked() -> Self {
        Self::new(
            problems::INTERNAL_ERROR,
            "the job failed because of an internal error",
        )
        .fix("Report the error with the job id, which is also in the log.")
    }
}

impl From<LlmError> for JobError {
    /// An unreachable model or a paused provider may recover; everything else needs an operator,
    /// and `retry` continues from there.
    fn from(error: LlmError) -> Self {
        let failure = Failure {
            kind: error.kind(),
            detail: error.to_string(),
            remediation: error.remediation(),
            context: error.context(),
        };
        match error {
            LlmError::Store(error) => error.into(),
            LlmError::Unavailable { wait, .. } => Self::Wait(Box::new(failure), Wait::Outage(wait)),
            error => match error.next_probe_in() {
                Some(wait) => Self::Wait(Box::new(failure), Wait::Paused(wait)),
                None => Self::fail(failure),
            },
        }
    }
}

impl From<StoreError> for JobError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable { .. }
            | StoreError::Uncertain { .. }
            | StoreError::CannotOpen { .. } => Self::Away,
            StoreError::Contended { .. } => Self::retry(Failure::new(
                problems::DATABASE_BUSY,
                "the job kept conflicting with other work in the database, or a statement \
                 took too long",
            )),
            StoreError::Full { .. } => {
                let failure =
                    Failure::new(problems::STORAGE_FULL, "the disk of the database is full").fix(
                        "Free disk space for the database. The job then resumes automatically.",
                    );
                Self::Wait(Box::new(failure), Wait::Storage)
            }
            // Perhaps a bug, perhaps a server that is being replaced: the attempts decide.
            error => {
                tracing::error!(%error, "a database statement of a job failed");
                Self::retry(Failure::new(
                    problems::INTERNAL_ERROR,
                    "a database statement failed",
                ))
            }
        }
    }
}
