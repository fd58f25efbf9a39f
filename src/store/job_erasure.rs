//! Erases jobs whose text is deleted: their rows, or everything in them but numbers.
//!
//! An erased job keeps its row with the phase `erased`. Its late model calls are not recorded
//! (`llm_calls`), and it cannot be queued again.

use std::collections::BTreeSet;

use serde_json::Value;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::dialect::BindAll as _;
use super::jobs::{COLUMNS, read_json};
use super::text_uses::count;
use super::{Store, StoreError, Tx};
use crate::base::clock::Timestamp;
use crate::base::ids::{JobId, Space};
use crate::model::erasure::RowCounts;
use crate::model::job::{ERASED, Job};

/// Jobs in one statement.
const PART: usize = 50;
/// Jobs that one statement looks at, without and with what was written about them.
const PAGE: usize = 1000;
const TEXTS: usize = 200;

/// What belongs to a job besides its row and its calls.
const DETAILS: [(&str, &str); 4] = [
    (
        "job_requests",
        "DELETE FROM job_requests WHERE space = ? AND job_id IN (??)",
    ),
    (
        "job_checkpoints",
        "DELETE FROM job_checkpoints WHERE space = ? AND job_id IN (??)",
    ),
    (
        "job_events",
        "DELETE FROM job_events WHERE space = ? AND kind <> 'state' AND job_id IN (??)",
    ),
    (
        "job_batches",
        "DELETE FROM job_batches WHERE space = ? AND job_id IN (??)",
    ),
];

/// A job and everything that was written about it.
#[derive(Debug, Clone)]
pub struct JobTexts {
    pub id: JobId,
    pub is_final: bool,
    pub texts: Vec<String>,
}

impl Store {
    /// Deletes all jobs of an end user; those that run can no longer write. Returns those that had
    /// not ended. Safe to run again from any point.
    pub async fn remove_user_jobs(
        &self,
        space: &Space,
        user_id: &str,
        counts: &mut RowCounts,
    ) -> Result<Vec<Job>, StoreError> {
        let mut unfinished = Vec::new();
        let mut after = String::new();
        loop {
            let sql = format!(
                "SELECT id, user_id FROM jobs WHERE space = ? AND id > ? ORDER BY id LIMIT {PAGE}"
            );
            let page = self.read_all::<(JobId, String)>("remove_user_jobs", || {
                self.composed(&sql)
                    .bind(space.as_str())
                    .bind(after.as_str())
            });

            let page = page.await?;
            let Some((last, _)) = page.last() else {
                return Ok(unfinished);
            };
            after = last.to_string();
            let own = page.into_iter().filter(|(_, user)| user == user_id);
            let own: Vec<JobId> = own.map(|(id, _)| id).collect();
            for some in own.chunks(PART) {
                let (ended, removed) = self.remove_some_jobs(space, some).await?;
                unfinished.extend(ended);
                crate::model::erasure::add_counts(counts, &removed);
            }
        }
    }

    async fn remove_some_jobs(
        &self,
        space: &Space,
        ids: &[JobId],
    ) -> Result<(Vec<Job>, RowCounts), StoreError> {
        self.retry("remove_some_jobs", || async {
            let mut tx = self.begin().await?;
            let mut counts = RowCounts::new();
            let mut jobs = tx.hold_jobs_of(space, ids).await?;
            tx.clear_shared_calls(space, ids, &mut counts).await?;
            tx.remove_jobs(space, ids, &mut counts).await?;
            tx.commit().await?;
            jobs.retain(|job| !job.state.is_final());
            Ok((jobs, counts))
        })
        .await
    }

