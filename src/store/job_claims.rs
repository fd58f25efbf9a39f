//! Rows of `jobs` as workers see them: claim and hold, each write fenced. `job_endings` ends a claim.
//!
//! A claim is one conditional update that exactly one process can win; it increments the job's
//! `fence`, and every later write of the claimer names that fence. After a lost lease, such a write
//! matches no row. All times that decide ownership (`run_after`, `lease_until`) are the database's.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use serde_json::Value;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::dialect::{BindAll as _, KEPT_ROWS, Statement};
use super::job_queue::{moment_of, turns};
use super::jobs::{COLUMNS, check_transition, read_json};
use super::rows::{Stored as _, get, row};
use super::{Store, StoreError, Tx};
use crate::base::clock::Timestamp;
use crate::base::ids::JobId;
use crate::model::job::{Claim, ClaimedJob, FIRST_FENCE, Job, JobState, Lane, Report};
use crate::model::llm_call::KeyBudget;

/// How many jobs at the head of the queue one claim examines. Several processes see the same head,
/// and concurrent requests of one space may share a turn, which must not crowd out the others.
const CANDIDATES: usize = 256;

/// How many jobs are waiting or running.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueDepth {
    pub by_state: Vec<(JobState, i64)>,
    pub oldest_queued: Option<Timestamp>,
}

