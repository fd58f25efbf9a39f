//! Cancels or retries all jobs of a space that match a filter.
//!
//! A request changes a limited number of jobs, in short transactions of a few each: neither the
//! queue nor other writers wait for it, and what was changed stays changed if it stops halfway.

use serde::Serialize;
use utoipa::ToSchema;

use super::changing::count_cancelled;
use super::{Jobs, JobsError};
use crate::base::ids::JobId;
use crate::model::call::CallContext;
use crate::model::job::{Job, JobFilter, JobState};

/// Jobs per transaction.
const AT_ONCE: usize = 50;

/// The result of a bulk retry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = RetryJobsResponse, example = json!({"matched": 60, "changed": 60, "superseded": 0, "more": false, "queue_full": false}))]
pub struct Changed {
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

impl Jobs {
    /// Cancels all unfinished jobs that match, up to `most`.
    ///
    /// # Errors
    /// The store's.
    pub async fn cancel_many(
        &self,
        call: &CallContext,
        filter: &JobFilter,
        most: usize,
    ) -> Result<Changed, JobsError> {
        // Waiting jobs first, so that none of them starts while the others are cancelled.
        let not_over = [JobState::Queued, JobState::AwaitingInput, JobState::Running];

        let states = filter.state.map_or(not_over.to_vec(), |state| vec![state]);
        self.change_many(call, filter, &states, JobState::Cancelled, most)
            .await
    }

    /// Retries all failed or all cancelled jobs that match, up to `most`. Jobs whose source has a
    /// newer text are skipped: the older text would become the latest version.
    ///
    /// # Errors
    /// [`JobsError::QueueFull`] if not even one fits into the queue, or the store's.
    pub async fn retry_many(
        &self,
        call: &CallContext,
        filter: &JobFilter,
        most: usize,
    ) -> Result<Changed, JobsError> {
        let state = filter.state.unwrap_or(JobState::Failed);
        let mut done = self
            .change_many(call, filter, &[state], JobState::Queued, most)
            .await?;
        if done.queue_full && done.changed == 0 {
            return Err(self.queue_full(1));
        }

        if filter.can_match() {
            let superseded = self
                .store
                .count_superseded_jobs(&call.space, state, filter, most)
                .await?;
            done.superseded = usize::try_from(superseded).unwrap_or(0);
        }

        Ok(done)
    }

    async fn change_many(
        &self,
        call: &CallContext,
        filter: &JobFilter,
        states: &[JobState],
        next: JobState,
        most: usize,
    ) -> Result<Changed, JobsError> {
        let mut found = Vec::new();
        for state in states {
            let wanted = (most + 1).saturating_sub(found.len());
            if wanted == 0 || !filter.can_match() {
                break;
            }

            let current = next == JobState::Queued;
            found.extend(
                self.store
                    .list_matching_jobs(&call.space, *state, filter, current, wanted)
                    .await?,
            );
        }

        let more = found.len() > most;
        found.truncate(most);

        let mut done = Changed {
            matched: found.len(),
            more,
            ..Changed::default()
        };

        for some in found.chunks_mut(AT_ONCE) {
            // In the same order as lease renewals, to avoid deadlocks.
            some.sort();
            let (changed, queue_full) = self.change_some(call, some, states, next).await?;
            if next == JobState::Cancelled {
                changed.iter().for_each(count_cancelled);
            }

            done.changed += changed.len();
            self.announce();
            if queue_full {
                (done.queue_full, done.more) = (true, true);
                break;
            }
        }

        Ok(done)
    }

    /// Changes jobs that are still in one of the states; returns those, and whether the queue was
    /// full before the others.
    async fn change_some(
        &self,
        call: &CallContext,
        ids: &[JobId],
        states: &[JobState],
        next: JobState,
    ) -> Result<(Vec<Job>, bool), JobsError> {
        self.store
            .retry_as("change_jobs", || async {
                let mut tx = self.store.begin().await?;
                let mut changed = Vec::with_capacity(ids.len());
                let mut queue_full = false;

                for id in ids {
                    let found = tx
                        .find_job(&call.space, id)
                        .await?
                        .filter(|job| states.contains(&job.state));

                    let Some(job) = found else { continue };
                    match self.apply(&mut tx, call, &job, next).await {
                        Ok(true) => changed.push(job),
                        Ok(false) | Err(JobsError::Erased(_)) => {}
                        Err(JobsError::QueueFull { .. }) => {
                            queue_full = true;
                            break;
                        }
                        Err(error) => return Err(error),
                    }
                }

                tx.commit().await?;
                Ok((changed, queue_full))
            })
            .await
    }
}
