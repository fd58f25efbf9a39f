//! Cancels and retries jobs, and deletes the logs of those that end.

use super::{Jobs, JobsError, parse};
use crate::base::ids::SourceId;
use crate::model::call::CallContext;
use crate::model::job::{Claim, ERASED, Job, JobState};
use crate::store::{StoreError, Tx};

impl Jobs {
    /// Cancels an unfinished job immediately; its worker stops within a second or two and writes
    /// nothing more.
    ///
    /// # Errors
    /// [`JobsError::NotFound`], [`JobsError::WrongState`] if it has ended, or the store's.
    pub async fn cancel(&self, call: &CallContext, id: &str) -> Result<Job, JobsError> {
        let job = self
            .change(
                call,
                id,
                "cancel_job",
                JobState::Cancelled,
                "an unfinished job",
            )
            .await?;

        count_cancelled(&job);
        Ok(job)
    }

    /// Cancels all unfinished jobs of a source inside the caller's transaction; call
    /// [`Jobs::announce_cancelled`] with them once that is committed.
    pub async fn cancel_about(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        id: &SourceId,
    ) -> Result<Vec<Job>, StoreError> {
        let cancelled = tx.cancel_jobs_about(&call.space, id, call.now).await?;
        for job in &cancelled {
            self.tidy(tx, &job.claim()).await?;
        }

        Ok(cancelled)
    }

    pub fn announce_cancelled(&self, jobs: &[Job]) {
        jobs.iter().for_each(count_cancelled);
        if !jobs.is_empty() {
            self.announce();
        }
    }

    /// Queues a failed or cancelled job again; its finished steps are not repeated.
    ///
    /// # Errors
    /// [`JobsError::NotFound`], [`JobsError::WrongState`] if it is neither,
    /// [`JobsError::QueueFull`], or the store's.
    pub async fn retry(&self, call: &CallContext, id: &str) -> Result<Job, JobsError> {
        self.change(
            call,
            id,
            "retry_job",
            JobState::Queued,
            "a failed or cancelled job",
        )
        .await
    }

    /// Deletes the log of a job that ends, unless it is to be kept.
    pub(super) async fn tidy(&self, tx: &mut Tx, claim: &Claim) -> Result<(), StoreError> {
        if self.keeps_records {
            Ok(())
        } else {
            tx.remove_job_record(&claim.space, &claim.id).await
        }
    }

    async fn change(
        &self,
        call: &CallContext,
        id: &str,
        name: &'static str,
        next: JobState,
        wanted: &'static str,
    ) -> Result<Job, JobsError> {
        let parsed = parse(id)?;
        let changed = self.store.retry_as(name, || async {
            let mut tx = self.store.begin().await?;
            let found = tx.find_job(&call.space, &parsed).await?;
            let job = found.ok_or_else(|| JobsError::NotFound(id.to_owned()))?;

            // A user can queue only jobs that have ended.
            let allowed =
                job.state.may_become(next) && (next != JobState::Queued || job.state.is_final());
            if !allowed {
                return Err(JobsError::WrongState {
                    state: job.state,
                    wanted,
                });
            }

            if !self.apply(&mut tx, call, &job, next).await? {
                // It changed between the read and the write: read again.
                return Err(StoreError::Contended {
                    cause: "the job changed its state".to_owned(),
                }
                .into());
            }

            tx.commit().await?;
            Ok(())
        });

        changed.await?;
        self.announce();
        self.find(call, id).await
    }

    /// Cancels or requeues a job that the transaction has read; `false` if it changed between the
    /// read and the write.
    pub(super) async fn apply(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        job: &Job,
        next: JobState,
    ) -> Result<bool, JobsError> {
        if next == JobState::Cancelled {
            let cancelled = tx.cancel_job(job, call.now).await?;
            self.tidy(tx, &job.claim()).await?;
            return Ok(cancelled);
        }

        if job.phase.as_deref() == Some(ERASED) {
            return Err(JobsError::Erased(job.id.to_string()));
        }

        if !tx.has_room(job, self.max_queued()).await? {
            return Err(self.queue_full(1));
        }

        Ok(tx.requeue_job(job, call.now).await?)
    }
}

pub(super) fn count_cancelled(job: &Job) {
    metrics::counter!(
        crate::base::metrics::JOBS_FINISHED_TOTAL, "kind" => job.kind.clone(), "outcome" => "cancelled"
    )
    .increment(1);
}