impl Store {
    /// Claims waiting jobs of the given kinds for so many workers: in queue order, but within the
    /// head those of spaces with the fewest running jobs first. Returns the jobs of each worker: one
    /// job, or several small ones of one space.
    pub async fn claim_jobs(
        &self,
        kinds: &[&'static str],
        owner: &str,
        lease: Duration,
        workers: usize,
        now: Timestamp,
    ) -> Result<Vec<Vec<ClaimedJob>>, StoreError> {
        let waiting = self.list_waiting(kinds, workers).await?;
        if waiting.is_empty() {
            return Ok(Vec::new());
        }

        let chosen = choose(waiting, self.count_running().await?, workers);
        // One commit for all of them, because waiting for the disk dominates the cost of a claim.
        let mut tx = self.begin().await?;
        let mut claimed: BTreeMap<usize, Vec<ClaimedJob>> = BTreeMap::new();
        for some in chosen.chunk_by(|(_, a), (_, b)| a.space == b.space) {
            let workers: HashMap<&str, usize> = some
                .iter()
                .map(|(worker, claim)| (claim.id.as_str(), *worker))
                .collect();

            let claims: Vec<&Claim> = some.iter().map(|(_, claim)| claim).collect();
            for job in tx.claim_all(&claims, owner, lease, now).await? {
                let worker = workers.get(job.job.id.as_str()).copied();
                claimed
                    .entry(worker.unwrap_or_default())
                    .or_default()
                    .push(job);
            }
        }

        tx.commit().await?;
        Ok(claimed.into_values().collect())
    }

    /// The heads of both lanes of the queue. Jobs for one source run in the order in which the database received
    /// them, so that the last text becomes the latest version; a job that awaits its user does not
    /// block the others.
    async fn list_waiting(
        &self,
        kinds: &[&'static str],
        workers: usize,
    ) -> Result<Vec<Waiting>, StoreError> {
        let lane = format!(
            "SELECT j.space, j.id, j.fence, j.group_size, j.turn FROM jobs j WHERE j.state = 'queued' AND j.finished_at IS NULL \
             AND j.turn BETWEEN ? AND ? AND j.run_after <= @now AND j.kind IN ({}) AND NOT EXISTS (SELECT 1 FROM jobs o WHERE o.space = j.space \
             AND o.source_id = j.source_id AND o.state IN ('queued', 'running') AND o.source_seq <= j.source_seq \
             AND (o.source_seq < j.source_seq OR o.id < j.id)) \
             ORDER BY j.turn, j.id LIMIT {}",
            vec!["?"; kinds.len()].join(", "),
            CANDIDATES.max(2 * workers)
        );

        let sql = format!("SELECT * FROM ({lane}) a UNION ALL SELECT * FROM ({lane}) b");
        let mut query = self.composed(&sql);
        for lane in [Lane::Requested, Lane::Background] {
            let (first, last) = turns(lane);
            query = query.bind(first).bind(last).bind_all(kinds.iter().copied());
        }

        let read = |row: &AnyRow| {
            let waiting = Waiting {
                claim: Claim::read(row)?,
                group_size: usize::try_from(row.try_get::<i64, _>("group_size")?).unwrap_or(1),
            };
            Ok((moment_of(row.try_get("turn")?), waiting))
        };

        let rows = self.fetch_all(query).await?;
        let mut waiting: Vec<(i64, Waiting)> =
            rows.iter().map(read).collect::<Result<_, StoreError>>()?;
        waiting.sort_by(|(a, one), (b, other)| (a, &one.claim.id).cmp(&(b, &other.claim.id)));
        Ok(waiting.into_iter().map(|(_, waiting)| waiting).collect())
    }

    async fn count_running(&self) -> Result<HashMap<String, i64>, StoreError> {
        let sql = self
            .sql("SELECT space, COUNT(*) AS jobs FROM jobs WHERE state = 'running' AND finished_at IS NULL GROUP BY space");
        self.fetch_all(sql)
            .await?
            .iter()
            .map(|row| Ok((row.try_get("space")?, row.try_get("jobs")?)))
            .collect()
    }

    /// Renews the leases of the jobs that a process knows it runs. A job that it does not know of,
    /// because the answer to its claim was lost, must expire.
    pub async fn renew_leases(
        &self,
        owner: &str,
        ids: &[JobId],
        lease: Duration,
    ) -> Result<(), StoreError> {
        let sql = "UPDATE jobs SET lease_until = @now + ? WHERE lease_owner = ? AND state = 'running' AND id IN (??)";
        let hold = "SELECT id FROM jobs WHERE lease_owner = ? AND state = 'running' AND id IN (??) ORDER BY space, id";
        let mut tx = self.begin().await?;

        for some in ids.chunks(500) {
            // In a fixed order, which an update does not guarantee.
            let hold = hold.replace("??", &vec!["?"; some.len()].join(","));
            let hold = self
                .dialect()
                .query_for_update(&hold)
                .persistent(false)
                .bind(owner.to_owned());

            tx.fetch_all(hold.bind_all(some.iter().map(|id| id.as_str().to_owned())))
                .await?;

            let mut update = self
                .dialect()
                .query_list(sql, some.len())
                .bind(micros(lease))
                .bind(owner);

            update = update.bind_all(some.iter().map(JobId::as_str));

            tx.execute(update).await?;
        }

        tx.commit().await
    }

    /// The jobs that a process still holds.
    pub async fn list_claims(&self, owner: &str) -> Result<Vec<Claim>, StoreError> {
        let query = self
            .sql("SELECT space, id, fence FROM jobs WHERE lease_owner = ? AND state = 'running'")
            .bind(owner);
        self.fetch_all(query)
            .await?
            .iter()
            .map(Claim::read)
            .collect()
    }

    pub async fn queue_depth(&self) -> Result<QueueDepth, StoreError> {
        let counts = "SELECT state, COUNT(*) AS jobs FROM jobs WHERE state IN ('queued', 'running', 'awaiting_helper') AND finished_at IS NULL GROUP BY state";
        let mut depth = QueueDepth::default();
        for row in self.fetch_all(self.sql(counts)).await? {
            let state: String = row.try_get("state")?;
            let jobs: i64 = row.try_get("jobs")?;
            let state = state.parse::<JobState>().ok();
            depth.by_state.extend(state.map(|state| (state, jobs)));
        }

        let oldest = self
            .fetch_all(
                self.sql("SELECT MIN(created_at) AS oldest FROM jobs WHERE state = 'queued' AND finished_at IS NULL"),
            )
            .await?;
        let oldest = oldest
            .first()
            .map(|row| row.try_get::<Option<i64>, _>("oldest"))
            .transpose()?
            .flatten();

        depth.oldest_queued = oldest.map(Timestamp::from_micros);
        Ok(depth)
    }
}

impl Tx {
    /// Claims waiting jobs of one space, with as many statements as for one; returns those that no
    /// other process was faster to claim, in the order of their ids.
    async fn claim_all(
        &mut self,
        waiting: &[&Claim],
        owner: &str,
        lease: Duration,
        now: Timestamp,
    ) -> Result<Vec<ClaimedJob>, StoreError> {
        check_transition(JobState::Queued, JobState::Running)?;
        let ids = self.hold_waiting(waiting).await?;
        let (Some(first), false) = (waiting.first(), ids.is_empty()) else {
            return Ok(Vec::new());
        };

        let update = "UPDATE jobs SET state = 'running', lease_owner = ?, lease_until = @now + ?, fence = fence + 1, \
                      attempt = attempt + 1, phase = NULL, started_at = COALESCE(started_at, ?) \
                      WHERE space = ? AND id IN (??)";
        let update = self
            .dialect()
            .query_list(update, ids.len())
            .persistent(ids.len() <= KEPT_ROWS)
            .bind(owner.to_owned())
            .bind(micros(lease))
            .bind(now.as_micros())
            .bind(first.space.as_str().to_owned());

        self.execute(bind_ids(update, &ids)).await?;
        let claimed = self.list_claimed(first, &ids).await?;

        // Jobs may wait repeatedly, perhaps for days: only the first time is worth an event. The
        // first start follows from the row.
        let claims: Vec<Claim> = claimed
            .iter()
            .filter(|claimed| claimed.job.waits == 0 && claimed.job.fence > FIRST_FENCE)
            .map(|claimed| claimed.job.claim())
            .collect();

        self.add_state_events(&claims, JobState::Running, now)
            .await?;
        Ok(claimed)
    }

    /// The ids of those that still wait as they were seen, locked in a fixed order.
    async fn hold_waiting(&mut self, waiting: &[&Claim]) -> Result<Vec<String>, StoreError> {
        let Some(first) = waiting.first() else {
            return Ok(Vec::new());
        };
        let sql = format!(
            "SELECT id, fence FROM jobs WHERE state = 'queued' AND space = ? AND id IN ({}) ORDER BY space, id",
            vec!["?"; waiting.len()].join(",")
        );

        let query = self
            .dialect()
            .query_for_update(&sql)
            .persistent(waiting.len() <= KEPT_ROWS)
            .bind(first.space.as_str().to_owned());

        let query = waiting.iter().fold(query, |query, claim| {
            query.bind(claim.id.as_str().to_owned())
        });

        let seen: HashMap<&str, i64> = waiting
            .iter()
            .map(|claim| (claim.id.as_str(), claim.fence))
            .collect();

        let mut ids = Vec::with_capacity(waiting.len());
        for row in self.fetch_all(query).await? {
            let id: String = row.try_get("id")?;
            if seen.get(id.as_str()) == Some(&row.try_get::<i64, _>("fence")?) {
                ids.push(id);
            }
        }

        Ok(ids)
    }

    async fn list_claimed(
        &mut self,
        first: &Claim,
        ids: &[String],
    ) -> Result<Vec<ClaimedJob>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS}, (SELECT r.request_json FROM job_requests r WHERE r.space = jobs.space AND r.job_id = jobs.id) AS request_json, \
             (SELECT r.budget_json FROM job_requests r WHERE r.space = jobs.space AND r.job_id = jobs.id) AS budget_json, \
             @now - waiting_since AS waited FROM jobs WHERE space = ? AND id IN ({}) ORDER BY space, id",
            vec!["?"; ids.len()].join(",")
        );

