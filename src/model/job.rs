//! A background job and the states it may go through.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use strum::{EnumString, IntoStaticStr, VariantArray};
use utoipa::ToSchema;

use super::batch::Batch;
use super::llm_call::{KeyBudget, LlmCall};
use crate::base::clock::Timestamp;
use crate::base::ids::{JobId, Space};

/// Prefix of the names of steps that record something written, which is gone when the source is.
pub const WRITTEN: &str = "written/";

/// The fence of the first claim of a job that nobody changed before.
pub const FIRST_FENCE: i64 = 1;

/// The phase of a queued job that waits for an unreachable, busy or paused provider.
pub const WAITING_FOR_PROVIDER: &str = "waiting_for_provider";
/// The phase of a job that waits for space in the database.
pub const WAITING_FOR_STORAGE: &str = "waiting_for_storage";
/// The phase of a job that waits for places in the queue for jobs of its own.
pub const WAITING_FOR_QUEUE: &str = "waiting_for_queue";

/// The phase of a job that has ended and whose texts were erased.
pub const ERASED: &str = "erased";

/// The group size of short texts of one request that share model calls: the more of them meet, the
/// fewer calls they need, and they mostly wait.
pub const SHARES_CALLS: i64 = 200;
/// The group size of short texts that come one by one and may share calls while they linger.
pub const LINGERS: i64 = 40;

/// The state of a job. `succeeded`, `failed` and `cancelled` are final. In `awaiting_helper` the
/// job waits for a user to confirm a helper.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    ToSchema,
    IntoStaticStr,
    EnumString,
    VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[schema(as = JobStateName)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum JobState {
    Queued,
    Running,
    /// Waits for input from its user; the kind of job defines which input.
    // The name in the database and in the API, after the only kind that waits for input.
    #[serde(rename = "awaiting_helper")]
    #[strum(serialize = "awaiting_helper")]
    AwaitingInput,
    Succeeded,
    Failed,
    Cancelled,
}

impl JobState {
    /// Whether nothing more happens unless a user requests it.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }

    /// The only table of transitions; the store writes no others.
    pub fn may_become(self, next: Self) -> bool {
        match self {
            Self::Queued => matches!(next, Self::Running | Self::Cancelled),
            Self::Running => next != Self::Running,
            Self::AwaitingInput => matches!(next, Self::Queued | Self::Cancelled),
            Self::Failed | Self::Cancelled => next == Self::Queued,
            Self::Succeeded => false,
        }
    }
}

/// A job as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    pub space: Space,
    pub id: JobId,
    pub kind: String,
    pub state: JobState,
    /// What a running job is doing, or what a queued one waits for.
    pub phase: Option<String>,
    pub user_id: String,
    pub source_id: Option<String>,
    pub progress: Option<Value>,
    pub result: Option<Value>,
    /// The problem document of the last failure.
    pub error: Option<Value>,
    pub warnings: Vec<Value>,
    /// How often it was started and not handed back; a run whose process died does not count.
    pub attempt: i64,
    pub max_attempts: i64,
    /// How many processes died or froze while running it, since it last saved a step.
    pub losses: i64,
    /// Grows with every claim.
    pub fence: i64,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    /// Not run before this time, by the database's clock.
    pub run_after: Timestamp,
    /// Start of the current wait for a provider without progress, by the database's clock.
    pub waiting_since: Option<Timestamp>,
    /// Number of waits since then.
    pub waits: i64,
}

/// A job that this process may run, with its request, which may be long.
#[derive(Debug, Clone)]
pub struct ClaimedJob {
    pub job: Job,
    pub request: Value,
    /// The API key whose daily caps count its calls.
    pub budget: Option<KeyBudget>,
    /// How long it has waited for a provider without progress.
    pub waited: Option<Duration>,
}

impl Job {
    /// The claim under which this row was read.
    pub fn claim(&self) -> Claim {
        Claim {
            space: self.space.clone(),
            id: self.id.clone(),
            fence: self.fence,
        }
    }
}

/// Whose work a job is. Each lane of a space has its own places in the queue and its own order, so
/// that neither keeps the other waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// A caller asked for it.
    Requested,
    /// It follows from something that is stored already, such as the classification of a message.
    Background,
}

/// A job to queue.
#[derive(Debug, Clone)]
pub struct NewJob {
    pub kind: &'static str,
    pub lane: Lane,
    pub user_id: String,
    pub source_id: Option<String>,
    /// The request, as JSON.
    pub request: String,
    pub max_attempts: i64,
    /// How many jobs like this one a worker runs at once: those that take moments, or that share
    /// model calls.
    pub group_size: i64,
}

