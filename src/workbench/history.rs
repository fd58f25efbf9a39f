//! The conversation as a run reads it: the recency window, the pinned summary, and older turns that
//! matter. Nothing is changed.

use std::sync::Arc;

use serde::Serialize;
use utoipa::ToSchema;

use super::WorkbenchError;
use super::eligibility::Pool;
use super::entailment::Conflict;
use super::files::InjectedFile;
use super::older_turns::{self, TurnsOf};
use super::stage::{Tools, within};
use super::workspace::RunSettings;
use crate::base::clock::Timestamp;
use crate::conversation::episodic::EpisodicInput;
use crate::model::memory::Memory;

/// Maximum characters of a question to the older turns.
const MAX_QUERY_CHARS: usize = 4000;

/// The part of a thread that a run reads.
#[derive(Debug, Default)]
pub struct History {
    /// The last turns, oldest first.
    pub window: Vec<Memory>,
    pub pinned: Option<Memory>,
    /// Older turns that were selected, best first.
    pub episodes: Vec<Memory>,
    pub items: Vec<HistoryItem>,
    /// Older turns that contradict a file, and which counts.
    pub conflicts: Vec<Conflict>,
    /// Why older turns are missing, if they are.
    pub note: Option<String>,
}

/// A message of the conversation, kept or dropped.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = HistoryItemResponse)]
pub struct HistoryItem {
    pub memory_id: String,
    /// `window` or `episodic`.
    pub layer: String,
    pub role: String,
    pub turn_index: i64,
    /// The score of an older turn; null in the window.
    pub score: Option<f64>,
    pub kept: bool,
    pub reason: String,
}

/// Something that was said, and when.
#[derive(Debug, Clone)]
pub struct Statement {
    pub memory_id: String,
    pub text: Arc<str>,
    pub said_at: Timestamp,
}

impl History {
    /// Role and text of messages, for a frame.
    pub fn spoken(messages: &[Memory]) -> Vec<(String, Arc<str>)> {
        let each = messages.iter();
        each.map(|one| (one.role.clone(), one.content.as_str().into()))
            .collect()
    }

    /// What may contradict a chunk: selected older turns, then the window.
    pub fn statements(&self) -> Vec<Statement> {
        let all = self.episodes.iter().chain(&self.window);
        all.map(|memory| Statement {
            memory_id: memory.id.to_string(),
            text: memory.content.as_str().into(),
            said_at: memory.created_at,
        })
        .collect()
    }
}

/// Which conversation to read.
pub struct ThreadOf<'a> {
    pub thread_id: &'a str,
    pub user_id: Option<&'a str>,
    pub task: &'a str,
    /// With locked files, older turns are not selected.
    pub locked: bool,
    pub timeout_ms: u64,
}

/// Reads the layers of a thread.
///
/// # Errors
/// The thread is not found, or the store's.
pub async fn read(
    tools: &Tools<'_>,
    thread: &ThreadOf<'_>,
    settings: &RunSettings,
    pool: &Pool,
    files: &[InjectedFile],
) -> Result<History, WorkbenchError> {
    let window = tools
        .conversation
        .window(
            tools.call(),
            thread.thread_id,
            thread.user_id,
            Some(settings.k),
        )
        .await?;

    let mut history = History {
        window: window
            .turns
            .into_iter()
            .flat_map(|(_, turn)| turn)
            .collect(),
        pinned: window.pinned,
        ..History::default()
    };
    history.items = history
        .window
        .iter()
        .map(|memory| {
            item(
                memory,
                "window",
                None,
                true,
                "kept: recency window".to_owned(),
            )
        })
        .collect();

    if !thread.locked {
        select(tools, thread, settings, pool, files, &mut history).await?;
    }
    Ok(history)
}

/// Adds the older turns that matter.
async fn select(
    tools: &Tools<'_>,
    thread: &ThreadOf<'_>,
    settings: &RunSettings,
    pool: &Pool,
    files: &[InjectedFile],
    history: &mut History,
) -> Result<(), WorkbenchError> {
    let turns = TurnsOf {
        thread_id: thread.thread_id,
        user_id: thread.user_id,
        input: EpisodicInput {
            query: thread.task.chars().take(MAX_QUERY_CHARS).collect(),
            k: Some(settings.k),
        },
        max_tokens: usize::try_from(settings.episodic_tokens).ok(),
    };
    let scoring = older_turns::score(tools, &turns);
    let scored = match within(thread.timeout_ms, scoring).await? {
        Ok(scored) => scored,
        Err(reason) => {
            history.note = Some(format!("older turns were not selected: {reason}"));
            return Ok(());
        }
    };

    let older = older_turns::choose(tools, &turns, scored, pool, files).await?;
    history.conflicts = older.conflicts;
    for episode in older.episodes {
        let score = Some(episode.scores.total());
        let (kept, reason) = (episode.is_kept(), episode.decision.text());
        let memory = episode.found;
        history
            .items
            .push(item(&memory, "episodic", score, kept, reason));
        if kept {
            history.episodes.push(memory);
        }
    }
    Ok(())
}

fn item(
    memory: &Memory,
    layer: &str,
    score: Option<f64>,
    kept: bool,
    reason: String,
) -> HistoryItem {
    HistoryItem {
        memory_id: memory.id.to_string(),
        layer: layer.to_owned(),
        role: memory.role.clone(),
        turn_index: memory.turn_index,
        score,
        kept,
        reason,
    }
}
