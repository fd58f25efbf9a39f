//! Rows of `jobs` as callers see them: queue, read, cancel, retry, prune.
//!
//! `turn` orders the queue: it is the time of queueing, or one hour after the last waiting or
//! running job of the space, whichever is later. So the jobs of a busy space reach far into the
//! future, and a single job of another space comes before all but the first of them.
//!
//! Jobs for one source have their own order, `source_seq`: one more than the highest among them
//! when the job is queued. The database counts it, because the clocks of hosts differ, and with
//! them their ids. Concurrent requests may share a number; then the ids decide.

use serde_json::Value;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::candidates::StatementBuilder;
use super::{Store, StoreError, Tx, row_limit};
use crate::base::clock::Timestamp;
use crate::base::ids::{JobId, SourceId, Space};
use crate::model::job::{Job, JobFilter, JobState, NewJob, WRITTEN};
use crate::model::llm_call::Payer;

pub(super) const COLUMNS: &str = "space, id, kind, state, phase, user_id, source_id, progress_json, \
     result_json, error_json, warnings_json, attempt, max_attempts, fence, created_at, started_at, finished_at, losses, \
     run_after, waiting_since, waits";

const SELECT_ONE: &str = "SELECT space, id, kind, state, phase, user_id, source_id, progress_json, \
     result_json, error_json, warnings_json, attempt, max_attempts, fence, created_at, started_at, finished_at, losses, \
     run_after, waiting_since, waits FROM jobs WHERE space = ? AND id = ?";

/// A page: at most `limit` jobs, newest first, before the given one.
#[derive(Debug, Clone)]
pub struct JobPage {
    pub before: Option<(Timestamp, JobId)>,
    pub limit: usize,
}

/// The distance between two jobs of one space in the queue, in microseconds: one hour, longer than
/// any job takes.
const TURN: i64 = 3_600_000_000;

impl Store {
    pub async fn find_job(&self, space: &Space, id: &JobId) -> Result<Option<Job>, StoreError> {
        self.retry("find_job", || async {
            let query = self.sql(SELECT_ONE).bind(space.as_str()).bind(id.as_str());
            self.fetch_all(query)
                .await?
                .first()
                .map(read_job)
                .transpose()
        })
        .await
    }

    pub async fn list_jobs(
        &self,
        space: &Space,
        filter: &JobFilter,
        page: &JobPage,
    ) -> Result<Vec<Job>, StoreError> {
        let mut statement = StatementBuilder::default();
        statement.text(
            &format!("SELECT {COLUMNS} FROM jobs j WHERE j.space = ?"),
            space.as_str(),
        );

        if let Some(state) = filter.state {
            statement.text(" AND j.state = ?", state.as_str());
        }

        statement.jobs(filter);
        if let Some((created_at, id)) = &page.before {
            statement.number(" AND j.created_at <= ?", created_at.as_micros());
            statement.number(" AND (j.created_at < ?", created_at.as_micros());
            statement.text(" OR j.id < ?)", id.as_str());
        }

        statement.number(
            " ORDER BY j.created_at DESC, j.id DESC LIMIT ?",
            row_limit(page.limit),
        );

        self.retry("list_jobs", || async {
            self.fetch_all(self.put_together(&statement, true))
                .await?
                .iter()
                .map(read_job)
                .collect()
        })
        .await
    }

    /// Deletes finished jobs of all spaces with all their details, a few at a time; returns how
    /// many.
    pub async fn remove_finished_jobs(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.retry("remove_finished_jobs", || async {
            let old = self.sql(
                "SELECT space, id FROM jobs WHERE finished_at < ? ORDER BY finished_at LIMIT 500",
            );
            let old = self.fetch_all(old.bind(before.as_micros())).await?;
            let mut tx = self.begin().await?;
            let mut removed = 0;

            for row in old {
                // A job that was queued again meanwhile is no longer finished.
                let delete =
                    tx.sql("DELETE FROM jobs WHERE space = ? AND id = ? AND finished_at < ?");
                let (space, id): (String, String) = (row.try_get("space")?, row.try_get("id")?);
                let delete = delete.bind(space.clone()).bind(id.clone());
                if tx.execute(delete.bind(before.as_micros())).await? == 1 {
                    tx.remove_calls_of(&space, &Payer::Job(JobId::from_stored(id)))
                        .await?;
                    removed += 1;
                }
            }

            tx.commit().await?;
            Ok(removed)
        })
        .await
    }
}

