//! Rows of `llm_calls`: every model call. `usage` has the sums by day.

use std::collections::BTreeSet;

use serde_json::json;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::dialect::{Dialect, KEPT_ROWS, Statement};
use super::jobs::read_json;
use super::journal::CallPart;
use super::rows::{Stored as _, Written as _, written_row};
use super::{Store, StoreError, Tx};
use crate::base::ids::{JobId, Space};
use crate::model::job::JobRecord;
use crate::model::llm_call::{LlmCall, Payer, Spent};

written_row! {
    LlmCall as "" {
        call_id, seq, stage, level, attempt, outcome, llm_output = "output_json",
        timestamp = "started_at", latency_ms, provider, model, mode, tokens_prompt,
        tokens_completion, tokens_cached, cost_usd, provider_params = "params_json",
    }
    from _row { key_id: None }
}

/// The beginning of an insert, and the placeholders of a row.
fn insert_call() -> (String, String) {
    let columns = format!("space, payer_kind, payer_id, {}", LlmCall::NAMES);
    let marks = vec!["?"; columns.split(',').count()].join(", ");
    (format!("INSERT INTO llm_calls ({columns})"), marks)
}

/// Adds one or several calls.
fn add_any(dialect: &Dialect, rows: usize) -> Statement {
    let (insert, marks) = insert_call();
    dialect.insert_rows_if_absent(&format!("{insert} VALUES ({marks})"), rows)
}

/// Adds a call of a job. A deleted or erased job takes its calls with it; the day still counts them.
fn add_to_job(dialect: &Dialect) -> Statement {
    let (insert, marks) = insert_call();
    dialect.insert_if_absent(&format!(
        "{insert} SELECT {marks} FROM jobs j WHERE j.space = ? AND j.id = ? AND COALESCE(j.phase, '') <> 'erased'"
    ))
}

/// Calls per insert.
const AT_ONCE: usize = 100;

/// A call, its space, who pays for it, and what is written about it.
pub(super) type Row<'a> = (&'a Space, &'a Payer, &'a LlmCall, CallPart);

