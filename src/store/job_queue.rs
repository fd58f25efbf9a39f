//! The queue: adds jobs to it, one or many at a time, and decides their order.
//!
//! `turn` orders the queue: it is the time of queueing, or one hour after the last waiting or
//! running job of the space, whichever is later. So the jobs of a busy space reach far into the
//! future, and a single job of another space comes before all but the first of them. Background work
//! has turns of its own, far above all others: each lane of a space has its own order and its own
//! number of places, and claims read the heads of both.
//!
//! Jobs for one source have their own order, `source_seq`: one more than the highest among them
//! when the job is queued. The database counts it, because the clocks of hosts differ, and with
//! them their ids. Concurrent requests may share a number; then the ids decide.

use std::collections::{HashMap, HashSet};

use super::dialect::{BindAll as _, KEPT_ROWS};
use super::job_details::ROWS;
use super::rows::broken;
use super::{StoreError, Tx};
use crate::base::clock::Timestamp;
use crate::base::ids::{JobId, Space};
use crate::model::job::{Job, JobState, Lane, NewJob};
use crate::model::llm_call::KeyBudget;

/// The distance between two jobs of one space in the queue, in microseconds: one hour, longer than
/// any job takes.
const TURN: i64 = 3_600_000_000;
/// The first turn of background work, beyond any time.
const BACKGROUND: i64 = 1 << 62;
/// Characters of requests per insert: below the smallest default packet size of a server.
const CHARS: usize = 1_000_000;

impl Tx {
    /// Queues jobs of one lane in their order, unless more than `most` would then wait in that lane
    /// of their space: then none of them, and `None`. Their model calls count towards the caps of
    /// `payer`.
    pub async fn add_jobs(
        &mut self,
        space: &Space,
        new: &[NewJob],
        payer: Option<&KeyBudget>,
        most: i64,
        now: Timestamp,
    ) -> Result<Option<Vec<Job>>, StoreError> {
        let lane = new.first().map_or(Lane::Requested, |new| new.lane);
        let queue = self.look_at_queue(space, lane).await?;
        if !self.fits(space, &queue, new.len(), most).await? {
            return Ok(None);
        }

        let jobs: Vec<Job> = new.iter().map(|new| fresh(space, new, now)).collect();
        let places = self.places(space, new, &queue).await?;
        self.add_job_rows(&jobs, new, &places, queue.now).await?;

        let payer = payer.map(|payer| serde_json::to_string(payer).unwrap_or_default());
        self.add_job_requests(&jobs, new, payer.as_deref()).await?;
        Ok(Some(jobs))
    }

    /// The turn and the `source_seq` of each new job.
    async fn places(
        &mut self,
        space: &Space,
        new: &[NewJob],
        queue: &Queue,
    ) -> Result<Vec<(i64, i64)>, StoreError> {
        let mut last = self.last_source_seqs(space, new).await?;
        let turns = (0..).map(|place: i64| {
            let later = place.saturating_mul(TURN);
            queue.next_turn().saturating_add(later)
        });

        let places = new.iter().zip(turns).map(|(new, turn)| {
            let Some(source_id) = new.source_id.as_deref() else {
                return (turn, 0);
            };
            let seq = last.entry(source_id).or_insert(0);
            *seq += 1;
            (turn, *seq)
        });

        Ok(places.collect())
    }

    async fn add_job_rows(
        &mut self,
        jobs: &[Job],
        new: &[NewJob],
        places: &[(i64, i64)],
        run_after: i64,
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO jobs (space, id, kind, state, user_id, source_id, source_seq, attempt, max_attempts, \
                   losses, turn, group_size, run_after, fence, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, 0, ?, ?, ?, 0, ?)";
        let each = jobs.chunks(ROWS).zip(new.chunks(ROWS));
        for ((jobs, new), places) in each.zip(places.chunks(ROWS)) {
            let mut insert = self.dialect().insert_rows(sql, jobs.len());
            for ((job, new), (turn, source_seq)) in jobs.iter().zip(new).zip(places) {
                insert = insert
                    .bind(job.space.as_str().to_owned())
                    .bind(job.id.as_str().to_owned())
                    .bind(job.kind.clone())
                    .bind(job.state.into_str())
                    .bind(job.user_id.clone())
                    .bind(job.source_id.clone())
                    .bind(*source_seq)
                    .bind(job.max_attempts)
                    .bind(*turn)
                    .bind(new.group_size)
                    .bind(run_after)
                    .bind(job.created_at.as_micros());
            }

            self.execute(insert).await?;
        }

        Ok(())
    }

