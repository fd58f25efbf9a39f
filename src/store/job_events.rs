//! The events of a job. Rows of `job_events` hold most of them; the first ones and those of a
//! finished job follow from its row.
//!
//! The first event of every job is the state `queued`. If the first claim of a job is also its
//! first change, `running` is the second. Neither has a row, and rows are numbered after them. The
//! last events of a job that has succeeded are in its log (`job_log`). If logs are not kept
//! (`audit.persist`), a job that has ended has neither: its last state follows from its row and has
//! the time as its number, which is higher than any before it.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::dialect::KEPT_ROWS;
use super::job_details::ROWS;
use super::jobs::read_json;
use super::{Store, StoreError, Tx, row_limit};
use crate::base::clock::Timestamp;
use crate::base::ids::{JobId, Space};
use crate::model::job::{Claim, Job, JobEvent, JobState};

/// The number of the last event after the first claim of a job that nobody changed before.
pub(super) const AFTER_START: i64 = RUNNING;
/// The numbers of the first two states.
const QUEUED: i64 = 1;
const RUNNING: i64 = 2;

/// The job, kind, data and time of an event.
pub(super) type Event<'e> = (&'e Claim, &'e str, String, Timestamp);

impl Store {
    /// Events after `seq`, in order.
    pub async fn list_job_events(
        &self,
        space: &Space,
        id: &JobId,
        after: i64,
        limit: usize,
    ) -> Result<Vec<JobEvent>, StoreError> {
        // One statement, so that rows and states belong to the same moment.
        let sql = "SELECT j.state, j.created_at AS queued_at, j.started_at, j.finished_at, (SELECT MAX(l.seq) \
                   FROM job_events l WHERE l.space = j.space AND l.job_id = j.id) AS last_seq, \
                   e.seq, e.kind, e.data_json, e.created_at FROM jobs j LEFT JOIN job_events e ON e.space = j.space AND e.job_id = j.id AND e.seq > ? \
                   WHERE j.space = ? AND j.id = ? ORDER BY e.seq LIMIT ?";
        self.retry("list_job_events", || async {
            let query = self
                .sql(sql)
                .bind(after)
                .bind(space.as_str())
                .bind(id.as_str());

            let rows = self.fetch_all(query.bind(row_limit(limit))).await?;
            let Some(first) = rows.first() else {
                return Ok(Vec::new());
            };

            let stored = rows.iter().filter_map(|row| read_event(row).transpose());
            let stored = stored.collect::<Result<Vec<_>, StoreError>>()?;
            let stored_count = stored.len();
            let mut events = first_states(first, &stored)?;
            events.extend(stored);

            let state: String = first.try_get("state")?;
            let mut log = None;
            if stored_count < limit && state == JobState::Succeeded.into_str() {
                log = self.find_job_log(space, id).await?;
                events.extend(log.iter().flat_map(super::job_log::StoredLog::events));
            }

            if log.is_none() {
                events.extend(last_state(first)?);
            }

            events.retain(|event| event.seq > after);
            events.truncate(limit);
            Ok(events)
        })
        .await
    }

    /// The last events of one kind other than `state`, oldest first.
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

            let rows = self.fetch_all(query).await?;
            let stored = rows.iter().rev();
            let stored = stored.filter_map(|row| read_event(row).transpose());
            let mut events = stored.collect::<Result<Vec<_>, StoreError>>()?;

            let log = self.find_job_log(space, id).await?;
            let logged = log.iter().flat_map(super::job_log::StoredLog::events);
            events.extend(logged.filter(|event| event.kind == kind));

            let most = usize::try_from(most).unwrap_or(usize::MAX);
            Ok(events.split_off(events.len().saturating_sub(most)))
        })
        .await
    }
}

