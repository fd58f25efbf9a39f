//! Rows of `job_batches`: the log of an ingestion's classification calls.

use super::job_details::ROWS;
use super::job_log::StoredLog;
use super::rows::{Stored as _, Written as _, written_row};
use super::{Store, StoreError, Tx};
use crate::base::ids::{JobId, Space};
use crate::model::batch::Batch;
use crate::model::job::Claim;

written_row! {
    Batch as "" {
        seq, level, parent_path, chunk_ordinals = "chunk_ordinals_json", chunks_sent, successes, retries,
        failures, latency_ms, started_at, paid_by,
    }
}

impl Store {
    /// The log of a job's classification calls, in their order.
    pub async fn list_job_batches(
        &self,
        space: &Space,
        id: &JobId,
    ) -> Result<Vec<Batch>, StoreError> {
        let sql = format!(
            "SELECT {} FROM job_batches WHERE space = ? AND job_id = ? ORDER BY seq",
            Batch::COLUMNS
        );
        self.retry("list_job_batches", || async {
            let query = self.composed(&sql).bind(space.as_str()).bind(id.as_str());
            let rows = self.fetch_all(query).await?;
            let read: Result<Vec<Batch>, StoreError> = rows.iter().map(Batch::read).collect();
            let mut batches = read?;
            let log = self.find_job_log(space, id).await?;
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
            let columns = format!("space, job_id, {}", Batch::NAMES);
            let marks = vec!["?"; columns.split(',').count()].join(", ");
            let sql = format!("INSERT INTO job_batches ({columns}) VALUES ({marks})");
            let mut insert = self.dialect().insert_rows_if_absent(&sql, some.len());
            for (claim, batch) in some {
                insert = insert
                    .bind(claim.space.as_str().to_owned())
                    .bind(claim.id.as_str().to_owned());
                insert = batch.bind(insert);
            }

            self.execute(insert).await?;
        }

        Ok(())
    }
}