    async fn add_job_requests(
        &mut self,
        jobs: &[Job],
        new: &[NewJob],
        payer: Option<&str>,
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO job_requests (space, job_id, request_json, budget_json) VALUES (?, ?, ?, ?)";
        let (mut jobs, mut new) = (jobs, new);
        while !new.is_empty() {
            let mut chars = 0;
            let fitting = new.iter().take(ROWS).take_while(|new| {
                chars += new.request.len();
                chars <= CHARS
            });

            let count = fitting.count().max(1);
            let mut insert = self.dialect().insert_rows(sql, count);
            for (job, new) in jobs.iter().zip(&new[..count]) {
                insert = insert
                    .bind(job.space.as_str().to_owned())
                    .bind(job.id.as_str().to_owned())
                    .bind(new.request.clone())
                    .bind(payer.map(str::to_owned));
            }

            self.execute(insert).await?;
            (jobs, new) = (&jobs[count..], &new[count..]);
        }

        Ok(())
    }

    /// Whether fewer than `most` jobs wait in the lane of a job, so that it can be queued again; jobs
    /// being queued at this moment may not count.
    pub async fn has_room(&mut self, job: &Job, most: i64) -> Result<bool, StoreError> {
        let lane = self.lane_of(&job.space, &job.id).await?;
        let queue = self.look_at_queue(&job.space, lane).await?;
        self.fits(&job.space, &queue, 1, most).await
    }

    /// Whether at most `most` jobs wait in a lane of a space after `more` are added.
    async fn fits(
        &mut self,
        space: &Space,
        queue: &Queue,
        more: usize,
        most: i64,
    ) -> Result<bool, StoreError> {
        let more = i64::try_from(more).unwrap_or(i64::MAX);
        // Turns of a space are a fixed distance apart, except for a few shared ones: far below the
        // limit, their span is proof enough, and no counting is needed.
        if queue.span().saturating_add(more) < most / 8 {
            return Ok(true);
        }

        let sql = "SELECT COUNT(*) AS jobs FROM (SELECT id FROM jobs WHERE space = ? AND state = 'queued' \
                   AND turn BETWEEN ? AND ? LIMIT ?) AS waiting";
        let (first, last) = turns(queue.lane);
        let query = self.sql(sql).bind(space.as_str()).bind(first).bind(last);
        let waiting: i64 = self.read_value(query.bind(most)).await?.unwrap_or(0);
        Ok(waiting.saturating_add(more) <= most)
    }

