//! Background jobs that are never lost and never done twice.
//!
//! A job is a row. A caller queues it in its own transaction; a `Runner` of this or another process
//! claims it with a lease, runs it, and ends it with a fenced write. This folder knows no kind of
//! job: a feature implements `Work`, and the application registers it.

mod bulk;
mod context;
mod error;
mod runner;
mod work;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;

use crate::base::clock::Timestamp;
use crate::base::ids::{JobId, SourceId, Space};
use crate::config;
use crate::model::job::{Claim, Job, JobEvent, JobFilter, JobState, NewJob};
use crate::model::llm_call::{KeyBudget, LlmCall, Payer};
use crate::store::{AsStoreError, JobPage, QueueDepth, Store, StoreError, Tx};

pub use bulk::Changed;
pub use context::{Ended, JobContext};
pub use error::{Failure, JobError, Wait};
pub use runner::Runner;
pub use work::{Outcome, Work};

/// How often a waiting caller polls for changes by other processes.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// After a change, a watcher waits for more before it reads: hundreds may watch, and every read is
/// a statement.
const GATHER: Duration = Duration::from_millis(20);
/// How long after a run ends its last model calls may still be recorded.
const LATE_RECORDS: Duration = Duration::from_millis(500);
/// How many of the last errors are shown.
const ERRORS_KEPT: i64 = 5;
/// How many of the other events are shown.
const EVENTS_KEPT: i64 = 100;

/// Entry point of jobs; cheap to clone.
#[derive(Clone)]
pub struct Jobs {
    store: Store,
    settings: Arc<config::Jobs>,
    /// Whether the log of a job is kept after it ends.
    keeps_records: bool,
    /// Changes whenever this process queues or changes a job; wakes workers and waiting callers.
    changed: Arc<watch::Sender<u64>>,
}

/// A request about a job failed.
#[derive(Debug, thiserror::Error)]
pub enum JobsError {
    /// 404: no such job in this space.
    #[error("there is no job {0} in this space")]
    NotFound(String),
    /// 409: it has ended, or has not ended yet.
    #[error("the job is {}", .state.as_str())]
    WrongState {
        state: JobState,
        wanted: &'static str,
    },
    /// 429: too many jobs would wait in this space.
    #[error("{}", full(*.most, *.added))]
    QueueFull { most: u64, added: usize },
    /// 503 or 500, as the store says.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn full(most: u64, added: usize) -> String {
    if added == 1 {
        return format!("{most} jobs are already waiting in this space");
    }
    format!(
        "{added} more jobs do not fit into the queue of this space, which holds at most {most}; \
         none was queued"
    )
}

impl AsStoreError for JobsError {
    fn as_store_error(&self) -> Option<&StoreError> {
        if let Self::Store(error) = self {
            Some(error)
        } else {
            None
        }
    }
}

impl Jobs {
    #[must_use]
    pub fn new(store: Store, settings: config::Jobs, audit: config::Audit) -> Self {
        let changed = Arc::new(watch::Sender::new(0));
        Self {
            store,
            settings: Arc::new(settings),
            keeps_records: audit.persist,
            changed,
        }
    }

    /// Queues a job inside the caller's transaction; call [`Jobs::announce`] once that is
    /// committed.
    ///
    /// # Errors
    /// [`JobsError::QueueFull`], or the store's.
    pub async fn enqueue(
        &self,
        tx: &mut Tx,
        space: &Space,
        new: &NewJob,
        now: Timestamp,
    ) -> Result<Job, JobsError> {
        self.enqueue_for(tx, space, new, None, now).await
    }

    /// The same; its model calls count towards the caps of `payer`.
    ///
    /// # Errors
    /// [`JobsError::QueueFull`], or the store's.
    pub async fn enqueue_for(
        &self,
        tx: &mut Tx,
        space: &Space,
        new: &NewJob,
        payer: Option<&KeyBudget>,
        now: Timestamp,
    ) -> Result<Job, JobsError> {
        let new = std::slice::from_ref(new);
        let queued = self.enqueue_all(tx, space, new, payer, now).await?;
        queued
            .into_iter()
            .next()
            .ok_or_else(|| self.queue_full(new.len()))
    }

