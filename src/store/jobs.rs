//! Rows of `jobs` as callers see them: read, cancel, retry, prune.

use serde_json::Value;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::candidates::StatementBuilder;
use super::rows::{Stored as _, broken, get, row};
use super::{Store, StoreError, Tx, row_limit};
use crate::base::clock::Timestamp;
use crate::base::ids::{JobId, SourceId, Space};
use crate::model::job::{Job, JobFilter, JobState};
use crate::model::llm_call::Payer;

pub(super) const COLUMNS: &str = Job::COLUMNS;

row! {
    Job as "" {
        space, id, kind, state, phase, user_id, source_id, progress = "progress_json",
        result = "result_json", error = "error_json", attempt, max_attempts, losses, fence,
        created_at, started_at, finished_at, run_after, waiting_since, waits,
    }
    from row "warnings_json" {
        warnings: match get(row, "warnings_json")? {
            Some(Value::Array(warnings)) => warnings,
            _ => Vec::new(),
        },
    }
}

/// A page: at most `limit` jobs, newest first, before the given one.
#[derive(Debug, Clone)]
pub struct JobPage {
    pub before: Option<(Timestamp, JobId)>,
    pub limit: usize,
}

impl Store {
    pub async fn find_job(&self, space: &Space, id: &JobId) -> Result<Option<Job>, StoreError> {
        self.read_first("find_job", || {
            self.composed(&select_one())
                .bind(space.as_str())
                .bind(id.as_str())
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
            statement.text(" AND j.state = ?", state.into_str());
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

        self.read_all("list_jobs", || self.put_together(&statement, true))
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
    /// Reads a job and locks it until the transaction ends.
    pub async fn find_job(&mut self, space: &Space, id: &JobId) -> Result<Option<Job>, StoreError> {
        let query = self
            .dialect()
            .query_for_update(&select_one())
            .bind(space.as_str())
            .bind(id.as_str());
        self.read_first(query).await
    }

    /// The newest unfinished job of a kind.
    pub async fn find_unfinished_job(
        &mut self,
        space: &Space,
        kind: &'static str,
    ) -> Result<Option<JobId>, StoreError> {
        // Sorted by the database, all jobs of the space would be read.
        let sql =
            "SELECT id FROM jobs WHERE space = ? AND state IN ('queued', 'running') AND kind = ?";
        let query = self.sql(sql).bind(space.as_str()).bind(kind);
        Ok(self.read_values(query).await?.into_iter().max())
    }

    /// The unfinished jobs of a kind and an end user that started before a time.
    pub async fn list_started_jobs(
        &mut self,
        space: &Space,
        kind: &'static str,
        user_id: &str,
        before: Timestamp,
    ) -> Result<Vec<JobId>, StoreError> {
        let sql = "SELECT id FROM jobs WHERE space = ? AND state IN ('queued', 'running') AND kind = ? AND user_id = ? \
                   AND started_at < ?";
        let query = self.sql(sql).bind(space.as_str()).bind(kind);
        let query = query.bind(user_id.to_owned()).bind(before.as_micros());
        self.read_values(query).await
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
            .execute(update.bind(job.state.into_str()).bind(job.fence))
            .await?
            == 0
        {
            return Ok(false);
        }
        self.add_state_event(&job.space, &job.id, JobState::Cancelled, now)
            .await?;
        Ok(true)
    }

    /// Ends every unfinished job of a source and returns them.
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
            .dialect()
            .query_for_update(&sql)
            .bind(space.as_str().to_owned());

        let mut cancelled = Vec::new();
        for row in self.fetch_all(query.bind(id.as_str().to_owned())).await? {
            let job = Job::read(&row)?;
            self.cancel_job(&job, now).await?;
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
            .dialect()
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
        let turn = self.next_turn(&job.space, &job.id).await?;
        let update = "UPDATE jobs SET state = 'queued', phase = NULL, attempt = 0, losses = 0, error_json = NULL, \
                      finished_at = NULL, waiting_since = NULL, waits = 0, turn = ?, run_after = @now, fence = fence + 1 \
                      WHERE space = ? AND id = ? AND state = ? AND fence = ?";
        let update = self
            .sql(update)
            .bind(turn)
            .bind(job.space.as_str())
            .bind(job.id.as_str());

        if self
            .execute(update.bind(job.state.into_str()).bind(job.fence))
            .await?
            == 0
        {
            return Ok(false);
        }
        self.add_requeued_event(job, now).await?;
        Ok(true)
    }
}

/// Rejects a transition that the table of states does not have.
pub(super) fn check_transition(from: JobState, to: JobState) -> Result<(), StoreError> {
    if from.may_become(to) {
        return Ok(());
    }
    Err(broken(&format!(
        "a job cannot go from {} to {}",
        from.into_str(),
        to.into_str()
    )))
}

fn select_one() -> String {
    format!("SELECT {COLUMNS} FROM jobs WHERE space = ? AND id = ?")
}

/// Text that we serialized as JSON ourselves.
pub(super) fn read_json(row: &AnyRow, column: &str) -> Result<Option<Value>, StoreError> {
    get(row, column)
}