impl Store {
    /// Writes calls and adds them to their days, all or nothing. An existing call changes nothing,
    /// so it is safe to retry.
    pub async fn add_llm_calls(&self, rows: &[Row<'_>]) -> Result<(), StoreError> {
        self.retry("add_llm_calls", || async {
            let mut tx = self.begin().await?;
            match tx.insert_llm_calls(rows).await {
                Ok(true) => tx.add_usages(rows).await?,
                Err(error) if error.may_pass() => return Err(error),
                Ok(false) | Err(_) => {
                    drop(tx);
                    return self.add_llm_calls_singly(rows).await;
                }
            }

            tx.commit().await
        })
        .await
    }

    /// Writes calls together with the records of jobs, all or nothing. Returns for each job whether
    /// the claim still held; if not, none of its record was written.
    pub async fn add_paid_records(
        &self,
        rows: &[Row<'_>],
        records: &[&JobRecord],
    ) -> Result<Vec<bool>, StoreError> {
        self.retry("add_paid_records", || async {
            let mut tx = self.begin().await?;
            // Jobs first: their calls refer to them, and MySQL would otherwise take a read lock
            // before the write lock.
            let written = tx.add_job_records(records).await?;
            if !tx.insert_llm_calls(rows).await? {
                return Err(StoreError::Broken {
                    cause: "some calls are there already".to_owned(),
                });
            }

            tx.add_usages(rows).await?;
            tx.commit().await?;
            Ok(written)
        })
        .await
    }

    /// Writes calls of which some exist already, or belong to a deleted job.
    async fn add_llm_calls_singly(&self, rows: &[Row<'_>]) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        let mut new = Vec::with_capacity(rows.len());
        for row in rows {
            let is_listed = !tx.listed(std::slice::from_ref(row)).await?.is_empty();
            if !is_listed || tx.add_llm_call(row).await? {
                new.push(*row);
            }
        }

        tx.add_usages(&new).await?;
        tx.commit().await
    }

    /// Every model call attempt of a payer, in order.
    pub async fn list_calls_of(
        &self,
        space: &Space,
        payer: &Payer,
    ) -> Result<Vec<LlmCall>, StoreError> {
        self.retry("list_calls_of", || async {
            let sql = format!(
                "SELECT {} FROM llm_calls WHERE space = ? AND payer_kind = ? AND payer_id = ? ORDER BY seq",
                LlmCall::COLUMNS
            );
            let query = self.composed(&sql)
                .bind(space.as_str())
                .bind(payer.kind())
                .bind(payer.id().map(str::to_owned));

            let rows = self.fetch_all(query).await?;
            let mut calls = rows
                .iter()
                .map(LlmCall::read)
                .collect::<Result<Vec<_>, _>>()?;

            if let Payer::Job(id) = payer
                && let Some(log) = self.find_job_log(space, id).await?
            {
                // If it was uncertain whether the log was written, its calls have rows as well.
                let logged: Vec<LlmCall> = log.calls().collect();
                let place = |call: &LlmCall| (call.seq, call.timestamp);
                calls.retain(|call| !logged.iter().any(|other| place(other) == place(call)));
                calls.extend(logged);
                calls.sort_by_key(|call| call.seq);
            }

            Ok(calls)
        })
        .await
    }

    /// What a payer has spent so far, and the number of its last attempt.
    pub async fn find_spent_by(
        &self,
        space: &Space,
        payer: &Payer,
    ) -> Result<(Spent, i64), StoreError> {
        self.retry("find_spent_by", || async {
            let query = spent_by(self.dialect(), space, payer);
            let rows = self.fetch_all(query).await?;
            let (spent, last_seq) = rows.first().map_or(Ok((Spent::default(), 0)), |row| {
                Ok::<_, StoreError>((Spent::read(row)?, row.try_get("last_seq")?))
            })?;

            let Payer::Job(id) = payer else {
                return Ok((spent, last_seq));
            };
            let budget = self.sql(BUDGET).bind(space.as_str().to_owned());
            let rows = self.fetch_all(budget.bind(id.as_str().to_owned())).await?;
            let before = rows.first().map(spent_before).transpose()?;

            Ok((spent.plus(before.unwrap_or_default()), last_seq))
        })
        .await
    }
}

/// What is stored with the request of a job about its caps.
const BUDGET: &str = "SELECT budget_json FROM job_requests WHERE space = ? AND job_id = ?";
/// The member of it that holds what the job has spent in calls whose rows were deleted.
const SPENT: &str = "spent";

fn spent_by(dialect: &Dialect, space: &Space, payer: &Payer) -> Statement {
    let sql = format!(
        "SELECT COUNT(*) AS calls, {} AS tokens_prompt, {} AS tokens_completion, \
         COALESCE(SUM(cost_usd), 0.0) AS cost_usd, COALESCE(MAX(seq), 0) AS last_seq FROM llm_calls \
         WHERE space = ? AND payer_kind = ? AND payer_id = ?",
        dialect.whole_sum("tokens_prompt"),
        dialect.whole_sum("tokens_completion"),
    );

    dialect
        .assembled(&sql)
        .bind(space.as_str().to_owned())
        .bind(payer.kind())
        .bind(payer.id().map(str::to_owned))
}

fn spent_before(row: &AnyRow) -> Result<Spent, StoreError> {
    let budget = read_json(row, "budget_json")?.unwrap_or_default();
    let spent = &budget[SPENT];
    Ok(Spent {
        calls: spent["calls"].as_i64().unwrap_or(0),
        tokens: spent["tokens"].as_i64().unwrap_or(0),
        usd: spent["usd"].as_f64().unwrap_or(0.0),
    })
}

impl Tx {
    /// Stores what a job has spent with its request, if that still exists: its calls are about to
    /// be deleted.
    pub(super) async fn update_spent_before(
        &mut self,
        space: &Space,
        id: &JobId,
    ) -> Result<(), StoreError> {
        let budget = self
            .sql(BUDGET)
            .bind(space.as_str().to_owned())
            .bind(id.as_str().to_owned());
        let Some(row) = self.fetch_optional(budget).await? else {
            return Ok(());
        };

        let query = spent_by(self.dialect(), space, &Payer::Job(id.clone()));
        let Some(calls) = self.fetch_optional(query).await? else {
            return Ok(());
        };
        let spent = Spent::read(&calls)?;
        if spent.calls == 0 {
            return Ok(());
        }

        let spent = spent.plus(spent_before(&row)?);
        let mut budget = read_json(&row, "budget_json")?.unwrap_or_else(|| json!({}));
        budget[SPENT] = json!({"calls": spent.calls, "tokens": spent.tokens, "usd": spent.usd});
        let update = "UPDATE job_requests SET budget_json = ? WHERE space = ? AND job_id = ?";
        let update = self
            .sql(update)
            .bind(budget.to_string())
            .bind(space.as_str().to_owned())
            .bind(id.as_str().to_owned());

        self.execute(update).await.map(|_| ())
    }

    /// Deletes the attempts of a payer; the daily totals stay.
    pub(super) async fn remove_calls_of(
        &mut self,
        space: &str,
        payer: &Payer,
    ) -> Result<(), StoreError> {
        let delete = "DELETE FROM llm_calls WHERE space = ? AND payer_kind = ? AND payer_id = ?";
        let delete = self
            .sql(delete)
            .bind(space.to_owned())
            .bind(payer.kind())
            .bind(payer.id().map(str::to_owned));

        self.execute(delete).await.map(|_| ())
    }

    /// Writes calls as they are; `false` if not all of them could be written.
    async fn insert_llm_calls(&mut self, rows: &[Row<'_>]) -> Result<bool, StoreError> {
        let listed = self.listed(rows).await?;
        for some in listed.chunks(AT_ONCE) {
            if !self.hold_jobs(some).await? {
                return Ok(false);
            }

            let mut insert = add_any(self.dialect(), some.len());
            for (space, payer, call, _) in some {
                insert = insert
                    .bind(space.as_str().to_owned())
                    .bind(payer.kind())
                    .bind(payer.id().map(str::to_owned));
                insert = call.bind(insert);
            }

            if self.execute(insert).await? < some.len() as u64 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The calls that get a row.
    async fn listed<'r>(&mut self, rows: &[Row<'r>]) -> Result<Vec<Row<'r>>, StoreError> {
        let open = self.unended_jobs(rows).await?;
        let gets_row = |(space, payer, _, part): &Row<'_>| match part {
            CallPart::Whole | CallPart::Row => true,
            CallPart::Sums => false,
            CallPart::WhileUnended => {
                let id = payer.id().unwrap_or_default();
                open.contains(&(space.as_str().to_owned(), id.to_owned()))
            }
        };

        Ok(rows.iter().filter(|row| gets_row(row)).copied().collect())
    }

    /// Those jobs that have not ended, of all that pay for calls which need this. They are locked
    /// until this transaction ends, so that none ends, and deletes its calls, before they are
    /// written.
    async fn unended_jobs(
        &mut self,
        rows: &[Row<'_>],
    ) -> Result<BTreeSet<(String, String)>, StoreError> {
        let jobs: BTreeSet<(&str, &str)> = rows
            .iter()
            .filter(|(.., part)| *part == CallPart::WhileUnended)
            .filter_map(|(space, payer, ..)| Some((space.as_str(), payer.id()?)))
            .collect();

        if jobs.is_empty() {
            return Ok(BTreeSet::new());
        }

        let each = vec!["(space = ? AND id = ?)"; jobs.len()].join(" OR ");
        let sql = format!(
            "SELECT space, id FROM jobs WHERE ({each}) AND finished_at IS NULL ORDER BY space, id"
        );
        let hold = self.dialect().query_for_share(&sql);
        let mut hold = hold.persistent(jobs.len() <= KEPT_ROWS);
        for (space, id) in jobs {
            hold = hold.bind(space.to_owned()).bind(id.to_owned());
        }

        let rows = self.fetch_all(hold).await?;
        let read = |row: &AnyRow| Ok((row.try_get("space")?, row.try_get("id")?));
        rows.iter().map(read).collect()
    }

    /// Locks the jobs that pay for some attempts until this transaction ends; `false` if one was
    /// deleted or erased. Payers are of several kinds, so a foreign key cannot do this.
    async fn hold_jobs(&mut self, rows: &[Row<'_>]) -> Result<bool, StoreError> {
        let jobs: BTreeSet<(&str, &str)> = rows
            .iter()
            .filter_map(|(space, payer, ..)| match payer {
                Payer::Job(id) => Some((space.as_str(), id.as_str())),
                _ => None,
            })
            .collect();

        if jobs.is_empty() {
            return Ok(true);
        }

        let each = vec!["(space = ? AND id = ?)"; jobs.len()].join(" OR ");
        let sql = format!(
            "SELECT id FROM jobs WHERE COALESCE(phase, '') <> 'erased' AND ({each}) ORDER BY space, id"
        );
        let hold = self.dialect().query_for_share(&sql);
        let mut hold = hold.persistent(jobs.len() <= KEPT_ROWS);
        for (space, id) in &jobs {
            hold = hold.bind((*space).to_owned()).bind((*id).to_owned());
        }

        Ok(self.fetch_all(hold).await?.len() == jobs.len())
    }

    /// Writes one call; `false` if it existed.
    async fn add_llm_call(
        &mut self,
        (space, payer, call, _): &Row<'_>,
    ) -> Result<bool, StoreError> {
        let job = match payer {
            Payer::Job(id) => Some(id.as_str().to_owned()),
            _ => None,
        };
        let mut call = (*call).clone();

        loop {
            let dialect = self.dialect();
            let insert = if job.is_some() {
                add_to_job(dialect)
            } else {
                add_any(dialect, 1)
            };
            let insert = insert
                .bind(space.as_str().to_owned())
                .bind(payer.kind())
                .bind(payer.id().map(str::to_owned));
            let insert = call.bind(insert);
            let insert = match &job {
                Some(job) => insert.bind(space.as_str().to_owned()).bind(job.clone()),
                None => insert,
            };

            if self.execute(insert).await? > 0 {
                return Ok(true);
            }

            let known = self.sql("SELECT seq FROM llm_calls WHERE space = ? AND call_id = ?");
            let known = known
                .bind(space.as_str().to_owned())
                .bind(call.call_id.clone());
            if self.fetch_optional(known).await?.is_some() {
                return Ok(false);
            }

            // A process that lost its lease may have used the same number: the later call moves up.
            let last = "SELECT COALESCE(MAX(seq), 0) AS last_seq FROM llm_calls \
                        WHERE space = ? AND payer_kind = ? AND payer_id = ?";
            let last = self
                .sql(last)
                .bind(space.as_str().to_owned())
                .bind(payer.kind())
                .bind(payer.id().map(str::to_owned));

            let last: i64 = self
                .fetch_optional(last)
                .await?
                .map_or(Ok(0), |row| row.try_get("last_seq"))?;

            if last < call.seq {
                // The job is deleted, and its calls with it; the day still counts them.
                return Ok(true);
            }

            call.seq = last + 1;
        }
    }
}