    /// Empties the jobs of some kinds of an end user that were queued since a time and have ended.
    pub async fn erase_user_jobs(
        &self,
        space: &Space,
        user_id: &str,
        kinds: &[&str],
        since: Timestamp,
    ) -> Result<RowCounts, StoreError> {
        let mut all = RowCounts::new();
        let mut after = (since.as_micros(), String::new());
        loop {
            let sql = format!(
                "SELECT id, kind, state, phase, user_id, created_at FROM jobs WHERE space = ? AND created_at >= ? \
                 AND (created_at > ? OR id > ?) ORDER BY created_at, id LIMIT {PAGE}"
            );
            let page = self.retry("erase_user_jobs", || async {
                let query = self
                    .composed(&sql)
                    .bind(space.as_str())
                    .bind(after.0)
                    .bind(after.0)
                    .bind(after.1.clone());
                self.fetch_all(query).await
            });

            let page = page.await?;
            let Some(last) = page.last() else {
                return Ok(all);
            };
            after = (last.try_get("created_at")?, last.try_get("id")?);
            let ids: Vec<JobId> = page
                .iter()
                .filter_map(|row| is_of(row, user_id, kinds).transpose())
                .collect::<Result<_, StoreError>>()?;
            for some in ids.chunks(PART) {
                let counts = self.retry("erase_user_jobs", || async {
                    let mut tx = self.begin().await?;
                    let mut counts = RowCounts::new();
                    tx.erase_jobs(space, some, &mut counts).await?;
                    tx.commit().await?;
                    Ok(counts)
                });

                crate::model::erasure::add_counts(&mut all, &counts.await?);
            }
        }
    }

    /// The next jobs after the given one that have not ended before a time, with everything that was
    /// written about them; empty after the last.
    pub async fn list_job_texts(
        &self,
        space: &Space,
        after: &str,
        since: Timestamp,
    ) -> Result<Vec<JobTexts>, StoreError> {
        let sql = format!(
            "SELECT id, state, progress_json, result_json, error_json, warnings_json, log_json FROM jobs \
             WHERE space = ? AND id > ? AND (finished_at IS NULL OR finished_at >= ?) ORDER BY id LIMIT {TEXTS}"
        );
        self.retry("list_job_texts", || async {
            let query = self
                .composed(&sql)
                .bind(space.as_str())
                .bind(after.to_owned())
                .bind(since.as_micros());
            let rows = self.fetch_all(query).await?;
            let mut jobs = rows.iter().map(read_texts).collect::<Result<Vec<_>, _>>()?;
            self.add_detail_texts(space, &mut jobs).await?;
            Ok(jobs)
        })
        .await
    }

    async fn add_detail_texts(
        &self,
        space: &Space,
        jobs: &mut [JobTexts],
    ) -> Result<(), StoreError> {
        if jobs.is_empty() {
            return Ok(());
        }

        for sql in [
            "SELECT job_id, value_json AS written FROM job_checkpoints WHERE space = ? AND job_id IN (??)",
            "SELECT job_id, data_json AS written FROM job_events WHERE space = ? AND kind <> 'state' AND job_id IN (??)",
            "SELECT job_id, parent_path AS written FROM job_batches WHERE space = ? AND job_id IN (??)",
            "SELECT payer_id AS job_id, output_json AS written FROM llm_calls WHERE space = ? AND payer_kind = 'job' \
             AND output_json IS NOT NULL AND payer_id IN (??)",
        ] {
            let query = self.dialect().query_list(sql, jobs.len());
            let query = query
                .bind(space.as_str())
                .bind_all(jobs.iter().map(|job| job.id.as_str()));

            for row in self.fetch_all(query).await? {
                let id: String = row.try_get("job_id")?;
                if let Some(job) = jobs.iter_mut().find(|job| job.id.as_str() == id) {
                    job.texts.push(row.try_get("written")?);
                }
            }
        }

        Ok(())
    }
}

impl Tx {
    async fn hold_jobs_of(&mut self, space: &Space, ids: &[JobId]) -> Result<Vec<Job>, StoreError> {
        let marks = vec!["?"; ids.len()].join(",");
        let sql =
            format!("SELECT {COLUMNS} FROM jobs WHERE space = ? AND id IN ({marks}) ORDER BY id");
        let query = self.dialect().query_for_update(&sql);
        let query = query
            .persistent(false)
            .bind(space.as_str().to_owned())
            .bind_all(ids.iter().map(|id| id.as_str().to_owned()));
        self.read_all(query).await
    }