    /// Queues jobs in their order inside the caller's transaction, all or none; call
    /// [`Jobs::announce`] once that is committed. Their model calls count towards the caps of
    /// `payer`.
    ///
    /// # Errors
    /// [`JobsError::QueueFull`], or the store's.
    pub async fn enqueue_all(
        &self,
        tx: &mut Tx,
        space: &Space,
        new: &[NewJob],
        payer: Option<&KeyBudget>,
        now: Timestamp,
    ) -> Result<Vec<Job>, JobsError> {
        let queued = tx
            .add_jobs(space, new, payer, self.max_queued(), now)
            .await?;
        queued.ok_or_else(|| self.queue_full(new.len()))
    }

    fn queue_full(&self, added: usize) -> JobsError {
        JobsError::QueueFull {
            most: self.settings.max_queued,
            added,
        }
    }

    fn max_queued(&self) -> i64 {
        i64::try_from(self.settings.max_queued).unwrap_or(i64::MAX)
    }

    /// The maximum attempts of a job, unless its kind says otherwise.
    pub fn max_attempts(&self) -> i64 {
        i64::try_from(self.settings.max_attempts).unwrap_or(i64::MAX)
    }

    /// Wakes everything that waits for jobs or changes. Other processes poll.
    pub fn announce(&self) {
        self.changed
            .send_modify(|count| *count = count.wrapping_add(1));
    }

    /// # Errors
    /// [`JobsError::NotFound`], or the store's.
    pub async fn find(&self, space: &Space, id: &str) -> Result<Job, JobsError> {
        let found = self.store.find_job(space, &parse(id)?).await?;
        found.ok_or_else(|| JobsError::NotFound(id.to_owned()))
    }

    /// The job once it has ended or waits for its user, or its current state when the timeout
    /// expires.
    ///
    /// # Errors
    /// [`JobsError::NotFound`], or the store's.
    pub async fn wait(
        &self,
        space: &Space,
        id: &str,
        patience: Duration,
    ) -> Result<Job, JobsError> {
        let deadline = tokio::time::Instant::now() + patience;
        let mut changed = self.changed.subscribe();
        loop {
            let job = self.find(space, id).await?;
            if job.state.is_final()
                || job.state == JobState::AwaitingInput
                || tokio::time::Instant::now() >= deadline
            {
                return Ok(job);
            }
            let look = deadline.min(tokio::time::Instant::now() + LOOK_AGAIN);
            if tokio::time::timeout_at(look, changed.changed())
                .await
                .is_ok()
            {
                tokio::time::sleep_until(look.min(tokio::time::Instant::now() + GATHER)).await;
            }
        }
    }

    /// A page of the space's jobs, newest first.
    pub async fn list(
        &self,
        space: &Space,
        filter: &JobFilter,
        page: &JobPage,
    ) -> Result<Vec<Job>, JobsError> {
        if !filter.can_match() {
            return Ok(Vec::new());
        }
        Ok(self.store.list_jobs(space, filter, page).await?)
    }

    /// The last few errors of a job, oldest first.
    pub async fn last_errors(&self, job: &Job) -> Result<Vec<JobEvent>, JobsError> {
        Ok(self
            .store
            .list_job_events_of_kind(&job.space, &job.id, "error", ERRORS_KEPT)
            .await?)
    }

    /// How often the database was retried for a job; for a running one, before this attempt.
    pub async fn db_retries(&self, job: &Job) -> Result<i64, JobsError> {
        let told = self
            .store
            .list_job_events_of_kind(&job.space, &job.id, "db_retries", EVENTS_KEPT)
            .await?;
        Ok(told
            .iter()
            .filter_map(|event| event.data["count"].as_i64())
            .sum())
    }

