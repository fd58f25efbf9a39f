//! The conversation as a run reads it: the recency window, the pinned summary, and older turns that
//! matter. Nothing is changed.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Serialize;
use utoipa::ToSchema;

use super::WorkbenchError;
use super::eligibility::Pool;
use super::files::InjectedFile;
use super::stage::{Tools, within};
use super::workspace::RunSettings;
use crate::base::clock::Timestamp;
use crate::conversation::ConversationError;
use crate::conversation::episodic::EpisodicInput;
use crate::model::memory::Memory;
use crate::search::SearchError;

/// Maximum characters of a question to the older turns.
const MOST_QUERY_CHARS: usize = 4000;

/// What a run knows of a thread.
#[derive(Debug, Default)]
pub struct History {
    /// The last turns, oldest first.
    pub window: Vec<Memory>,
    pub pinned: Option<Memory>,
    /// Older turns that were selected, best first.
    pub episodes: Vec<Memory>,
    pub items: Vec<HistoryItem>,
    /// Why older turns are missing, if they are.
    pub note: Option<String>,
}

/// A message that a run has considered.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = HistoryItemResponse)]
pub struct HistoryItem {
    pub memory_id: String,
    /// `window` or `episodic`.
    pub layer: String,
    pub role: String,
    pub turn_index: i64,
    /// Its score among the older turns; null in the window.
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
            tools.space,
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
        .map(|memory| item(memory, "window", None, true, "kept: recency window"))
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
    let input = EpisodicInput {
        query: thread.task.chars().take(MOST_QUERY_CHARS).collect(),
        max_tokens: usize::try_from(settings.episodic_tokens).ok(),
        k: Some(settings.k),
    };
    let selecting = async {
        let (session, space) = (tools.session, tools.space);
        let selected = tools
            .conversation
            .episodic(
                session,
                space,
                thread.thread_id,
                thread.user_id,
                &input,
                tools.now,
            )
            .await;
        // An embedder that is down must be recognised as such.
        selected.map_err(|error| match error {
            ConversationError::Search(SearchError::Llm(error)) | ConversationError::Llm(error) => {
                WorkbenchError::Llm(error)
            }
            error => error.into(),
        })
    };

    let episodes = match within(thread.timeout_ms, selecting).await? {
        Ok(episodes) => episodes,
        Err(reason) => {
            history.note = Some(format!("older turns were not selected: {reason}"));
            return Ok(());
        }
    };

    let off = off_memories(tools, pool, episodes.iter().map(|one| &one.memory), files).await?;
    for episode in episodes {
        let memory = &episode.memory;
        let mut reason = episode.reason;
        if off.contains(memory.id.as_str()) {
            reason = "dropped: source file is OFF";
        } else if files
            .iter()
            .any(|file| file.compared.contains(&memory.content))
        {
            reason = "dropped: duplicate of ❖ FILES";
        }

        let kept = reason.starts_with("kept");
        history.items.push(item(
            memory,
            "episodic",
            Some(episode.score()),
            kept,
            reason,
        ));
        if kept {
            history.episodes.push(episode.memory);
        }
    }
    Ok(())
}

/// The memories whose hints point to a source that is off and not injected.
async fn off_memories<'m>(
    tools: &Tools<'_>,
    pool: &Pool,
    memories: impl Iterator<Item = &'m Memory>,
    files: &[InjectedFile],
) -> Result<HashSet<String>, WorkbenchError> {
    let hinted: Vec<&Memory> = memories
        .filter(|memory| memory.file.path.is_some() || memory.file.sha256.is_some())
        .collect();
    if hinted.is_empty() {
        return Ok(HashSet::new());
    }

    let places: Vec<(String, String)> = hinted
        .iter()
        .filter_map(|memory| Some((memory.user_id.clone(), memory.file.path.clone()?)))
        .collect();
    let stored = tools.store.list_sources_at(tools.space, &places).await?;
    let off = stored.iter().filter(|source| !source.eligible);
    let off: HashSet<&str> = off
        .chain(&pool.off)
        .filter(|source| {
            files
                .iter()
                .all(|file| file.source_id != source.id.as_str())
        })
        .map(|source| source.path.as_str())
        .collect();

    let mut hashes = HashSet::new();
    if hinted.iter().any(|memory| memory.file.sha256.is_some()) {
        for source in pool
            .off
            .iter()
            .filter(|source| off.contains(source.path.as_str()))
        {
            let id = source.id.as_str();
            let found = tools
                .sources
                .version_as_of(tools.space, id, None, None)
                .await?;
            hashes.extend(found.map(|version| version.facts.sha256));
        }
    }

    let points_off = |memory: &&&Memory| {
        let by_path = memory.file.path.as_deref();
        let by_hash = memory.file.sha256.as_ref();
        by_path.is_some_and(|path| off.contains(path))
            || by_hash.is_some_and(|hash| hashes.contains(hash))
    };
    let found = hinted.iter().filter(points_off);
    Ok(found.map(|memory| memory.id.to_string()).collect())
}

fn item(memory: &Memory, layer: &str, score: Option<f64>, kept: bool, reason: &str) -> HistoryItem {
    HistoryItem {
        memory_id: memory.id.to_string(),
        layer: layer.to_owned(),
        role: memory.role.clone(),
        turn_index: memory.turn_index,
        score,
        kept,
        reason: reason.to_owned(),
    }
}
