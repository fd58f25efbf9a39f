//! What hangs on a job: checkpoints, events, the log of its batches and of its model calls.

use std::collections::HashMap;

use serde_json::{Value, json};
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::jobs::read_json;
use super::{Store, StoreError, Tx};
use crate::base::clock::Timestamp;
use crate::base::ids::{JobId, Space};
use crate::model::job::{Batch, Claim, JobEvent, JobState};

impl Store {
    /// Every step that the job has finished.
    pub async fn list_checkpoints(&self, space: &Space, id: &JobId) -> Result<HashMap<String, Value>, StoreError> {
        self.retry("list_checkpoints", || async {
            let query = self.sql("SELECT step, value_json FROM job_checkpoints WHERE space = ? AND job_id = ?");
            let rows = self.fetch_all(query.bind(space.as_str()).bind(id.as_str())).await?;
            rows.iter().map(|row| Ok((row.try_get(0)?, read_json(row, 1)?.unwrap_or_default()))).collect()
        })
        .await
    }

    /// Saves a finished step, once; `false` if the claim is no longer ours.
    pub async fn add_checkpoint(
        &self,
        claim: &Claim,
        step: &str,
        value: &Value,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.retry("add_checkpoint", || async {
            let mut tx = self.begin().await?;
            // Held until the commit: nobody can take the job away between the look and the write.
            if !tx.holds(claim).await? {
                return Ok(false);
            }
            let insert =
                "INSERT INTO job_checkpoints (space, job_id, step, value_json, created_at) VALUES (?, ?, ?, ?, ?)";
            let insert = tx.sql(insert).bind(claim.space.as_str()).bind(claim.id.as_str()).bind(step);
            let insert = insert.bind(value.to_string()).bind(now.as_micros());
            if tx.insert(insert).await?.is_some() {
                tx.commit().await?;
            }
            // Otherwise it is there already: the answer to an earlier try was lost.
            Ok(true)
        })
        .await
    }

    /// Events after `seq`, in order.
    pub async fn list_job_events(
        &self,
        space: &Space,
        id: &JobId,
        after: i64,
        limit: usize,
    ) -> Result<Vec<JobEvent>, StoreError> {
        let sql = "SELECT seq, kind, data_json, created_at FROM job_events \
                   WHERE space = ? AND job_id = ? AND seq > ? ORDER BY seq LIMIT ?";
        self.retry("list_job_events", || async {
            let query = self.sql(sql).bind(space.as_str()).bind(id.as_str()).bind(after);
            let rows = self.fetch_all(query.bind(i64::try_from(limit).unwrap_or(i64::MAX))).await?;
            rows.iter().map(read_event).collect()
        })
        .await
    }

    /// The last errors of a job, oldest first.
    pub async fn list_job_errors(&self, space: &Space, id: &JobId, most: i64) -> Result<Vec<JobEvent>, StoreError> {
        let sql = "SELECT seq, kind, data_json, created_at FROM job_events \
                   WHERE space = ? AND job_id = ? AND kind = 'error' ORDER BY seq DESC LIMIT ?";
        self.retry("list_job_errors", || async {
            let rows = self.fetch_all(self.sql(sql).bind(space.as_str()).bind(id.as_str()).bind(most)).await?;
            rows.iter().rev().map(read_event).collect()
        })
        .await
    }
}

impl Store {
    /// The log of a job's classification calls, in their order.
    pub async fn list_job_batches(&self, space: &Space, id: &JobId) -> Result<Vec<Batch>, StoreError> {
        let sql = "SELECT seq, level, parent_path, chunk_ordinals_json, chunks_sent, successes, retries, failures, \
                   latency_ms, started_at FROM job_batches WHERE space = ? AND job_id = ? ORDER BY seq";
        self.retry("list_job_batches", || async {
            let rows = self.fetch_all(self.sql(sql).bind(space.as_str()).bind(id.as_str())).await?;
            rows.iter()
                .map(|row| {
                    let ordinals = read_json(row, 3)?.unwrap_or_default();
                    let ordinals = ordinals.as_array().into_iter().flatten().filter_map(Value::as_i64).collect();
                    Ok(Batch {
                        seq: row.try_get(0)?,
                        level: row.try_get(1)?,
                        parent_path: row.try_get(2)?,
                        chunk_ordinals: ordinals,
                        chunks_sent: row.try_get(4)?,
                        successes: row.try_get(5)?,
                        retries: row.try_get(6)?,
                        failures: row.try_get(7)?,
                        latency_ms: row.try_get(8)?,
                        started_at: Timestamp::from_micros(row.try_get(9)?),
                    })
                })
                .collect()
        })
        .await
    }
}

impl Tx {
    /// Appends to what happened to a job. Two writers at once collide, and the loser is run again.
    pub async fn add_job_event(
        &mut self,
        space: &Space,
        id: &JobId,
        kind: &str,
        data: &Value,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let insert = "INSERT INTO job_events (space, job_id, seq, kind, data_json, created_at) \
                      SELECT j.space, j.id, COALESCE((SELECT MAX(e.seq) FROM job_events e \
                      WHERE e.space = j.space AND e.job_id = j.id), 0) + 1, ?, ?, ? \
                      FROM jobs j WHERE j.space = ? AND j.id = ?";
        let insert = self.sql(insert).bind(kind).bind(data.to_string()).bind(now.as_micros());
        let insert = insert.bind(space.as_str()).bind(id.as_str());
        match self.insert(insert).await? {
            Some(_) => Ok(()),
            None => Err(StoreError::Contended { cause: "two events at once".to_owned() }),
        }
    }

    /// Whether a claim still holds; the job cannot move until this transaction ends.
    async fn holds(&mut self, claim: &Claim) -> Result<bool, StoreError> {
        let sql = "SELECT id FROM jobs WHERE space = ? AND id = ? AND fence = ? AND state = 'running'";
        let query = self.backend.dialect.query_for_update(sql).bind(claim.space.as_str().to_owned());
        let query = query.bind(claim.id.as_str().to_owned()).bind(claim.fence);
        Ok(self.fetch_optional(query).await?.is_some())
    }

    pub(super) async fn add_state_event(
        &mut self,
        space: &Space,
        id: &JobId,
        state: JobState,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.add_job_event(space, id, "state", &json!({"state": state.as_str()}), now).await
    }
}

fn read_event(row: &AnyRow) -> Result<JobEvent, StoreError> {
    Ok(JobEvent {
        seq: row.try_get(0)?,
        kind: row.try_get(1)?,
        data: read_json(row, 2)?.unwrap_or_default(),
        created_at: Timestamp::from_micros(row.try_get(3)?),
    })
}
