//! Rows of `job_batches`: the log of an ingestion's classification calls.

use serde_json::{Value, json};
use sqlx::Row as _;

use super::job_details::ROWS;
use super::job_log::StoredLog;
use super::jobs::read_json;
use super::{Store, StoreError, Tx};
use crate::base::clock::Timestamp;
use crate::base::ids::{JobId, Space};
use crate::model::batch::Batch;
use crate::model::job::Claim;

impl Store {
    /// The log of a job's classification calls, in their order.
    pub async fn list_job_batches(
        &self,
        space: &Space,
        id: &JobId,
    ) -> Result<Vec<Batch>, StoreError> {
        let sql = "SELECT seq, level, parent_path, chunk_ordinals_json, chunks_sent, successes, retries, failures, \
                   latency_ms, started_at, paid_by FROM job_batches WHERE space = ? AND job_id = ? ORDER BY seq";
        self.retry("list_job_batches", || async {
            let rows = self
                .fetch_all(self.sql(sql).bind(space.as_str()).bind(id.as_str()))
                .await?;
            let stored = rows
                .iter()
                .map(|row| {
                    let ordinals = read_json(row, "chunk_ordinals_json")?.unwrap_or_default();
                    let ordinals = ordinals
                        .as_array()
                        .into_iter()
                        .flatten()
                        .filter_map(Value::as_i64)
                        .collect();

                    Ok(Batch {
                        seq: row.try_get("seq")?,
                        level: row.try_get("level")?,
                        parent_path: row.try_get("parent_path")?,
                        chunk_ordinals: ordinals,
                        chunks_sent: row.try_get("chunks_sent")?,
                        successes: row.try_get("successes")?,
                        retries: row.try_get("retries")?,
                        failures: row.try_get("failures")?,
                        latency_ms: row.try_get("latency_ms")?,
                        started_at: Timestamp::from_micros(row.try_get("started_at")?),
                        paid_by: row.try_get("paid_by")?,
                    })
                })
                .collect::<Result<Vec<_>, StoreError>>()?;

            let log = self.find_job_log(space, id).await?;
            let mut batches = stored;
            batches.extend(log.iter().flat_map(StoredLog::batches));
            batches.sort_by_key(|batch| batch.seq);
            Ok(batches)
        })
        .await
    }
}

impl Tx {
    /// Writes batches of jobs that this transaction holds; one that is there already stays.
    pub(super) async fn add_batches(
        &mut self,
        batches: &[(&Claim, &Batch)],
    ) -> Result<(), StoreError> {
        for some in batches.chunks(ROWS) {
            let sql = "INSERT INTO job_batches (space, job_id, seq, level, parent_path, chunk_ordinals_json, chunks_sent, \
                       successes, retries, failures, latency_ms, started_at, paid_by) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
            let mut insert = self.backend.dialect.insert_rows_if_absent(sql, some.len());
            for (claim, batch) in some {
                insert = insert
                    .bind(claim.space.as_str().to_owned())
                    .bind(claim.id.as_str().to_owned());
                insert = insert
                    .bind(batch.seq)
                    .bind(batch.level)
                    .bind(batch.parent_path.clone());

                insert = insert
                    .bind(json!(batch.chunk_ordinals).to_string())
                    .bind(batch.chunks_sent);
                insert = insert
                    .bind(batch.successes)
                    .bind(batch.retries)
                    .bind(batch.failures)
                    .bind(batch.latency_ms);

                insert = insert
                    .bind(batch.started_at.as_micros())
                    .bind(batch.paid_by.clone());
            }

            self.execute(insert).await?;
        }

        Ok(())
    }
}