    /// The unfinished jobs of a kind and an end user with their requests, locked.
    pub async fn hold_unfinished_requests(
        &mut self,
        space: &Space,
        kind: &'static str,
        user_id: &str,
    ) -> Result<Vec<(Job, Value)>, StoreError> {
        let sql = "SELECT j.id, r.request_json FROM jobs j JOIN job_requests r ON r.space = j.space AND r.job_id = j.id \
                   WHERE j.space = ? AND j.state IN ('queued', 'running') AND j.kind = ? AND j.user_id = ?";
        let query = self.sql(sql).bind(space.as_str()).bind(kind);
        let mut found = Vec::new();
        for row in self.fetch_all(query.bind(user_id.to_owned())).await? {
            let request = read_json(&row, "request_json")?.unwrap_or_default();
            let id = JobId::from_stored(row.try_get("id")?);
            let job = self.find_job(space, &id).await?;
            found.extend(
                job.filter(|job| !job.state.is_final())
                    .map(|job| (job, request)),
            );
        }

        Ok(found)
    }

    /// Those of these things for which a job has not saved a step with this prefix.
    pub async fn list_unsaved<'i>(
        &mut self,
        space: &Space,
        id: &JobId,
        prefix: &str,
        things: &[&'i str],
    ) -> Result<Vec<&'i str>, StoreError> {
        let query = self.sql("SELECT step FROM job_checkpoints WHERE space = ? AND job_id = ?");
        let query = query.bind(space.as_str()).bind(id.as_str());
        let mut saved = BTreeSet::new();
        for row in self.fetch_all(query).await? {
            let step: String = row.try_get("step")?;
            saved.extend(step.strip_prefix(prefix).map(ToOwned::to_owned));
        }