impl Tx {
    /// Queues a job, unless `most` are already waiting in its space: then `None`.
    pub async fn add_job(
        &mut self,
        space: &Space,
        new: &NewJob,
        most: i64,
        now: Timestamp,
    ) -> Result<Option<Job>, StoreError> {
        let queue = self.look_at_queue(space).await?;
        if !self.fits(space, &queue, most).await? {
            return Ok(None);
        }

        let turn = queue.next_turn();
        let source_seq = match &new.source_id {
            Some(source_id) => self.next_source_seq(space, source_id).await?,
            None => 0,
        };

        let job = Job {
            space: space.clone(),
            id: JobId::new(),
            kind: new.kind.to_owned(),
            state: JobState::Queued,
            phase: None,
            user_id: new.user_id.clone(),
            source_id: new.source_id.clone(),
            progress: None,
            result: None,
            error: None,
            warnings: Vec::new(),
            attempt: 0,
            max_attempts: new.max_attempts,
            losses: 0,
            fence: 0,
            created_at: now,
            started_at: None,
            finished_at: None,
            run_after: now,
            waiting_since: None,
            waits: 0,
        };

        let insert = "INSERT INTO jobs (space, id, kind, state, user_id, source_id, source_seq, attempt, max_attempts, \
                      losses, turn, run_after, fence, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, 0, ?, @now, 0, ?)";
        let insert = self
            .sql(insert)
            .bind(space.as_str())
            .bind(job.id.as_str())
            .bind(job.kind.as_str());

        let insert = insert
            .bind(job.state.as_str())
            .bind(job.user_id.as_str())
            .bind(job.source_id.clone());

        self.execute(
            insert
                .bind(source_seq)
                .bind(job.max_attempts)
                .bind(turn)
                .bind(now.as_micros()),
        )
        .await?;

        let insert =
            self.sql("INSERT INTO job_requests (space, job_id, request_json) VALUES (?, ?, ?)");
        self.execute(
            insert
                .bind(space.as_str())
                .bind(job.id.as_str())
                .bind(new.request.clone()),
        )
        .await?;

        self.add_state_event(space, &job.id, job.state, now).await?;
        Ok(Some(job))
    }

    /// Reads a job and locks it until the transaction ends.
    pub async fn find_job(&mut self, space: &Space, id: &JobId) -> Result<Option<Job>, StoreError> {
        let query = self
            .backend
            .dialect
            .query_for_update(SELECT_ONE)
            .bind(space.as_str())
            .bind(id.as_str());
        self.fetch_optional(query)
            .await?
            .as_ref()
            .map(read_job)
            .transpose()
    }

    /// Ends a job that this transaction has read; its worker can no longer write to it.
    pub async fn cancel_job(&mut self, job: &Job, now: Timestamp) -> Result<bool, StoreError> {
        check_transition(job.state, JobState::Cancelled)?;
        let update = "UPDATE jobs SET state = 'cancelled', phase = NULL, finished_at = ?, fence = fence + 1, lease_owner = NULL, \
                      lease_until = NULL WHERE space = ? AND id = ? AND state = ? AND fence = ?";
        let update = self
            .sql(update)
            .bind(now.as_micros())
            .bind(job.space.as_str())
            .bind(job.id.as_str());

        if self
            .execute(update.bind(job.state.as_str()).bind(job.fence))
            .await?
            == 0
        {
            return Ok(false);
        }
        self.add_state_event(&job.space, &job.id, JobState::Cancelled, now)
            .await?;
        Ok(true)
    }

