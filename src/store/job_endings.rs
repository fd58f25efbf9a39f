//! Rows of `jobs` whose run ends: finished, failed, or handed back. Every write is fenced and
//! releases the lease.

use std::time::Duration;

use serde_json::{Value, json};

use super::dialect::Statement;
use super::job_claims::{bind_claim, micros};
use super::job_events::AFTER_START;
use super::jobs::check_transition;
use super::retry::retries_so_far;
use super::{StoreError, Tx, job_log};
use crate::base::clock::Timestamp;
use crate::model::job::{Claim, JobLog, JobState};

/// How a running job ends, or returns to the queue.
#[derive(Debug, Clone)]
pub enum Ending {
    Succeeded {
        result: Value,
    },
    Failed {
        error: Value,
    },
    /// Retried after a pause.
    Retried {
        error: Value,
        after: Duration,
    },
    /// Handed back until its provider answers or the database has space; the attempt does not
    /// count.
    Waiting {
        error: Value,
        after: Duration,
        /// Whether the wait continues without progress since the last one.
        goes_on: bool,
        /// What it waits for.
        phase: &'static str,
    },
    /// Handed back through no fault of its own; the attempt does not count.
    HandedBack {
        after: Duration,
    },
    /// Waits for its user; the attempt does not count.
    AwaitingInput {
        progress: Value,
    },
}

impl Ending {
    pub fn state(&self) -> JobState {
        match self {
            Self::Succeeded { .. } => JobState::Succeeded,
            Self::Failed { .. } => JobState::Failed,
            Self::Retried { .. } | Self::Waiting { .. } | Self::HandedBack { .. } => {
                JobState::Queued
            }
            Self::AwaitingInput { .. } => JobState::AwaitingInput,
        }
    }
}

/// How a job succeeds whose log is kept.
#[derive(Debug)]
pub struct Success<'s> {
    pub result: &'s Value,
    /// The last progress, if it is not written yet.
    pub progress: Option<&'s Value>,
    /// All warnings of the job.
    pub warnings: Vec<Value>,
    pub log: JobLog,
    pub started_at: Timestamp,
    /// Whether nothing has been written about the job since its first claim.
    pub is_untouched: bool,
}

/// An update that ends the claim that its last three values name.
macro_rules! released {
    ($columns:literal) => {
        concat!(
            "UPDATE jobs SET ",
            $columns,
            ", lease_owner = NULL, lease_until = NULL \
             WHERE space = ? AND id = ? AND fence = ? AND state = 'running'"
        )
    };
}

const SUCCEEDED: &str = released!(
    "state = 'succeeded', result_json = ?, error_json = NULL, losses = 0, finished_at = ?, phase = NULL"
);
const SUCCEEDED_WITH_LOG: &str = released!(
    "state = 'succeeded', result_json = ?, progress_json = COALESCE(?, progress_json), warnings_json = ?, \
     log_json = ?, error_json = NULL, losses = 0, finished_at = ?, phase = NULL"
);
const FAILED: &str = released!("state = 'failed', error_json = ?, finished_at = ?, phase = NULL");
const RETRIED: &str = released!(
    "state = 'queued', error_json = ?, turn = ?, run_after = @now + ?, phase = NULL, \
     waiting_since = NULL, waits = 0"
);
const WAIT_CONTINUED: &str = released!(
    "state = 'queued', error_json = ?, attempt = attempt - 1, run_after = @now + ?, phase = ?, \
     waiting_since = COALESCE(waiting_since, @now), waits = waits + 1"
);
const WAIT_BEGUN: &str = released!(
    "state = 'queued', error_json = ?, attempt = attempt - 1, run_after = @now + ?, phase = ?, \
     waiting_since = @now, waits = 1"
);
/// Keeps its turn: it was at the front already.
const HANDED_BACK: &str =
    released!("state = 'queued', attempt = attempt - 1, run_after = @now + ?, phase = NULL");
const AWAITING_INPUT: &str =
    released!("state = 'awaiting_helper', attempt = attempt - 1, progress_json = ?, phase = NULL");

