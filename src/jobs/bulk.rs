//! Many jobs of a space at once: all that match a filter are cancelled or tried again.
//!
//! A request changes a bounded number of jobs, in short transactions of some each: neither the
//! queue nor other writers wait for it, and what was changed stays so if it stops half-way.

use super::{Jobs, JobsError, count_cancelled};
use crate::base::clock::Timestamp;
use crate::base::ids::{JobId, Space};
use crate::model::job::{Job, JobFilter, JobState};

/// Jobs in one transaction.
const AT_ONCE: usize = 50;

/// What became of the jobs that match a filter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changed {
    /// How many matched, up to the limit.
    pub matched: usize,
    /// How many of them were changed; the others came to another state meanwhile, or had no room in
    /// the queue.
    pub changed: usize,
    /// How many matched and were left alone because a newer text of their source has come, up to
    /// the limit.
    pub superseded: usize,
    /// Whether more match than were changed.
    pub more: bool,
    /// Whether the queue had no room for the rest.
    pub queue_full: bool,
}

impl Jobs {
    /// Ends all jobs that match and are not over, up to `most`.
    ///
    /// # Errors
    /// The store's.
    pub async fn cancel_many(
        &self,
        space: &Space,
        filter: &JobFilter,
        most: usize,
        now: Timestamp,
    ) -> Result<Changed, JobsError> {
        // Those that wait first: none of them begins while the others are being cancelled.
        let not_over = [JobState::Queued, JobState::AwaitingInput, JobState::Running];

        let states = filter.state.map_or(not_over.to_vec(), |state| vec![state]);
        self.change_many(space, filter, &states, JobState::Cancelled, most, now)
            .await
    }

    /// Queues all failed jobs that match again, or all cancelled ones, up to `most`. Those whose
    /// source has got a newer text since are left alone: the older text would become its latest
    /// version.
    ///
    /// # Errors
    /// [`JobsError::QueueFull`] if there is no room for a single one, or the store's.
    pub async fn retry_many(
        &self,
        space: &Space,
        filter: &JobFilter,
        most: usize,
        now: Timestamp,
    ) -> Result<Changed, JobsError> {
        let state = filter.state.unwrap_or(JobState::Failed);
        let mut done = self
            .change_many(space, filter, &[state], JobState::Queued, most, now)
            .await?;
        if done.queue_full && done.changed == 0 {
            return Err(JobsError::QueueFull {
                waiting: self.settings.max_queued,
            });
        }

        if filter.can_match() {
            let superseded = self
                .store
                .count_superseded_jobs(space, state, filter, most)
                .await?;
            done.superseded = usize::try_from(superseded).unwrap_or(0);
        }

        Ok(done)
    }

    async fn change_many(
        &self,
        space: &Space,
        filter: &JobFilter,
        states: &[JobState],
        next: JobState,
        most: usize,
        now: Timestamp,
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
                    .list_matching_jobs(space, *state, filter, current, wanted)
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
            // In the order in which leases are prolonged: two that wait for each other would be a
            // deadlock.
            some.sort();
            let (changed, queue_full) = self.change_some(space, some, states, next, now).await?;
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

    /// Changes jobs that are still in one of the states; gives those, and whether the queue had no
    /// room for the others.
    async fn change_some(
        &self,
        space: &Space,
        ids: &[JobId],
        states: &[JobState],
        next: JobState,
        now: Timestamp,
    ) -> Result<(Vec<Job>, bool), JobsError> {
        self.store
            .retry_as("change_jobs", || async {
                let mut tx = self.store.begin().await?;
                let mut changed = Vec::with_capacity(ids.len());
                let mut queue_full = false;

                for id in ids {
                    let found = tx
                        .find_job(space, id)
                        .await?
                        .filter(|job| states.contains(&job.state));

                    let Some(job) = found else { continue };
                    match self.apply(&mut tx, &job, next, now).await {
                        Ok(true) => changed.push(job),
                        Ok(false) => {}
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