impl Tx {
    /// Appends events to jobs that this transaction holds, in the given order.
    pub(super) async fn add_job_events(&mut self, events: &[Event<'_>]) -> Result<(), StoreError> {
        for some in events.chunks(ROWS) {
            let claims: Vec<&Claim> = some.iter().map(|(claim, ..)| *claim).collect();
            let mut last = self.last_events(&claims).await?;
            let sql = "INSERT INTO job_events (space, job_id, seq, kind, data_json, created_at) VALUES (?, ?, ?, ?, ?, ?)";
            let mut insert = self.dialect().insert_rows_if_absent(sql, some.len());

            for (claim, kind, data, at) in some {
                let (space, id) = (
                    claim.space.as_str().to_owned(),
                    claim.id.as_str().to_owned(),
                );

                let seq = last.entry((space.clone(), id.clone())).or_insert(QUEUED);
                *seq += 1;
                insert = insert
                    .bind(space)
                    .bind(id)
                    .bind(*seq)
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

    /// The number of the last event of a job.
    pub(super) async fn last_event(&mut self, claim: &Claim) -> Result<i64, StoreError> {
        let last = self.last_events(&[claim]).await?;
        Ok(last.into_values().next().unwrap_or(QUEUED))
    }

    /// The number of the last event of each job.
    async fn last_events(
        &mut self,
        claims: &[&Claim],
    ) -> Result<HashMap<(String, String), i64>, StoreError> {
        let jobs: HashSet<(&str, &str)> = claims
            .iter()
            .map(|claim| (claim.space.as_str(), claim.id.as_str()))
            .collect();

        let each = vec!["(j.space = ? AND j.id = ?)"; jobs.len().max(1)].join(" OR ");
        let sql = format!(
            "SELECT j.space, j.id, j.started_at, (SELECT MAX(e.seq) FROM job_events e \
             WHERE e.space = j.space AND e.job_id = j.id) AS last_seq FROM jobs j WHERE {each}"
        );
        let mut query = self.composed(&sql).persistent(jobs.len() <= KEPT_ROWS);

        for (space, id) in jobs {
            query = query.bind(space.to_owned()).bind(id.to_owned());
        }

        let rows = self.read_all::<(String, String, Option<i64>, Option<i64>)>(query);
        let last = rows.await?.into_iter().map(|(space, id, started, last)| {
            let without_rows = if started.is_some() { RUNNING } else { QUEUED };
            ((space, id), last.unwrap_or(without_rows))
        });
        Ok(last.collect())
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
        self.add_job_event_after(None, space, id, (kind, data), now)
            .await
    }

    /// Appends an event; `last` is the number of the last one if that has no row.
    async fn add_job_event_after(
        &mut self,
        last: Option<i64>,
        space: &Space,
        id: &JobId,
        (kind, data): (&str, &Value),
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let insert = "INSERT INTO job_events (space, job_id, seq, kind, data_json, created_at) \
                      SELECT j.space, j.id, COALESCE((SELECT MAX(e.seq) FROM job_events e \
                      WHERE e.space = j.space AND e.job_id = j.id), ?, \
                      CASE WHEN j.started_at IS NULL THEN 1 ELSE 2 END) + 1, ?, ?, ? \
                      FROM jobs j WHERE j.space = ? AND j.id = ?";

        let insert = self
            .sql(insert)
            .bind(last)
            .bind(kind)
            .bind(data.to_string())
            .bind(now.as_micros())
            .bind(space.as_str())
            .bind(id.as_str());
        match self.insert(insert).await? {
            Some(_) => Ok(()),
            None => Err(StoreError::Contended {
                cause: "two events at once".to_owned(),
            }),
        }
    }

    pub(super) async fn add_state_event(
        &mut self,
        space: &Space,
        id: &JobId,
        state: JobState,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.add_job_event(space, id, "state", &state_data(state), now)
            .await
    }

    /// Records that a job that had ended is queued again.
    pub(super) async fn add_requeued_event(
        &mut self,
        job: &Job,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let last = job.finished_at.map(Timestamp::as_micros);
        let event = ("state", &state_data(JobState::Queued));
        self.add_job_event_after(last, &job.space, &job.id, event, now)
            .await
    }

    /// Appends this state to jobs that this transaction holds.
    pub(super) async fn add_state_events(
        &mut self,
        claims: &[Claim],
        state: JobState,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let data = state_data(state).to_string();
        let events: Vec<Event<'_>> = claims
            .iter()
            .map(|claim| (claim, "state", data.clone(), now))
            .collect();
        self.add_job_events(&events).await
    }
}

fn state_data(state: JobState) -> Value {
    json!({"state": state.into_str()})
}

/// The first states, which follow from the row of the job; `stored` begins with its first event
/// after a number.
fn first_states(job: &AnyRow, stored: &[JobEvent]) -> Result<Vec<JobEvent>, StoreError> {
    let event = |seq, state, created_at| JobEvent {
        seq,
        kind: "state".to_owned(),
        data: state_data(state),
        created_at: Timestamp::from_micros(created_at),
    };

    let queued_at: i64 = job.try_get("queued_at")?;
    let started_at: Option<i64> = job.try_get("started_at")?;
    let mut states = vec![event(QUEUED, JobState::Queued, queued_at)];
    let has_row = stored.first().is_some_and(|first| first.seq == RUNNING);
    if let (Some(started_at), false) = (started_at, has_row) {
        states.push(event(RUNNING, JobState::Running, started_at));
    }

    Ok(states)
}

/// The last state of a job whose events were deleted when it ended.
fn last_state(job: &AnyRow) -> Result<Option<JobEvent>, StoreError> {
    let last: Option<i64> = job.try_get("last_seq")?;
    let state: String = job.try_get("state")?;
    let finished_at: Option<i64> = job.try_get("finished_at")?;
    Ok(match (state.parse::<JobState>(), finished_at, last) {
        (Ok(state), Some(finished_at), None) if state.is_final() => Some(JobEvent {
            seq: finished_at,
            kind: "state".to_owned(),
            data: state_data(state),
            created_at: Timestamp::from_micros(finished_at),
        }),
        _ => None,
    })
}

/// `None` for a job without rows.
fn read_event(row: &AnyRow) -> Result<Option<JobEvent>, StoreError> {
    let Some(seq) = row.try_get::<Option<i64>, _>("seq")? else {
        return Ok(None);
    };

    Ok(Some(JobEvent {
        seq,
        kind: row.try_get("kind")?,
        data: read_json(row, "data_json")?.unwrap_or_default(),
        created_at: Timestamp::from_micros(row.try_get("created_at")?),
    }))
}