    /// Ends every unfinished job of a source and returns them; what they had written is deleted
    /// with the source.
    pub async fn cancel_jobs_about(
        &mut self,
        space: &Space,
        id: &SourceId,
        now: Timestamp,
    ) -> Result<Vec<Job>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM jobs WHERE space = ? AND source_id = ? AND state IN ('queued', 'running', 'awaiting_helper') \
             ORDER BY id"
        );

        let query = self
            .backend
            .dialect
            .query_for_update(&sql)
            .bind(space.as_str().to_owned());

        let mut cancelled = Vec::new();
        for row in self.fetch_all(query.bind(id.as_str().to_owned())).await? {
            let job = read_job(&row)?;
            self.cancel_job(&job, now).await?;
            let written = self
                .sql("DELETE FROM job_checkpoints WHERE space = ? AND job_id = ? AND step LIKE ?");
            let written = written
                .bind(space.as_str())
                .bind(job.id.as_str())
                .bind(format!("{WRITTEN}%"));

            self.execute(written).await?;
            cancelled.push(job);
        }

        Ok(cancelled)
    }

    /// Stores the input received so far for a job that awaits its user and that this transaction
    /// has read.
    pub async fn update_waiting_job(
        &mut self,
        job: &Job,
        progress: &Value,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let update = "UPDATE jobs SET progress_json = ? WHERE space = ? AND id = ? AND state = 'awaiting_helper'";
        let update = self
            .sql(update)
            .bind(progress.to_string())
            .bind(job.space.as_str())
            .bind(job.id.as_str());

        self.execute(update).await?;
        let data = serde_json::json!({"phase": null, "progress": progress});
        self.add_job_event(&job.space, &job.id, "progress", &data, now)
            .await
    }

    /// Adds a finished step and an event to a job that awaits its user and that this transaction
    /// has read.
    pub async fn add_waiting_step(
        &mut self,
        job: &Job,
        step: &'static str,
        value: &Value,
        (kind, event): (&'static str, &Value),
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let insert = "INSERT INTO job_checkpoints (space, job_id, step, value_json, created_at) VALUES (?, ?, ?, ?, ?)";
        let insert = self
            .backend
            .dialect
            .insert_if_absent(insert)
            .bind(job.space.as_str())
            .bind(job.id.as_str());

        self.execute(
            insert
                .bind(step)
                .bind(value.to_string())
                .bind(now.as_micros()),
        )
        .await?;

        self.add_job_event(&job.space, &job.id, kind, event, now)
            .await
    }

    /// Queues a job again that has ended or awaits its user, with all its checkpoints.
    pub async fn requeue_job(&mut self, job: &Job, now: Timestamp) -> Result<bool, StoreError> {
        check_transition(job.state, JobState::Queued)?;
        let turn = self.next_turn(&job.space).await?;
        let update = "UPDATE jobs SET state = 'queued', phase = NULL, attempt = 0, losses = 0, error_json = NULL, \
                      finished_at = NULL, waiting_since = NULL, waits = 0, turn = ?, run_after = @now, fence = fence + 1 \
                      WHERE space = ? AND id = ? AND state = ? AND fence = ?";
        let update = self
            .sql(update)
            .bind(turn)
            .bind(job.space.as_str())
            .bind(job.id.as_str());

        if self
            .execute(update.bind(job.state.as_str()).bind(job.fence))
            .await?
            == 0
        {
            return Ok(false);
        }
        self.add_state_event(&job.space, &job.id, JobState::Queued, now)
            .await?;
        Ok(true)
    }

    /// Whether fewer than `most` jobs wait in a space; jobs being queued at this moment may not
    /// count.
    pub async fn has_room(&mut self, space: &Space, most: i64) -> Result<bool, StoreError> {
        let queue = self.look_at_queue(space).await?;
        self.fits(space, &queue, most).await
    }

    async fn fits(&mut self, space: &Space, queue: &Queue, most: i64) -> Result<bool, StoreError> {
        // Turns of a space are a fixed distance apart, except for a few shared ones: far below the
        // limit, their span is proof enough, and no counting is needed.
        if queue.span() < most / 8 - 1 {
            return Ok(true);
        }

        let sql = "SELECT COUNT(*) AS jobs FROM (SELECT id FROM jobs WHERE space = ? AND state = 'queued' LIMIT ?) AS waiting";
        let row = self
            .fetch_optional(self.sql(sql).bind(space.as_str()).bind(most))
            .await?;
        let waiting: i64 = row.map(|row| row.try_get("jobs")).transpose()?.unwrap_or(0);
        Ok(waiting < most)
    }

    /// The position of a new job among those of its source. Jobs committed before are visible on
    /// every engine.
    pub(super) async fn next_source_seq(
        &mut self,
        space: &Space,
        source_id: &str,
    ) -> Result<i64, StoreError> {
        let last = self
            .sql("SELECT MAX(source_seq) AS last_seq FROM jobs WHERE space = ? AND source_id = ?");
        let row = self
            .fetch_optional(last.bind(space.as_str()).bind(source_id.to_owned()))
            .await?;
        let last: Option<i64> = row
            .map(|row| row.try_get("last_seq"))
            .transpose()?
            .flatten();
        Ok(last.unwrap_or(0) + 1)
    }

    pub(super) async fn next_turn(&mut self, space: &Space) -> Result<i64, StoreError> {
        Ok(self.look_at_queue(space).await?.next_turn())
    }

    async fn look_at_queue(&mut self, space: &Space) -> Result<Queue, StoreError> {
        // One select each, because SQLite uses the index only for a single MIN or MAX.
        let sql = "SELECT @now AS moment, \
                   (SELECT MIN(turn) FROM jobs WHERE space = ? AND state = 'queued') AS first_turn, \
                   (SELECT MAX(turn) FROM jobs WHERE space = ? AND state = 'queued') AS last_turn, \
                   (SELECT MAX(turn) FROM jobs WHERE space = ? AND state = 'running') AS running_turn";
        let query = self
            .sql(sql)
            .bind(space.as_str())
            .bind(space.as_str())
            .bind(space.as_str());

        let Some(row) = self.fetch_optional(query).await? else {
            return Ok(Queue::default());
        };
        Ok(Queue {
            now: row.try_get("moment")?,
            first: row.try_get("first_turn")?,
            last: row.try_get("last_turn")?,
            running: row.try_get("running_turn")?,
        })
    }
}