    /// The last `source_seq` of each source among the new jobs; none for a source without jobs.
    async fn last_source_seqs<'n>(
        &mut self,
        space: &Space,
        new: &'n [NewJob],
    ) -> Result<HashMap<&'n str, i64>, StoreError> {
        let ids: HashSet<&str> = new
            .iter()
            .filter_map(|new| new.source_id.as_deref())
            .collect();

        let ids: Vec<&str> = ids.into_iter().collect();
        let mut last = HashMap::with_capacity(ids.len());
        if let [id] = ids.as_slice() {
            last.insert(*id, self.next_source_seq(space, id).await? - 1);
            return Ok(last);
        }

        for some in ids.chunks(ROWS) {
            let sql = "SELECT source_id, MAX(source_seq) AS last_seq FROM jobs \
                       WHERE space = ? AND source_id IN (??) GROUP BY source_id";
            let query = self
                .dialect()
                .query_list(sql, some.len())
                .persistent(some.len() <= KEPT_ROWS)
                .bind(space.as_str().to_owned())
                .bind_all(some.iter().map(|id| (*id).to_owned()));

            for (id, seq) in self.read_all::<(String, i64)>(query).await? {
                if let Some(id) = some.iter().find(|known| **known == id) {
                    last.insert(*id, seq);
                }
            }
        }

        Ok(last)
    }

    /// Whether a job of this kind waits or runs in the background of a space.
    pub async fn has_background_job(
        &mut self,
        space: &Space,
        kind: &'static str,
    ) -> Result<bool, StoreError> {
        let (first, last) = turns(Lane::Background);
        let sql = "SELECT id FROM jobs WHERE space = ? AND state IN ('queued', 'running') \
                   AND turn BETWEEN ? AND ? AND kind = ? LIMIT 1";
        let query = self.sql(sql).bind(space.as_str());
        let query = query.bind(first).bind(last).bind(kind);
        Ok(self.fetch_optional(query).await?.is_some())
    }

    /// The position of a new job among those of its source. Jobs committed before are visible on
    /// every engine.
    pub(super) async fn next_source_seq(
        &mut self,
        space: &Space,
        source_id: &str,
    ) -> Result<i64, StoreError> {
        let last = self
            .sql("SELECT MAX(source_seq) AS last_seq FROM jobs WHERE space = ? AND source_id = ?");
        let last: Option<i64> = self
            .read_value(last.bind(space.as_str()).bind(source_id.to_owned()))
            .await?
            .flatten();
        Ok(last.unwrap_or(0) + 1)
    }

    /// The turn of a job that is queued again, in the lane that it had.
    pub(super) async fn next_turn(&mut self, space: &Space, id: &JobId) -> Result<i64, StoreError> {
        let lane = self.lane_of(space, id).await?;
        Ok(self.look_at_queue(space, lane).await?.next_turn())
    }

    async fn lane_of(&mut self, space: &Space, id: &JobId) -> Result<Lane, StoreError> {
        let query = self.sql("SELECT turn FROM jobs WHERE space = ? AND id = ?");
        let query = query.bind(space.as_str()).bind(id.as_str());
        let turn: Option<i64> = self.read_value(query).await?;
        Ok(if turn.is_some_and(|turn| turn >= BACKGROUND) {
            Lane::Background
        } else {
            Lane::Requested
        })
    }

    async fn look_at_queue(&mut self, space: &Space, lane: Lane) -> Result<Queue, StoreError> {
        // One select each, because SQLite uses the index only for a single MIN or MAX.
        let sql = "SELECT @now AS moment, \
                   (SELECT MIN(turn) FROM jobs WHERE space = ? AND state = 'queued' AND turn BETWEEN ? AND ?) AS first_turn, \
                   (SELECT MAX(turn) FROM jobs WHERE space = ? AND state = 'queued' AND turn BETWEEN ? AND ?) AS last_turn, \
                   (SELECT MAX(turn) FROM jobs WHERE space = ? AND state = 'running' AND turn BETWEEN ? AND ?) AS running_turn";
        let (first, last) = turns(lane);
        let query = (0..3).fold(self.sql(sql), |query, _| {
            query.bind(space.as_str()).bind(first).bind(last)
        });

        let found = self.read_first::<Turns>(query).await?;
        let (now, first, last, running) =
            found.ok_or_else(|| broken("a select without a table returned no row"))?;
        Ok(Queue {
            lane,
            now,
            first,
            last,
            running,
        })
    }
}

/// The first and last turn of a lane.
pub(super) fn turns(lane: Lane) -> (i64, i64) {
    match lane {
        Lane::Requested => (0, BACKGROUND - 1),
        Lane::Background => (BACKGROUND, i64::MAX),
    }
}

/// A turn, comparable with those of the other lane.
pub(super) fn moment_of(turn: i64) -> i64 {
    turn % BACKGROUND
}

/// The time, the first and the last waiting turn, and the last running one.
type Turns = (i64, Option<i64>, Option<i64>, Option<i64>);

/// The first and last turn in a lane of a space.
struct Queue {
    lane: Lane,
    now: i64,
    first: Option<i64>,
    last: Option<i64>,
    /// The latest turn that is running.
    running: Option<i64>,
}

impl Queue {
    fn next_turn(&self) -> i64 {
        let earliest = turns(self.lane).0.saturating_add(self.now);
        self.last
            .max(self.running)
            .map_or(earliest, |last| earliest.max(last.saturating_add(TURN)))
    }

    /// How many turns lie between the first and the last waiting job.
    fn span(&self) -> i64 {
        self.last
            .zip(self.first)
            .map_or(0, |(last, first)| (last - first) / TURN)
    }
}

/// A new job, as it is queued.
fn fresh(space: &Space, new: &NewJob, now: Timestamp) -> Job {
    Job {
        space: space.clone(),
        id: JobId::new(),
        kind: new.kind.to_owned(),
        state: JobState::Queued,
        phase: None,
        user_id: new.user_id.clone(),
        source_id: new.source_id.clone(),
        progress: None,
        result: None,
        error: None,
        warnings: Vec::new(),
        attempt: 0,
        max_attempts: new.max_attempts,
        losses: 0,
        fence: 0,
        created_at: now,
        started_at: None,
        finished_at: None,
        run_after: now,
        waiting_since: None,
        waits: 0,
    }
}
