//! Background jobs that are never lost and never done twice.
//!
//! A job is a row. A caller queues it in its own transaction; a `Runner` of this or another process
//! claims it with a lease, runs it, and ends it with a fenced write. This folder knows no kind of
//! job: a feature implements `Work`, and the application registers it.
//!
//! Jobs that may run together (`NewJob::group_size`) are claimed in one transaction and share one
//! worker, but each is a job of its own. Progress is written with the next step, or by the runner
//! within a moment, because otherwise most transactions of a short job would only write progress.

mod awaiting;
mod bulk;
mod changing;
mod context;
mod error;
mod runner;
mod work;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::base::clock::Timestamp;
use crate::base::ids::JobId;
use crate::config;
use crate::model::call::CallContext;
use crate::model::job::{Job, JobEvent, JobFilter, JobState, NewJob};
use crate::model::llm_call::{LlmCall, Payer};
use crate::store::{JobPage, QueueDepth, Store, StoreError, Tx, as_store_error};

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
    #[error("the job has the state {}", .state.into_str())]
    WrongState {
        state: JobState,
        wanted: &'static str,
    },
    /// 410: it cannot be queued again, because its request was deleted with its source.
    #[error("the text that job {0} worked on has been deleted")]
    Erased(String),
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

as_store_error!(JobsError);

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

    /// Queues a job that no API key pays for inside the caller's transaction; call
    /// [`Jobs::announce`] once that is committed.
    ///
    /// # Errors
    /// [`JobsError::QueueFull`], or the store's.
    pub async fn enqueue(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        new: &NewJob,
    ) -> Result<Job, JobsError> {
        self.enqueue_for(tx, &call.unpaid(), new).await
    }

    /// Queues a job whose model calls count towards the caps of the key that pays for the call.
    ///
    /// # Errors
    /// [`JobsError::QueueFull`], or the store's.
    pub async fn enqueue_for(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        new: &NewJob,
    ) -> Result<Job, JobsError> {
        let new = std::slice::from_ref(new);
        let queued = self.enqueue_all(tx, call, new).await?;
        queued
            .into_iter()
            .next()
            .ok_or_else(|| self.queue_full(new.len()))
    }

    /// Queues jobs in their order inside the caller's transaction, all or none; call
    /// [`Jobs::announce`] once that is committed. Their model calls count towards the caps of
    /// the key that pays for the call.
    ///
    /// # Errors
    /// [`JobsError::QueueFull`], or the store's.
    pub async fn enqueue_all(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        new: &[NewJob],
    ) -> Result<Vec<Job>, JobsError> {
        self.add(tx, call, new, self.settings.max_queued).await
    }

    /// Queues jobs as [`Jobs::enqueue_all`] does, but leaves half of the queue to others: for work
    /// that makes as many jobs as a space has users.
    ///
    /// # Errors
    /// [`JobsError::QueueFull`], or the store's.
    pub async fn enqueue_in_half(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        new: &[NewJob],
    ) -> Result<Vec<Job>, JobsError> {
        let most = (self.settings.max_queued / 2).max(1);
        self.add(tx, call, new, most).await
    }

    async fn add(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        new: &[NewJob],
        most: u64,
    ) -> Result<Vec<Job>, JobsError> {
        let limit = i64::try_from(most).unwrap_or(i64::MAX);
        let queued = tx.add_jobs(&call.space, new, call.budget.as_ref(), limit, call.now);
        let added = new.len();
        queued.await?.ok_or(JobsError::QueueFull { most, added })
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
    pub async fn find(&self, call: &CallContext, id: &str) -> Result<Job, JobsError> {
        let found = self.store.find_job(&call.space, &parse(id)?).await?;
        found.ok_or_else(|| JobsError::NotFound(id.to_owned()))
    }

    /// The job once it has ended or waits for its user, or its current state when the timeout
    /// expires.
    ///
    /// # Errors
    /// [`JobsError::NotFound`], or the store's.
    pub async fn wait(
        &self,
        call: &CallContext,
        id: &str,
        patience: Duration,
    ) -> Result<Job, JobsError> {
        let deadline = tokio::time::Instant::now() + patience;
        let mut changed = self.changed.subscribe();
        loop {
            let job = self.find(call, id).await?;
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
        call: &CallContext,
        filter: &JobFilter,
        page: &JobPage,
    ) -> Result<Vec<Job>, JobsError> {
        if !filter.can_match() {
            return Ok(Vec::new());
        }
        Ok(self.store.list_jobs(&call.space, filter, page).await?)
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
        let events = self
            .store
            .list_job_events_of_kind(&job.space, &job.id, "db_retries", EVENTS_KEPT)
            .await?;
        Ok(events
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
        call: &CallContext,
        id: &JobId,
        after: i64,
    ) -> Result<Vec<JobEvent>, JobsError> {
        let mut changed = self.changed.subscribe();
        let events = self
            .store
            .list_job_events(&call.space, id, after, 200)
            .await?;
        if !events.is_empty() {
            return Ok(events);
        }

        if tokio::time::timeout(LOOK_AGAIN, changed.changed())
            .await
            .is_ok()
        {
            tokio::time::sleep(GATHER).await;
        }
        Ok(self
            .store
            .list_job_events(&call.space, id, after, 200)
            .await?)
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

/// A malformed id is treated as not found.
fn parse(id: &str) -> Result<JobId, JobsError> {
    id.parse()
        .map_err(|_| JobsError::NotFound(id.chars().take(64).collect()))
}