/// The first and last turn in the queue of a space.
#[derive(Default)]
struct Queue {
    now: i64,
    first: Option<i64>,
    last: Option<i64>,
    /// The latest turn that is running.
    running: Option<i64>,
}

impl Queue {
    fn next_turn(&self) -> i64 {
        self.last
            .max(self.running)
            .map_or(self.now, |last| self.now.max(last.saturating_add(TURN)))
    }

    /// How many turns lie between the first and the last waiting job.
    fn span(&self) -> i64 {
        self.last
            .zip(self.first)
            .map_or(0, |(last, first)| (last - first) / TURN)
    }
}

/// Rejects a transition that the table of states does not have.
pub(super) fn check_transition(from: JobState, to: JobState) -> Result<(), StoreError> {
    if from.may_become(to) {
        return Ok(());
    }
    Err(broken(&format!(
        "a job cannot go from {} to {}",
        from.as_str(),
        to.as_str()
    )))
}

pub(super) fn read_job(row: &AnyRow) -> Result<Job, StoreError> {
    let moment = |column: &str| -> Result<Option<Timestamp>, sqlx::Error> {
        Ok(row
            .try_get::<Option<i64>, _>(column)?
            .map(Timestamp::from_micros))
    };

    let state: String = row.try_get("state")?;
    let space: String = row.try_get("space")?;
    Ok(Job {
        space: space
            .parse()
            .map_err(|()| broken("a job's space is not one"))?,
        id: JobId::from_stored(row.try_get("id")?),
        kind: row.try_get("kind")?,
        state: JobState::parse(&state).ok_or_else(|| broken("a job's state is not one"))?,
        phase: row.try_get("phase")?,
        user_id: row.try_get("user_id")?,
        source_id: row.try_get("source_id")?,
        progress: read_json(row, "progress_json")?,
        result: read_json(row, "result_json")?,
        error: read_json(row, "error_json")?,
        warnings: match read_json(row, "warnings_json")? {
            Some(Value::Array(warnings)) => warnings,
            _ => Vec::new(),
        },
        attempt: row.try_get("attempt")?,
        max_attempts: row.try_get("max_attempts")?,
        fence: row.try_get("fence")?,
        created_at: moment("created_at")?.ok_or_else(|| broken("a job has no time"))?,
        started_at: moment("started_at")?,
        finished_at: moment("finished_at")?,
        losses: row.try_get("losses")?,
        run_after: moment("run_after")?.ok_or_else(|| broken("a job has no time to run"))?,
        waiting_since: moment("waiting_since")?,
        waits: row.try_get("waits")?,
    })
}

/// Text that we serialized as JSON ourselves.
pub(super) fn read_json(row: &AnyRow, column: &str) -> Result<Option<Value>, StoreError> {
    let text: Option<&str> = row.try_get(column)?;
    text.map(serde_json::from_str)
        .transpose()
        .map_err(|_| broken("stored JSON cannot be read"))
}

fn broken(cause: &str) -> StoreError {
    StoreError::Broken {
        cause: cause.to_owned(),
    }
}