        let query = self
            .composed(&sql)
            .persistent(ids.len() <= KEPT_ROWS)
            .bind(first.space.as_str().to_owned());

        self.read_all(bind_ids(query, ids)).await
    }

    /// Sets the source of a running job; the job becomes the last one for that source.
    pub async fn update_job_source(
        &mut self,
        claim: &Claim,
        source_id: &str,
    ) -> Result<(), StoreError> {
        let source_seq = self.next_source_seq(&claim.space, source_id).await?;
        let update = "UPDATE jobs SET source_id = ?, source_seq = ? \
                      WHERE space = ? AND id = ? AND fence = ? AND state = 'running'";
        let update = self.sql(update).bind(source_id.to_owned()).bind(source_seq);
        self.execute(bind_claim(update, claim)).await.map(|_| ())
    }

    /// Writes the progress of a running job.
    pub(super) async fn update_job_progress(
        &mut self,
        claim: &Claim,
        report: &Report,
    ) -> Result<(), StoreError> {
        let update = "UPDATE jobs SET phase = ?, progress_json = ? \
                      WHERE space = ? AND id = ? AND fence = ? AND state = 'running'";
        let update = self
            .sql(update)
            .bind(report.phase)
            .bind(report.progress.to_string());

        self.execute(bind_claim(update, claim)).await.map(|_| ())
    }

    /// Replaces the warnings of a running job.
    pub(super) async fn update_job_warnings(
        &mut self,
        claim: &Claim,
        warnings: &[Value],
    ) -> Result<(), StoreError> {
        let update = "UPDATE jobs SET warnings_json = ? WHERE space = ? AND id = ? AND fence = ? AND state = 'running'";
        let update = self
            .sql(update)
            .bind(Value::from(warnings.to_vec()).to_string());
        self.execute(bind_claim(update, claim)).await.map(|_| ())
    }
}

