//! Jobs whose process died or froze: taken over, counted, and failed if that happens too often.

use serde_json::Value;

use super::jobs::{COLUMNS, check_transition};
use super::rows::Stored as _;
use super::{Store, StoreError, Tx};
use crate::base::clock::Timestamp;
use crate::model::job::{Claim, Job, JobState};

/// How many lost jobs one sweep takes over.
const RESCUED_AT_ONCE: i64 = 100;

impl Store {
    /// Takes over jobs whose lease has expired. The attempt is given back, because the death of a
    /// process says nothing about the job. It counts as a loss instead, and `max_losses` without a
    /// saved step in between end the job, whose log is then deleted unless logs are kept. Returns
    /// each updated job, with the error that `error` makes of it.
    pub async fn rescue_jobs(
        &self,
        max_losses: i64,
        keeps_records: bool,
        error: impl Fn(&Job) -> Value,
        now: Timestamp,
    ) -> Result<Vec<Job>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM jobs WHERE lease_until < @now AND state = 'running' LIMIT {RESCUED_AT_ONCE}"
        );
        let lost = self.fetch_all(self.composed(&sql)).await?;
        let mut rescued = Vec::new();

        for row in &lost {
            let mut job = Job::read(row)?;
            let hopeless = job.losses + 1 >= max_losses;
            let next = if hopeless {
                JobState::Failed
            } else {
                JobState::Queued
            };

            check_transition(job.state, next)?;
            (job.state, job.attempt, job.losses) = (next, job.attempt - 1, job.losses + 1);
            let error = error(&job);

            let mut tx = self.begin().await?;
            let update = "UPDATE jobs SET state = ?, error_json = ?, finished_at = ?, attempt = ?, losses = ?, \
                          phase = NULL, run_after = @now, fence = fence + 1, lease_owner = NULL, lease_until = NULL \
                          WHERE space = ? AND id = ? AND fence = ? AND state = 'running' AND lease_until < @now \
                          AND losses = ?";

            let update = tx
                .sql(update)
                .bind(job.state.into_str())
                .bind(error.to_string())
                .bind(hopeless.then_some(now.as_micros()))
                .bind(job.attempt)
                .bind(job.losses)
                .bind(job.space.as_str())
                .bind(job.id.as_str())
                .bind(job.fence)
                .bind(job.losses - 1);

            // Its process was only slow: it has renewed the lease, or saved a step. The next sweep
            // checks again.
            if tx.execute(update).await? == 0 {
                continue;
            }

            tx.add_job_event(&job.space, &job.id, "error", &error, now)
                .await?;
            tx.add_state_event(&job.space, &job.id, job.state, now)
                .await?;
            if hopeless && !keeps_records {
                tx.remove_job_record(&job.space, &job.id).await?;
            }

            tx.commit().await?;
            rescued.push(job);
        }

        Ok(rescued)
    }
}

impl Tx {
    /// Resets the losses of a running job to 0.
    pub(super) async fn forget_losses(&mut self, claim: &Claim) -> Result<(), StoreError> {
        let update = "UPDATE jobs SET losses = 0 WHERE space = ? AND id = ? AND fence = ? AND state = 'running'";
        let update = self
            .sql(update)
            .bind(claim.space.as_str().to_owned())
            .bind(claim.id.as_str().to_owned());

        self.execute(update.bind(claim.fence)).await.map(|_| ())
    }
}
