//! The details of a job: checkpoints, events, and the logs of its batches and model calls.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::dialect::KEPT_ROWS;
use super::jobs::read_json;
use super::{Store, StoreError, Tx, row_limit};
use crate::base::clock::Timestamp;
use crate::base::ids::{JobId, Space};
use crate::model::batch::Batch;
use crate::model::job::{Claim, Detail, JobEvent, JobRecord, JobState, Report};
use crate::model::llm_call::Payer;

/// Rows in one insert.
pub(super) const ROWS: usize = 100;

/// The job, kind, data and time of an event.
type Event<'e> = (&'e Claim, &'e str, String, Timestamp);

impl Store {
    /// Every step that the job has finished.
    pub async fn list_checkpoints(
        &self,
        space: &Space,
        id: &JobId,
    ) -> Result<HashMap<String, Value>, StoreError> {
        self.retry("list_checkpoints", || async {
            let query = self
                .sql("SELECT step, value_json FROM job_checkpoints WHERE space = ? AND job_id = ?");
            let rows = self
                .fetch_all(query.bind(space.as_str()).bind(id.as_str()))
                .await?;
            rows.iter()
                .map(|row| {
                    Ok((
                        row.try_get("step")?,
                        read_json(row, "value_json")?.unwrap_or_default(),
                    ))
                })
                .collect()
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
            let query = self
                .sql(sql)
                .bind(space.as_str())
                .bind(id.as_str())
                .bind(after);

            let rows = self.fetch_all(query.bind(row_limit(limit))).await?;
            rows.iter().map(read_event).collect()
        })
        .await
    }

    /// The last events of one kind, oldest first.
    pub async fn list_job_events_of_kind(
        &self,
        space: &Space,
        id: &JobId,
        kind: &'static str,
        most: i64,
    ) -> Result<Vec<JobEvent>, StoreError> {
        let sql = "SELECT seq, kind, data_json, created_at FROM job_events \
                   WHERE space = ? AND job_id = ? AND kind = ? ORDER BY seq DESC LIMIT ?";
        self.retry("list_job_events_of_kind", || async {
            let query = self
                .sql(sql)
                .bind(space.as_str())
                .bind(id.as_str())
                .bind(kind)
                .bind(most);
            self.fetch_all(query)
                .await?
                .iter()
                .rev()
                .map(read_event)
                .collect()
        })
        .await
    }
}

impl Store {
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

    /// The same for several jobs, with as many statements as for one, except for their progress.
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
            let mut insert = self.backend.dialect.insert_rows_if_absent(sql, some.len());
            for (made, (step, value)) in some {
                insert = insert
                    .bind(made.claim.space.as_str().to_owned())
                    .bind(made.claim.id.as_str().to_owned());
                insert = insert
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

        let told = ours().flat_map(|made| told(&made.claim, &made.record.reports));
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

    /// Appends events to jobs that this transaction holds, in the given order.
    async fn add_job_events(&mut self, events: &[Event<'_>]) -> Result<(), StoreError> {
        for some in events.chunks(ROWS) {
            let mut last = self.last_events(some).await?;
            let sql = "INSERT INTO job_events (space, job_id, seq, kind, data_json, created_at) VALUES (?, ?, ?, ?, ?, ?)";
            let mut insert = self.backend.dialect.insert_rows_if_absent(sql, some.len());

            for (claim, kind, data, at) in some {
                let (space, id) = (
                    claim.space.as_str().to_owned(),
                    claim.id.as_str().to_owned(),
                );

                let seq = last.entry((space.clone(), id.clone())).or_insert(0);
                *seq += 1;
                insert = insert.bind(space).bind(id).bind(*seq);
                insert = insert
                    .bind((*kind).to_owned())
                    .bind(data.clone())
                    .bind(at.as_micros());
            }

            if self.execute(insert).await? < some.len() as u64 {
                return Err(StoreError::Contended {
                    cause: "two events at once".to_owned(),
                });
            }
        }
        Ok(())
    }

    /// The number of the last event of each job.
    async fn last_events(
        &mut self,
        events: &[Event<'_>],
    ) -> Result<HashMap<(String, String), i64>, StoreError> {
        let jobs: HashSet<(&str, &str)> = events
            .iter()
            .map(|(claim, ..)| (claim.space.as_str(), claim.id.as_str()))
            .collect();

        let each = vec!["(space = ? AND job_id = ?)"; jobs.len().max(1)].join(" OR ");
        let sql = format!(
            "SELECT space, job_id, MAX(seq) AS last_seq FROM job_events WHERE {each} GROUP BY space, job_id"
        );
        let mut query = self
            .backend
            .dialect
            .assembled(&sql)
            .persistent(jobs.len() <= KEPT_ROWS);

        for (space, id) in jobs {
            query = query.bind(space.to_owned()).bind(id.to_owned());
        }

        let rows = self.fetch_all(query).await?;
        rows.iter()
            .map(|row| {
                Ok((
                    (row.try_get("space")?, row.try_get("job_id")?),
                    row.try_get("last_seq")?,
                ))
            })
            .collect()
    }

    /// Deletes the log of a job that has ended: its batches, its model calls, and its events except
    /// states, by which watchers see the end.
    pub async fn remove_job_record(&mut self, space: &Space, id: &JobId) -> Result<(), StoreError> {
        for sql in [
            "DELETE FROM job_batches WHERE space = ? AND job_id = ?",
            "DELETE FROM job_events WHERE space = ? AND job_id = ? AND kind <> 'state'",
        ] {
            self.execute(self.sql(sql).bind(space.as_str()).bind(id.as_str()))
                .await?;
        }

        self.remove_calls_of(space.as_str(), &Payer::Job(id.clone()))
            .await
    }

    /// Appends an event. Of two concurrent writers one collides and is retried.
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

        let insert = self
            .sql(insert)
            .bind(kind)
            .bind(data.to_string())
            .bind(now.as_micros());

        let insert = insert.bind(space.as_str()).bind(id.as_str());
        match self.insert(insert).await? {
            Some(_) => Ok(()),
            None => Err(StoreError::Contended {
                cause: "two events at once".to_owned(),
            }),
        }
    }

    /// For each claim that still holds, the losses of its job, locked until this transaction ends.
    async fn held(&mut self, all: &[&JobRecord]) -> Result<Vec<Option<i64>>, StoreError> {
        let each = vec!["(space = ? AND id = ? AND fence = ?)"; all.len().max(1)].join(" OR ");
        // In the same order as lease renewals, to avoid deadlocks.
        let sql = format!(
            "SELECT space, id, fence, losses FROM jobs WHERE state = 'running' AND ({each}) ORDER BY space, id"
        );
        let mut query = self
            .backend
            .dialect
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

    pub(super) async fn add_state_event(
        &mut self,
        space: &Space,
        id: &JobId,
        state: JobState,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.add_job_event(space, id, "state", &json!({"state": state.as_str()}), now)
            .await
    }
}

/// The event of the newest report: nobody could have seen the others before it.
fn told<'e>(claim: &'e Claim, reports: &'e [Report]) -> impl Iterator<Item = Event<'e>> {
    reports.last().into_iter().map(move |report| {
        let data = json!({"phase": report.phase, "progress": report.progress});
        (claim, "progress", data.to_string(), report.at)
    })
}

fn read_event(row: &AnyRow) -> Result<JobEvent, StoreError> {
    Ok(JobEvent {
        seq: row.try_get("seq")?,
        kind: row.try_get("kind")?,
        data: read_json(row, "data_json")?.unwrap_or_default(),
        created_at: Timestamp::from_micros(row.try_get("created_at")?),
    })
}
