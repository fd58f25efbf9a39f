//! How a write can fail, and how the job reports it.

use serde_json::Value;

use crate::base::problems;
use crate::jobs::{Failure, JobError};
use crate::store::{AsStoreError, StoreError};

/// A write that did not happen.
#[derive(Debug)]
pub enum WriteError {
    /// Other jobs have filled the hierarchy in the meantime: some chunks must be filed again.
    NoRoom,
    /// The job must end in this way; for example, its lease is lost.
    Job(JobError),
    /// The named step failed.
    Store {
        operation: &'static str,
        table: &'static str,
        error: StoreError,
    },
}

impl AsStoreError for WriteError {
    fn as_store_error(&self) -> Option<&StoreError> {
        if let Self::Store { error, .. } = self {
            Some(error)
        } else {
            None
        }
    }
}

impl From<JobError> for WriteError {
    fn from(error: JobError) -> Self {
        Self::Job(error)
    }
}

/// Names the step that failed.
pub trait During<T> {
    fn during(self, operation: &'static str, table: &'static str) -> Result<T, WriteError>;
}

impl<T> During<T> for Result<T, StoreError> {
    fn during(self, operation: &'static str, table: &'static str) -> Result<T, WriteError> {
        self.map_err(|error| WriteError::Store {
            operation,
            table,
            error,
        })
    }
}

impl WriteError {
    /// As the job reports it.
    pub fn into_job_error(self, attempt: i64) -> JobError {
        let (operation, table, error) = match self {
            Self::NoRoom => return JobError::Interrupted,
            Self::Job(error) => return error,
            Self::Store {
                operation,
                table,
                error,
            } => (operation, table, error),
        };

        let message = error.to_string();
        // A database message may quote a text, so it stays with the job.
        tracing::error!(operation, table, "ingestion rolled back");
        let named = |mut failure: Failure| {
            for (name, value) in [
                ("operation", Value::from(operation)),
                ("table", table.into()),
                ("database_message", message.clone().into()),
                ("attempt", attempt.into()),
                ("retryable", true.into()),
            ] {
                failure.context.insert(name.to_owned(), value);
            }
            failure
        };

        match JobError::from(error) {
            JobError::Retry(failure) if failure.kind == problems::INTERNAL_ERROR => {
                JobError::retry(named(
                    Failure::new(
                        problems::WRITE_FAILED,
                        format!("cannot {operation}; everything was rolled back"),
                    )
                    .fix(
                        "Fix the problem reported in context.database_message, then POST \
                     /v1/jobs/{id}/retry. The retry repeats no model call.",
                    ),
                ))
            }
            JobError::Retry(failure) => JobError::retry(named(*failure)),
            JobError::Fail(failure) => JobError::fail(named(*failure)),
            other => other,
        }
    }
}

/// Fails if the lease of the job is lost.
pub fn held(ours: bool) -> Result<(), WriteError> {
    if ours {
        Ok(())
    } else {
        Err(WriteError::Job(JobError::LeaseLost))
    }
}