/// A job at the head of the queue.
struct Waiting {
    claim: Claim,
    group_size: usize,
}

/// Picks from the head of the queue for each worker: a job of the space with the fewest running
/// jobs, otherwise in queue order; with one that runs in a group, others like it of its space.
fn choose(
    mut waiting: Vec<Waiting>,
    mut running: HashMap<String, i64>,
    workers: usize,
) -> Vec<(usize, Claim)> {
    let mut chosen = Vec::with_capacity(workers);
    for worker in 0..workers {
        let load = |job: &Waiting| running.get(job.claim.space.as_str()).copied().unwrap_or(0);
        let best = (0..waiting.len()).min_by_key(|index| (load(&waiting[*index]), *index));
        let Some(best) = best else { break };

        let first = waiting.remove(best);
        let space = first.claim.space.clone();
        *running.entry(space.as_str().to_owned()).or_default() += 1;
        let mut room = first.group_size.saturating_sub(1);
        chosen.push((worker, first.claim));

        waiting.retain(|job| {
            let is_alike = job.group_size == first.group_size && job.claim.space == space;
            let joins = room > 0 && is_alike;
            if joins {
                room -= 1;
                chosen.push((worker, job.claim.clone()));
            }
            !joins
        });
    }

    // In a fixed order, so that processes that take the same rows wait instead of deadlocking.
    chosen.sort_by(|(_, a), (_, b)| (&a.space, &a.id).cmp(&(&b.space, &b.id)));
    chosen
}

row! {
    ClaimedJob as "" { request = "request_json" }
    from row {
        job: Job::read(row)?,
        budget: read_budget(row)?,
        waited: get::<Option<i64>>(row, "waited")?
            .map(|micros| Duration::from_micros(u64::try_from(micros).unwrap_or(0))),
    }
}

fn read_budget(row: &AnyRow) -> Result<Option<KeyBudget>, StoreError> {
    let budget = read_json(row, "budget_json")?;
    // A job that was retried may have only what it has spent.
    let budget = budget.filter(|budget| budget.get("key_id").is_some());
    budget
        .map(serde_json::from_value)
        .transpose()
        .map_err(|_| StoreError::Broken {
            cause: "the budget of a job cannot be read".to_owned(),
        })
}

fn bind_ids(statement: Statement, ids: &[String]) -> Statement {
    statement.bind_all(ids.iter().cloned())
}

row! {
    Claim as "" { space, id, fence }
}

pub(super) fn bind_claim(statement: Statement, claim: &Claim) -> Statement {
    statement
        .bind(claim.space.as_str().to_owned())
        .bind(claim.id.as_str().to_owned())
        .bind(claim.fence)
}

pub(super) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(space: &str, id: &str, group_size: usize) -> Waiting {
        let claim = Claim {
            space: space.parse().unwrap(),
            id: JobId::from_stored(id.to_owned()),
            fence: 0,
        };
        Waiting { claim, group_size }
    }

    /// The jobs of each worker.
    fn chosen(waiting: Vec<Waiting>, workers: usize) -> Vec<Vec<String>> {
        let mut groups = vec![Vec::new(); workers];
        for (worker, claim) in choose(waiting, HashMap::new(), workers) {
            groups[worker].push(claim.id.to_string());
        }

        groups
    }

    #[test]
    fn small_jobs_of_a_space_run_together_and_others_alone() {
        let head = || {
            vec![
                waiting("a", "1", 8),
                waiting("a", "2", 1),
                waiting("a", "3", 8),
                waiting("b", "4", 8),
                waiting("a", "5", 8),
                waiting("a", "6", 9),
            ]
        };

        assert_eq!(
            chosen(head(), 1),
            [["1", "3", "5"].map(String::from).to_vec()]
        );
        let two = chosen(head(), 2);
        assert_eq!(two[1], ["4"], "another space before a second worker");
        assert_eq!(chosen(head(), 3)[2], ["2"]);

        let many = (0..20).map(|number| waiting("a", &format!("{number:02}"), 8));
        let sizes: Vec<usize> = chosen(many.collect(), 4).iter().map(Vec::len).collect();
        assert_eq!(sizes, [8, 8, 4, 0]);
    }
}
