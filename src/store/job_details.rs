//! What hangs on a job: checkpoints, events, the log of its batches and of its model calls.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::dialect::KEPT_ROWS;
use super::jobs::read_json;
use super::{Store, StoreError, Tx};
use crate::base::clock::Timestamp;
use crate::base::ids::{JobId, Space};
use crate::model::job::{Batch, Claim, JobEvent, JobRecord, JobState, Report};
use crate::model::llm_call::Payer;

/// Rows in one insert.
const ROWS: usize = 100;

/// Whose, its kind and data, and when.
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

            let rows = self
                .fetch_all(query.bind(i64::try_from(limit).unwrap_or(i64::MAX)))
                .await?;
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
    /// Writes down what a running job has done; `false` if the claim is no longer ours.
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

    /// The log of a job's classification calls, in their order.
    pub async fn list_job_batches(
        &self,
        space: &Space,
        id: &JobId,
    ) -> Result<Vec<Batch>, StoreError> {
        let sql = "SELECT seq, level, parent_path, chunk_ordinals_json, chunks_sent, successes, retries, failures, \
                   latency_ms, started_at FROM job_batches WHERE space = ? AND job_id = ? ORDER BY seq";
        self.retry("list_job_batches", || async {
            let rows = self
                .fetch_all(self.sql(sql).bind(space.as_str()).bind(id.as_str()))
                .await?;
            rows.iter()
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
                    })
                })
                .collect()
        })
        .await
    }
}

impl Tx {
    /// Writes down what a running job has done; `false` if the claim is no longer ours, and then
    /// nothing was written. A step that is there already stays: the answer to an earlier try was
    /// lost.
    pub async fn add_job_record(&mut self, made: &JobRecord) -> Result<bool, StoreError> {
        Ok(self.add_job_records(&[made]).await?.contains(&true))
    }

    /// The same for several jobs, with as many statements as for one, but for what each is doing
    /// now.
    pub async fn add_job_records(&mut self, all: &[&JobRecord]) -> Result<Vec<bool>, StoreError> {
        // Held until the commit: nobody can take a job away between the look and the write.
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
            // It gets on: the deaths of processes that ran it before tell nothing any more.
            if !made.record.steps.is_empty() && losses.is_some_and(|losses| losses > 0) {
                self.forget_losses(&made.claim).await?;
            }
        }

        let batches: Vec<_> = ours()
            .flat_map(|made| {
                made.record
                    .batches
                    .iter()
                    .map(move |batch| (&made.claim, batch))
            })
            .collect();

        for some in batches.chunks(ROWS) {
            let sql = "INSERT INTO job_batches (space, job_id, seq, level, parent_path, chunk_ordinals_json, chunks_sent, \
                       successes, retries, failures, latency_ms, started_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
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

                insert = insert.bind(batch.started_at.as_micros());
            }

            self.execute(insert).await?;
        }

        for made in ours() {
            if let Some(last) = made.record.reports.last() {
                self.update_job_progress(&made.claim, last).await?;
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

    /// Writes what a job was doing, in the transaction that ends it.
    pub async fn add_reports(
        &mut self,
        claim: &Claim,
        reports: &[Report],
    ) -> Result<(), StoreError> {
        let Some(last) = reports.last() else {
            return Ok(());
        };
        self.update_job_progress(claim, last).await?;
        self.add_job_events(&told(claim, reports).collect::<Vec<_>>())
            .await
    }

    /// Appends to what happened to jobs that this transaction holds, those of one job in the order
    /// given.
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
            "SELECT space, job_id, MAX(seq) FROM job_events WHERE {each} GROUP BY space, job_id"
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
            .map(|row| Ok(((row.try_get(0)?, row.try_get(1)?), row.try_get(2)?)))
            .collect()
    }

    /// Removes the log of a job that is over (K-02): its batches, its model calls, and what
    /// happened but for its states, by which whoever watches it sees the end.
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

    /// Of each claim that still holds the losses of its job, which cannot move until this
    /// transaction ends.
    async fn held(&mut self, all: &[&JobRecord]) -> Result<Vec<Option<i64>>, StoreError> {
        let each = vec!["(space = ? AND id = ? AND fence = ?)"; all.len().max(1)].join(" OR ");
        // In the order in which leases are prolonged: two that wait for each other would be a
        // deadlock.
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
                (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?),
                row.try_get(3)?,
            );
        }

        // By its fence as well: one job may be there twice, under a claim that is lost and under
        // its successor.
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

fn told<'e>(claim: &'e Claim, reports: &'e [Report]) -> impl Iterator<Item = Event<'e>> {
    reports.iter().map(move |report| {
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