/// Which jobs of a space a list shows or a request changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobFilter {
    pub state: Option<JobState>,
    pub kind: Option<String>,
    pub source_id: Option<String>,
    /// The code of the job's error.
    pub code: Option<String>,
    pub created: Span,
    pub finished: Span,
}

impl JobFilter {
    /// Whether any job can match. Kinds, ids and codes are ASCII; a database may refuse to compare
    /// them with anything else.
    pub fn can_match(&self) -> bool {
        let named = [&self.kind, &self.source_id, &self.code];
        named
            .into_iter()
            .flatten()
            .all(|text| text.is_ascii() && text.trim() == text)
    }
}

/// A time range: start inclusive, end exclusive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    pub after: Option<Timestamp>,
    pub before: Option<Timestamp>,
}

/// An event of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobEvent {
    /// Counted from 1 within the job.
    pub seq: i64,
    /// `state`, `progress`, `warning` or `error`.
    pub kind: String,
    pub data: Value,
    pub created_at: Timestamp,
}

/// The details of a kind of job, each kind in its own table. The job engine passes them on without
/// reading them.
#[derive(Debug, Clone)]
pub enum Detail {
    Batch(Batch),
}

/// What a running job writes immediately.
#[derive(Debug, Clone, Default)]
pub struct Record {
    /// Finished steps, by name.
    pub steps: Vec<(String, Value)>,
    pub details: Vec<Detail>,
    /// Kind and data of what happened.
    pub events: Vec<(&'static str, Value)>,
    /// What the job was doing until then, in order.
    pub reports: Vec<Report>,
    /// Whether its steps only keep the log in order and are not progress.
    pub without_progress: bool,
    /// All warnings of the job, if there is a new one.
    pub warnings: Option<Vec<Value>>,
}

impl Record {
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
            && self.details.is_empty()
            && self.events.is_empty()
            && self.reports.is_empty()
            && self.warnings.is_none()
    }

    /// Adds what came before it.
    pub fn follow(&mut self, mut earlier: Self) {
        let progress = |record: &Self| !record.steps.is_empty() && !record.without_progress;
        let without_progress = !progress(self) && !progress(&earlier);
        std::mem::swap(self, &mut earlier);

        let later = earlier;
        self.steps.extend(later.steps);
        self.details.extend(later.details);
        self.events.extend(later.events);
        self.reports.extend(later.reports);
        self.without_progress = without_progress;
        self.warnings = later.warnings.or(self.warnings.take());
    }

    pub fn step(name: String, value: Value) -> Self {
        Self {
            steps: vec![(name, value)],
            ..Self::default()
        }
    }
}

/// What is written about a job when it succeeds, and was not written before.
#[derive(Debug, Clone, Default)]
pub struct JobLog {
    /// Kind, data and time of what happened.
    pub events: Vec<(&'static str, Value, Timestamp)>,
    /// Only calls that every chunk was filed by, see [`Batch::is_plain`].
    pub batches: Vec<Batch>,
    /// Free calls of one model, all answered at the first attempt.
    pub calls: Vec<LlmCall>,
}

/// The progress of a job, for watchers.
#[derive(Debug, Clone)]
pub struct Report {
    pub phase: &'static str,
    pub progress: Value,
    pub at: Timestamp,
}

impl Report {
    /// Kind, data and time of its event.
    pub fn event(&self) -> (&'static str, Value, Timestamp) {
        let data = json!({"phase": self.phase, "progress": self.progress});
        ("progress", data, self.at)
    }
}

/// A record with its job and time.
#[derive(Debug, Clone)]
pub struct JobRecord {
    pub claim: Claim,
    pub record: Record,
    pub at: Timestamp,
}

/// A claim on a job: who may write to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Claim {
    pub space: Space,
    pub id: JobId,
    pub fence: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_can_be_formatted_and_parsed() {
        for state in JobState::VARIANTS {
            assert_eq!(state.into_str().parse(), Ok(*state));
        }
        assert!("lost".parse::<JobState>().is_err());
    }

    #[test]
    fn a_final_state_changes_only_by_a_retry() {
        for state in JobState::VARIANTS.iter().filter(|state| state.is_final()) {
            for next in JobState::VARIANTS {
                assert_eq!(
                    state.may_become(*next),
                    *next == JobState::Queued && *state != JobState::Succeeded
                );
            }
        }
    }
}