impl Tx {
    /// Ends a claimed job or hands it back; `false`, and nothing written, if the claim is lost.
    pub async fn end_job(
        &mut self,
        claim: &Claim,
        ending: &Ending,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        check_transition(JobState::Running, ending.state())?;
        let update = self.ending_update(claim, ending, now).await?;
        if self.execute(bind_claim(update, claim)).await? == 0 {
            return Ok(false);
        }

        if matches!(ending, Ending::Succeeded { .. }) {
            self.clear_ended_job(claim, true).await?;
        }

        self.add_ending_events(claim, ending, now).await?;
        Ok(true)
    }

    /// Ends a claimed job that has succeeded and writes its log into its row; `false`, and nothing
    /// written, if the claim is lost.
    pub async fn succeed_job(
        &mut self,
        claim: &Claim,
        mut success: Success<'_>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        check_transition(JobState::Running, JobState::Succeeded)?;
        let after = if success.is_untouched {
            AFTER_START
        } else {
            self.last_event(claim).await?
        };

        let retries = retries_so_far();
        if retries > 0 {
            let event = ("db_retries", json!({"count": retries}), now);
            success.log.events.push(event);
        }

        let warnings = std::mem::take(&mut success.warnings);
        let log = job_log::written(&success.log, after, success.started_at, &warnings);
        let warnings = (!warnings.is_empty()).then(|| Value::from(warnings).to_string());
        let update = self
            .sql(SUCCEEDED_WITH_LOG)
            .bind(success.result.to_string())
            .bind(success.progress.map(ToString::to_string))
            .bind(warnings)
            .bind(log)
            .bind(now.as_micros());

        if self.execute(bind_claim(update, claim)).await? == 0 {
            return Ok(false);
        }

        self.clear_ended_job(claim, !success.is_untouched).await?;
        Ok(true)
    }

    /// The update of the job's row, without the values that name the claim.
    async fn ending_update(
        &mut self,
        claim: &Claim,
        ending: &Ending,
        now: Timestamp,
    ) -> Result<Statement, StoreError> {
        Ok(match ending {
            Ending::Succeeded { result } => self
                .sql(SUCCEEDED)
                .bind(result.to_string())
                .bind(now.as_micros()),
            Ending::Failed { error } => self
                .sql(FAILED)
                .bind(error.to_string())
                .bind(now.as_micros()),
            Ending::Retried { error, after } => {
                let turn = self.next_turn(&claim.space, &claim.id).await?;
                self.sql(RETRIED)
                    .bind(error.to_string())
                    .bind(turn)
                    .bind(micros(*after))
            }
            Ending::Waiting {
                error,
                after,
                goes_on,
                phase,
            } => self
                .sql(if *goes_on { WAIT_CONTINUED } else { WAIT_BEGUN })
                .bind(error.to_string())
                .bind(micros(*after))
                .bind(*phase),
            Ending::HandedBack { after } => self.sql(HANDED_BACK).bind(micros(*after)),
            Ending::AwaitingInput { progress } => {
                self.sql(AWAITING_INPUT).bind(progress.to_string())
            }
        })
    }

    /// Deletes the request and the steps, which are no longer needed and may contain a long text.
    async fn clear_ended_job(
        &mut self,
        claim: &Claim,
        may_have_steps: bool,
    ) -> Result<(), StoreError> {
        let steps = "DELETE FROM job_checkpoints WHERE space = ? AND job_id = ?";
        for clear in ["DELETE FROM job_requests WHERE space = ? AND job_id = ?"]
            .into_iter()
            .chain(may_have_steps.then_some(steps))
        {
            let clear = self.sql(clear).bind(claim.space.as_str().to_owned());
            self.execute(clear.bind(claim.id.as_str().to_owned()))
                .await?;
        }

        Ok(())
    }

    async fn add_ending_events(
        &mut self,
        claim: &Claim,
        ending: &Ending,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let Claim { space, id, .. } = claim;
        // Repeating the same error adds nothing, and the wait for a paused provider may be very
        // long.
        if let Ending::Failed { error }
        | Ending::Retried { error, .. }
        | Ending::Waiting {
            error,
            goes_on: false,
            ..
        } = ending
        {
            self.add_job_event(space, id, "error", error, now).await?;
        }

        let retries = retries_so_far();
        if retries > 0 {
            let data = json!({"count": retries});
            self.add_job_event(space, id, "db_retries", &data, now)
                .await?;
        }

        if !matches!(ending, Ending::Waiting { goes_on: true, .. }) {
            self.add_state_event(space, id, ending.state(), now).await?;
        }

        Ok(())
    }
}
