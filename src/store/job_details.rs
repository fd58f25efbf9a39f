//! The details of a job: checkpoints, and the records that it writes while it runs.

use std::collections::HashMap;

use serde_json::Value;
use sqlx::Row as _;

use super::dialect::KEPT_ROWS;
use super::{Store, StoreError, Tx};
use crate::base::ids::{JobId, Space};
use crate::model::batch::Batch;
use crate::model::job::{Claim, Detail, JobRecord};
use crate::model::llm_call::Payer;

/// Rows in one insert.
pub(super) const ROWS: usize = 100;

impl Store {
    /// Every step that the job has finished.
    pub async fn list_checkpoints(
        &self,
        space: &Space,
        id: &JobId,
    ) -> Result<HashMap<String, Value>, StoreError> {
        let sql = "SELECT step, value_json FROM job_checkpoints WHERE space = ? AND job_id = ?";
        let steps = self.read_all("list_checkpoints", || {
            self.sql(sql).bind(space.as_str()).bind(id.as_str())
        });
        Ok(steps.await?.into_iter().collect())
    }

    /// Writes the record of a running job; `false` if the claim is lost.
    pub async fn add_job_record(&self, made: &JobRecord) -> Result<bool, StoreError> {
        self.retry("add_job_record", || async {
            let mut tx = self.begin().await?;
            let written = tx.add_job_record(made).await?;
            if written {
                tx.commit().await?;
            }

            Ok(written)
        })
        .await
    }
}

impl Tx {
    /// Writes the record of a running job; `false`, and nothing written, if the claim is lost. A
    /// step that exists stays: the answer to an earlier try was lost.
    pub async fn add_job_record(&mut self, made: &JobRecord) -> Result<bool, StoreError> {
        Ok(self.add_job_records(&[made]).await?.contains(&true))
    }

    /// Writes the records of several jobs, with as many statements as for one, except for their
    /// progress.
    pub async fn add_job_records(&mut self, all: &[&JobRecord]) -> Result<Vec<bool>, StoreError> {
        // Locked until the commit, so that no process can take over a job between the check and the
        // write.
        let found = self.held(all).await?;
        let held: Vec<bool> = found.iter().map(Option::is_some).collect();
        let ours = || {
            all.iter()
                .zip(&held)
                .filter(|(_, held)| **held)
                .map(|(made, _)| *made)
        };

        let steps: Vec<_> = ours()
            .flat_map(|made| made.record.steps.iter().map(move |step| (made, step)))
            .collect();
        for some in steps.chunks(ROWS) {
            let sql = "INSERT INTO job_checkpoints (space, job_id, step, value_json, created_at) VALUES (?, ?, ?, ?, ?)";
            let mut insert = self.dialect().insert_rows_if_absent(sql, some.len());
            for (made, (step, value)) in some {
                insert = insert
                    .bind(made.claim.space.as_str().to_owned())
                    .bind(made.claim.id.as_str().to_owned())
                    .bind(step.clone())
                    .bind(value.to_string())
                    .bind(made.at.as_micros());
            }

            self.execute(insert).await?;
        }

        for (made, losses) in all.iter().zip(&found) {
            // It makes progress, so earlier deaths of its processes no longer matter.
            if !made.record.steps.is_empty() && losses.is_some_and(|losses| losses > 0) {
                self.forget_losses(&made.claim).await?;
            }
        }

        let details: Vec<(&Claim, &Detail)> = ours()
            .flat_map(|made| {
                let details = made.record.details.iter();
                details.map(move |detail| (&made.claim, detail))
            })
            .collect();

        self.add_details(&details).await?;
        for made in ours() {
            if let Some(last) = made.record.reports.last() {
                self.update_job_progress(&made.claim, last).await?;
            }
            if let Some(warnings) = &made.record.warnings {
                self.update_job_warnings(&made.claim, warnings).await?;
            }
        }

        // Only the newest report: nobody could have seen the others before it.
        let told = ours().filter_map(|made| {
            let (kind, data, at) = made.record.reports.last()?.event();
            Some((&made.claim, kind, data.to_string(), at))
        });
        let happened = ours().flat_map(|made| {
            made.record
                .events
                .iter()
                .map(move |(kind, data)| (&made.claim, *kind, data.to_string(), made.at))
        });

        self.add_job_events(&told.chain(happened).collect::<Vec<_>>())
            .await?;
        Ok(held)
    }

    /// Writes the details of each kind of job to its own table.
    async fn add_details(&mut self, details: &[(&Claim, &Detail)]) -> Result<(), StoreError> {
        let batches: Vec<(&Claim, &Batch)> = details
            .iter()
            .map(|(claim, Detail::Batch(batch))| (*claim, batch))
            .collect();

        self.add_batches(&batches).await
    }

    /// Deletes the log of a job that has ended: its batches, events, steps and model calls, also
    /// those of the query that it ran. Watchers see the end in its row. What it has spent stays
    /// with its request, so that its caps still hold if it is retried.
    pub async fn remove_job_record(&mut self, space: &Space, id: &JobId) -> Result<(), StoreError> {
        self.update_spent_before(space, id).await?;
        for sql in [
            "DELETE FROM job_batches WHERE space = ? AND job_id = ?",
            "DELETE FROM job_events WHERE space = ? AND job_id = ?",
            "DELETE FROM job_checkpoints WHERE space = ? AND job_id = ?",
        ] {
            self.execute(self.sql(sql).bind(space.as_str()).bind(id.as_str()))
                .await?;
        }

        for payer in [Payer::Job(id.clone()), Payer::Query(id.to_string())] {
            self.remove_calls_of(space.as_str(), &payer).await?;
        }

        Ok(())
    }

    /// For each claim that still holds, the losses of its job, locked until this transaction ends.
    async fn held(&mut self, all: &[&JobRecord]) -> Result<Vec<Option<i64>>, StoreError> {
        let each = vec!["(space = ? AND id = ? AND fence = ?)"; all.len().max(1)].join(" OR ");
        // In the same order as lease renewals, to avoid deadlocks.
        let sql = format!(
            "SELECT space, id, fence, losses FROM jobs WHERE state = 'running' AND ({each}) ORDER BY space, id"
        );
        let mut query = self
            .dialect()
            .query_for_update(&sql)
            .persistent(all.len() <= KEPT_ROWS);

        for JobRecord { claim, .. } in all {
            query = query
                .bind(claim.space.as_str().to_owned())
                .bind(claim.id.as_str().to_owned())
                .bind(claim.fence);
        }

        let mut found: HashMap<(String, String, i64), i64> = HashMap::with_capacity(all.len());
        for row in self.fetch_all(query).await? {
            found.insert(
                (
                    row.try_get("space")?,
                    row.try_get("id")?,
                    row.try_get("fence")?,
                ),
                row.try_get("losses")?,
            );
        }

        // By fence as well: a job may appear twice, under a lost claim and under its successor.
        let held = |claim: &Claim| {
            (
                claim.space.as_str().to_owned(),
                claim.id.as_str().to_owned(),
                claim.fence,
            )
        };

        Ok(all
            .iter()
            .map(|made| found.get(&held(&made.claim)).copied())
            .collect())
    }
}
