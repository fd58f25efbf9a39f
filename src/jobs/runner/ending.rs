//! The end of a run: what is written about the job, how the log names it, and what is counted.

use std::time::Duration;

use strum::IntoStaticStr;

use super::waiting::Waited;
use super::{LEAVE_ALONE, Shared};
use crate::base::backoff::with_jitter;
use crate::base::fail_point::fail_point;
use crate::base::metrics as names;
use crate::jobs::error::Failure;
use crate::jobs::{JobError, Outcome};
use crate::model::job::{Claim, Job};
use crate::store::{Ending, StoreError};

/// How a run of a job ended, and its name in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum RunEnd {
    Succeeded,
    Failed,
    Retried,
    #[strum(serialize = "waits")]
    Waiting,
    #[strum(serialize = "waiting for input")]
    AwaitingInput,
    #[strum(serialize = "handed back")]
    HandedBack,
    /// Another process has the job now, or it was cancelled.
    #[strum(serialize = "cancelled or taken over")]
    Lost,
    /// The end could not be stored: the lease will expire.
    Left,
}

impl RunEnd {
    /// Counts it in the metrics of this kind of job.
    pub fn count(self, kind: &str) {
        match self {
            Self::Retried => {
                metrics::counter!(names::JOBS_RETRIED_TOTAL, "kind" => kind.to_owned())
                    .increment(1);
            }
            Self::Failed => {
                metrics::counter!(names::JOBS_FAILED_TOTAL, "kind" => kind.to_owned()).increment(1);
                self.count_finished(kind);
            }
            Self::Succeeded => self.count_finished(kind),
            Self::Waiting | Self::AwaitingInput | Self::HandedBack | Self::Lost | Self::Left => {}
        }
    }

    fn count_finished(self, kind: &str) {
        metrics::counter!(
            names::JOBS_FINISHED_TOTAL, "kind" => kind.to_owned(), "outcome" => self.into_str()
        )
        .increment(1);
    }
}

impl From<&Ending> for RunEnd {
    fn from(ending: &Ending) -> Self {
        match ending {
            Ending::Succeeded { .. } => Self::Succeeded,
            Ending::Failed { .. } => Self::Failed,
            Ending::Retried { .. } => Self::Retried,
            Ending::Waiting { .. } => Self::Waiting,
            Ending::HandedBack { .. } => Self::HandedBack,
            Ending::AwaitingInput { .. } => Self::AwaitingInput,
        }
    }
}

impl Shared {
    /// Writes how the job ended, if the work has not written it itself, and counts it.
    pub(super) async fn end(
        &self,
        job: &Job,
        claim: &Claim,
        outcome: Result<Outcome, JobError>,
        waited: Waited,
    ) -> RunEnd {
        let outcome = waited.judge(outcome, &self.jobs.settings);
        let end = match self.ending(job, outcome, &waited) {
            Ok(ending) => self.write_ending(job, claim, &ending).await,
            Err(end) => end,
        };

        end.count(&job.kind);
        end
    }

    /// What is to be written about the job; or its end, if nothing is.
    fn ending(
        &self,
        job: &Job,
        outcome: Result<Outcome, JobError>,
        waited: &Waited,
    ) -> Result<Ending, RunEnd> {
        let settings = &self.jobs.settings;
        let problem = |failure: &Failure| failure.problem(job.id.as_str());

        Ok(match outcome {
            Ok(Outcome::Finished) => return Err(RunEnd::Succeeded),
            Err(JobError::LeaseLost) => return Err(RunEnd::Lost),
            Ok(Outcome::Done(result)) => Ending::Succeeded { result },
            Ok(Outcome::AwaitInput(progress)) => Ending::AwaitingInput { progress },
            Err(JobError::Interrupted) => Ending::HandedBack {
                after: Duration::ZERO,
            },
            Err(JobError::Away) => Ending::HandedBack {
                after: with_jitter(LEAVE_ALONE),
            },
            Err(JobError::Wait(failure, wait)) => Ending::Waiting {
                error: problem(&failure),
                after: waited.pause(wait, &failure, settings),
                goes_on: waited.goes_on(&failure),
                phase: wait.phase(),
            },
            Err(JobError::Retry(failure)) if job.attempt < job.max_attempts => Ending::Retried {
                error: problem(&failure),
                after: with_jitter(settings.pause(job.attempt)),
            },
            Err(JobError::Fail(failure) | JobError::Retry(failure)) => Ending::Failed {
                error: problem(&failure),
            },
        })
    }

    /// Writes how the job ended. While the database is unreachable it keeps trying, until the job
    /// is lost or the process stops.
    async fn write_ending(&self, job: &Job, claim: &Claim, ending: &Ending) -> RunEnd {
        loop {
            let now = self.clock.now();
            let written = self.store().retry("end_job", || async {
                let mut tx = self.store().begin().await?;
                let written = tx.end_job(claim, ending, now).await?;
                if written && ending.state().is_final() {
                    self.jobs.tidy(&mut tx, claim).await?;
                }

                fail_point!("before_commit");
                tx.commit().await?;
                fail_point!("after_commit");
                Ok(written)
            });

            match written.await {
                Ok(true) => return ending.into(),
                Ok(false) => return RunEnd::Lost,
                // The fence makes a second write harmless, so an uncertain one may be repeated
                // here.
                Err(error)
                    if may_be_written_later(&error) && self.holds.why_stopped(claim).is_none() =>
                {
                    tracing::warn!(job_id = %job.id, %error, "cannot store the end of a job; will retry");
                    tokio::time::sleep(LEAVE_ALONE).await;
                }
                Err(error) => {
                    tracing::error!(job_id = %job.id, %error, "cannot store the end of a job; its lease will expire");
                    return RunEnd::Left;
                }
            }
        }
    }
}

fn may_be_written_later(error: &StoreError) -> bool {
    error.may_pass() || matches!(error, StoreError::Full { .. })
}