        let left = things.iter().filter(|thing| !saved.contains(**thing));
        Ok(left.copied().collect())
    }

    /// Deletes jobs with everything that was written about them.
    pub async fn remove_jobs(
        &mut self,
        space: &Space,
        ids: &[JobId],
        counts: &mut RowCounts,
    ) -> Result<(), StoreError> {
        for some in ids.chunks(PART) {
            // Locked first: who records a call of the job holds it, and has committed by then.
            if self.hold_jobs_of(space, some).await?.is_empty() {
                continue;
            }

            let calls = "DELETE FROM llm_calls WHERE space = ? AND payer_kind IN ('job', 'query') AND payer_id IN (??)";
            let jobs = "DELETE FROM jobs WHERE space = ? AND id IN (??)";
            let details = DETAILS.into_iter();
            for (table, sql) in details.chain([("llm_calls", calls), ("jobs", jobs)]) {
                count(counts, table, self.change_jobs(sql, space, some).await?);
            }
        }

        Ok(())
    }

    /// Empties jobs that have ended: only states, numbers and times stay.
    pub async fn erase_jobs(
        &mut self,
        space: &Space,
        ids: &[JobId],
        counts: &mut RowCounts,
    ) -> Result<(), StoreError> {
        for some in ids.chunks(PART) {
            let held = self.hold_jobs_of(space, some).await?;
            let ended = held.into_iter().filter(|job| job.state.is_final());
            let ended: Vec<JobId> = ended.map(|job| job.id).collect();
            if ended.is_empty() {
                continue;
            }

            for (table, sql) in DETAILS {
                count(counts, table, self.change_jobs(sql, space, &ended).await?);
            }

            let payers: Vec<String> = ended.iter().map(ToString::to_string).collect();
            for kind in ["job", "query"] {
                let calls = self.clear_outputs(space, kind, &payers).await?;
                count(counts, "llm_calls", calls);
            }

            self.empty_logs(space, &ended).await?;
            let update = "UPDATE jobs SET progress_json = NULL, result_json = NULL, error_json = NULL, warnings_json = NULL, \
                          phase = 'erased' WHERE space = ? AND id IN (??)";
            let jobs = self.change_jobs(update, space, &ended).await?;
            count(counts, "jobs", jobs);
        }

        Ok(())
    }

    /// Leaves of a log only what shows that the job has succeeded.
    async fn empty_logs(&mut self, space: &Space, ids: &[JobId]) -> Result<(), StoreError> {
        let sql =
            "SELECT id, log_json FROM jobs WHERE space = ? AND log_json IS NOT NULL AND id IN (??)";
        let query = self.dialect().query_list(sql, ids.len());
        let query = query
            .bind(space.as_str())
            .bind_all(ids.iter().map(JobId::as_str));
        for row in self.fetch_all(query).await? {
            let log = read_json(&row, "log_json")?.unwrap_or_default();
            let rest = serde_json::json!({"after": log["after"]}).to_string();
            let update = self.sql("UPDATE jobs SET log_json = ? WHERE space = ? AND id = ?");
            let update = update.bind(rest).bind(space.as_str());
            self.execute(update.bind(row.try_get::<String, _>("id")?))
                .await?;
        }

        Ok(())
    }

    /// Removes what a job that has not ended tells about others. What it has written stays noted, so
    /// that nothing is written twice.
    pub async fn clear_job_record(
        &mut self,
        space: &Space,
        id: &JobId,
        counts: &mut RowCounts,
    ) -> Result<(), StoreError> {
        const STEPS: &str = "DELETE FROM job_checkpoints WHERE space = ? AND step NOT LIKE 'written/%' AND job_id IN (??)";
        let id = [id.clone()];
        self.hold_jobs_of(space, &id).await?;
        for (table, sql) in DETAILS {
            let sql = match table {
                "job_requests" => continue,
                "job_checkpoints" => STEPS,
                _ => sql,
            };
            count(counts, table, self.change_jobs(sql, space, &id).await?);
        }

        let calls = self
            .clear_outputs(space, "job", &[id[0].to_string()])
            .await?;
        count(counts, "llm_calls", calls);
        let update = "UPDATE jobs SET progress_json = NULL, warnings_json = NULL WHERE space = ? AND id IN (??)";
        self.change_jobs(update, space, &id).await.map(|_| ())
    }

    /// Runs a statement about a space and some jobs.
    async fn change_jobs(
        &mut self,
        sql: &'static str,
        space: &Space,
        ids: &[JobId],
    ) -> Result<u64, StoreError> {
        let change = self.dialect().query_list(sql, ids.len());
        let change = change
            .bind(space.as_str())
            .bind_all(ids.iter().map(JobId::as_str));
        self.execute(change).await
    }
}

/// The job in a row, if it is one of these kinds, of this user, and has ended.
fn is_of(row: &AnyRow, user_id: &str, kinds: &[&str]) -> Result<Option<JobId>, StoreError> {
    let text = |column: &str| row.try_get::<String, _>(column);
    let has_ended = ["succeeded", "failed", "cancelled"].contains(&text("state")?.as_str());
    let phase: Option<String> = row.try_get("phase")?;
    let is_wanted = has_ended
        && phase.as_deref() != Some(ERASED)
        && text("user_id")? == user_id
        && kinds.contains(&text("kind")?.as_str());
    Ok(is_wanted.then_some(JobId::from_stored(text("id")?)))
}

fn read_texts(row: &AnyRow) -> Result<JobTexts, StoreError> {
    let mut texts = Vec::new();
    for column in [
        "progress_json",
        "result_json",
        "error_json",
        "warnings_json",
        "log_json",
    ] {
        texts.extend(row.try_get::<Option<String>, _>(column)?);
    }

    let state: String = row.try_get("state")?;
    Ok(JobTexts {
        id: JobId::from_stored(row.try_get("id")?),
        is_final: ["succeeded", "failed", "cancelled"].contains(&state.as_str()),
        texts,
    })
}