    /// The last events of one kind, oldest first.
    pub async fn events_of_kind(
        &self,
        job: &Job,
        kind: &'static str,
    ) -> Result<Vec<JobEvent>, JobsError> {
        Ok(self
            .store
            .list_job_events_of_kind(&job.space, &job.id, kind, EVENTS_KEPT)
            .await?)
    }

    /// Every model call attempt of a job.
    pub async fn calls(&self, job: &Job) -> Result<Vec<LlmCall>, JobsError> {
        Ok(self
            .store
            .list_calls_of(&job.space, &Payer::Job(job.id.clone()))
            .await?)
    }

    /// Events after `seq`; waits up to a timeout if there are none.
    pub async fn events(
        &self,
        space: &Space,
        id: &JobId,
        after: i64,
    ) -> Result<Vec<JobEvent>, JobsError> {
        let mut changed = self.changed.subscribe();
        let events = self.store.list_job_events(space, id, after, 200).await?;
        if !events.is_empty() {
            return Ok(events);
        }

        if tokio::time::timeout(LOOK_AGAIN, changed.changed())
            .await
            .is_ok()
        {
            tokio::time::sleep(GATHER).await;
        }
        Ok(self.store.list_job_events(space, id, after, 200).await?)
    }

    /// Cancels an unfinished job immediately; its worker stops within a second or two and writes
    /// nothing more.
    ///
    /// # Errors
    /// [`JobsError::NotFound`], [`JobsError::WrongState`] if it has ended, or the store's.
    pub async fn cancel(&self, space: &Space, id: &str, now: Timestamp) -> Result<Job, JobsError> {
        let job = self
            .change(
                space,
                id,
                "cancel_job",
                JobState::Cancelled,
                "an unfinished job",
                now,
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
        space: &Space,
        id: &SourceId,
        now: Timestamp,
    ) -> Result<Vec<Job>, StoreError> {
        let cancelled = tx.cancel_jobs_about(space, id, now).await?;
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
    pub async fn retry(&self, space: &Space, id: &str, now: Timestamp) -> Result<Job, JobsError> {
        self.change(
            space,
            id,
            "retry_job",
            JobState::Queued,
            "a failed or cancelled job",
            now,
        )
        .await
    }

    /// Queues a job whose user has provided the missing input, inside the caller's transaction;
    /// call [`Jobs::announce`] once that is committed.
    ///
    /// # Errors
    /// [`JobsError::NotFound`], [`JobsError::WrongState`] if it awaits no user, or the store's.
    pub async fn resume(
        &self,
        tx: &mut Tx,
        space: &Space,
        id: &str,
        now: Timestamp,
    ) -> Result<(), JobsError> {
        let found = tx.find_job(space, &parse(id)?).await?;
        let job = found.ok_or_else(|| JobsError::NotFound(id.to_owned()))?;
        if job.state != JobState::AwaitingInput || !tx.requeue_job(&job, now).await? {
            return Err(JobsError::WrongState {
                state: job.state,
                wanted: "a job that waits for a helper",
            });
        }

        Ok(())
    }

    /// A job that awaits its user.
    ///
    /// # Errors
    /// [`JobsError::NotFound`], [`JobsError::WrongState`] if it awaits no user, or the store's.
    pub async fn find_waiting(&self, space: &Space, id: &str) -> Result<Job, JobsError> {
        check_waiting(self.find(space, id).await?)
    }

    /// The same, locked until the caller's transaction ends.
    ///
    /// # Errors
    /// As [`Jobs::find_waiting`].
    pub async fn hold_waiting(
        &self,
        tx: &mut Tx,
        space: &Space,
        id: &str,
    ) -> Result<Job, JobsError> {
        let found = tx.find_job(space, &parse(id)?).await?;
        check_waiting(found.ok_or_else(|| JobsError::NotFound(id.to_owned()))?)
    }

    /// Stores the input that a waiting job has received so far.
    ///
    /// # Errors
    /// As [`Jobs::find_waiting`].
    pub async fn update_waiting(
        &self,
        space: &Space,
        id: &str,
        progress: &Value,
        now: Timestamp,
    ) -> Result<(), JobsError> {
        let updated = self.store.retry_as("update_waiting", || async {
            let mut tx = self.store.begin().await?;
            let job = self.hold_waiting(&mut tx, space, id).await?;
            tx.update_waiting_job(&job, progress, now).await?;
            Ok(tx.commit().await?)
        });
        updated.await.inspect(|()| self.announce())
    }

    /// Deletes the log of a job that ends, unless it is to be kept.
    async fn tidy(&self, tx: &mut Tx, claim: &Claim) -> Result<(), StoreError> {
        if self.keeps_records {
            Ok(())
        } else {
            tx.remove_job_record(&claim.space, &claim.id).await
        }
    }

    /// The same for a job that was cancelled while it ran: calls that were aborted with it are
    /// recorded a moment later.
    async fn tidy_later(&self, claim: &Claim) -> Result<(), StoreError> {
        if self.keeps_records {
            return Ok(());
        }

        tokio::time::sleep(LATE_RECORDS).await;
        let found = self.store.find_job(&claim.space, &claim.id).await?;
        if found.is_none_or(|job| !job.state.is_final()) {
            return Ok(());
        }

        self.store
            .retry("tidy_later", || async {
                let mut tx = self.store.begin().await?;
                tx.remove_job_record(&claim.space, &claim.id).await?;
                tx.commit().await
            })
            .await
    }

    async fn change(
        &self,
        space: &Space,
        id: &str,
        name: &'static str,
        next: JobState,
        wanted: &'static str,
        now: Timestamp,
    ) -> Result<Job, JobsError> {
        let parsed = parse(id)?;
        let changed = self.store.retry_as(name, || async {
            let mut tx = self.store.begin().await?;
            let found = tx.find_job(space, &parsed).await?;
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

            if !self.apply(&mut tx, &job, next, now).await? {
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
        self.find(space, id).await
    }

    /// Cancels or requeues a job that the transaction has read; `false` if it changed between the
    /// read and the write.
    async fn apply(
        &self,
        tx: &mut Tx,
        job: &Job,
        next: JobState,
        now: Timestamp,
    ) -> Result<bool, JobsError> {
        if next == JobState::Cancelled {
            let cancelled = tx.cancel_job(job, now).await?;
            self.tidy(tx, &job.claim()).await?;
            return Ok(cancelled);
        }

        if !tx.has_room(&job.space, self.max_queued()).await? {
            return Err(self.queue_full(1));
        }

        Ok(tx.requeue_job(job, now).await?)
    }

    /// How many jobs wait or run, over all spaces.
    pub async fn queue_depth(&self) -> Result<QueueDepth, JobsError> {
        Ok(self.store.queue_depth().await?)
    }

    /// Deletes finished jobs older than `jobs.keep_days`.
    pub async fn prune(&self, now: Timestamp) -> Result<u64, JobsError> {
        let days = i64::try_from(self.settings.keep_days).unwrap_or(i64::MAX);
        let before = now.minus_seconds(days.saturating_mul(24 * 60 * 60));
        let mut removed = 0;

        loop {
            let some = self.store.remove_finished_jobs(before).await?;
            removed += some;
            if some == 0 {
                return Ok(removed);
            }
        }
    }
}

fn check_waiting(job: Job) -> Result<Job, JobsError> {
    match job.state {
        JobState::AwaitingInput => Ok(job),
        state => Err(JobsError::WrongState {
            state,
            wanted: "a job that waits for a helper",
        }),
    }
}

fn count_cancelled(job: &Job) {
    metrics::counter!(
        crate::base::metrics::JOBS_FINISHED_TOTAL, "kind" => job.kind.clone(), "outcome" => "cancelled"
    )
    .increment(1);
}

/// A malformed id is treated as not found.
fn parse(id: &str) -> Result<JobId, JobsError> {
    id.parse()
        .map_err(|_| JobsError::NotFound(id.chars().take(64).collect()))
}
