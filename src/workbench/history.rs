//! The conversation as a run reads it: the recency window, the pinned summary, and older turns that
//! matter.

use std::collections::HashMap;
use std::sync::Arc;

use memoir_text::framing::entry;
use memoir_text::text::char_count;
use memoir_text::tokens::TokenCounter;
use serde::Serialize;
use utoipa::ToSchema;

use super::WorkbenchError;
use super::conflict::Conflict;
use super::eligibility::Pool;
use super::files::InjectedFile;
use super::older_turns::{self, TurnsOf};
use super::stage::{Tools, within};
use super::workspace::RunSettings;
use crate::base::clock::Timestamp;
use crate::conversation::episodic::EpisodicInput;
use crate::conversation::intent::MAX_QUERY_CHARS;
use crate::model::memory::Memory;

/// Tokens of what stands before a message: its role and, of an older one, its day.
const LABEL_TOKENS: usize = 10;
const OVER_CEILING: &str = "dropped: over the token ceiling";

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
    /// What contradicts a message and counts more than it, by the id of the message.
    pub contradicted: HashMap<String, String>,
}

/// A message of the conversation, kept or dropped.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = HistoryItemResponse)]
pub struct HistoryItem {
    pub memory_id: String,
    /// `window`, `episodic` or `pinned`.
    pub layer: String,
    pub role: String,
    pub turn_index: i64,
    /// The score of an older turn; null in the window.
    pub score: Option<f64>,
    pub kept: bool,
    /// Whether the prompt shows it.
    pub shown: bool,
    pub reason: String,
}

/// Something that was said, and when.
#[derive(Debug, Clone)]
pub struct Statement {
    pub memory_id: String,
    pub text: Arc<str>,
    pub said_at: Timestamp,
    /// Whether the user said it: what a model said does not outrank a source.
    pub by_user: bool,
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
            by_user: memory.role == "user",
        })
        .collect()
    }

    /// The lines of the block in the prompt, oldest first.
    pub fn lines(&self) -> Vec<String> {
        let line = |label: &str, memory: &Memory| {
            let against = self.contradicted.get(memory.id.as_str());
            let against = against.map_or_else(String::new, |by| format!(" ({by})"));
            format!("{label}: {}{against}", entry(&memory.content))
        };
        let mut older: Vec<&Memory> = self.episodes.iter().collect();
        older.sort_by_key(|memory| (memory.created_at, memory.seq));

        let pinned = self.pinned.iter().map(|memory| line("summary", memory));
        let older = older.into_iter().map(|memory| {
            let label = format!("{} (earlier, {})", memory.role, memory.created_at.day());
            line(&label, memory)
        });
        let window = self.window.iter().map(|memory| line(&memory.role, memory));
        pinned.chain(older).chain(window).collect()
    }

    /// Makes the conversation fit: shortens the longest messages of the window and the pinned
    /// summary, and leaves out older turns, worst first, until all together have at most so many
    /// tokens. Older turns keep a quarter.
    pub fn fit(&mut self, most: usize, counter: TokenCounter) {
        let count = |memory: &Memory| counter.count(&entry(&memory.content)) + LABEL_TOKENS;
        let older: usize = self.episodes.iter().map(count).sum();
        self.shorten(most - older.min(most / 4), counter);

        let rest: usize = self.window.iter().chain(&self.pinned).map(count).sum();
        let mut room = most.saturating_sub(rest);
        let fits = self.episodes.iter().take_while(|memory| {
            let fits = room.checked_sub(count(memory));
            room = fits.unwrap_or(0);
            fits.is_some()
        });
        let fits = fits.count();
        for memory in self.episodes.split_off(fits) {
            let id = memory.id.to_string();
            for item in self.items.iter_mut().filter(|item| item.memory_id == id) {
                (item.kept, item.shown) = (false, false);
                OVER_CEILING.clone_into(&mut item.reason);
            }
        }
    }

    fn shorten(&mut self, most: usize, counter: TokenCounter) {
        let count = |memory: &Memory| counter.count(&entry(&memory.content)) + LABEL_TOKENS;
        let all = || self.window.iter().chain(&self.pinned);
        let mut sizes: Vec<usize> = all().map(count).collect();
        if sizes.iter().sum::<usize>() <= most {
            return;
        }

        // The shorter ones stay whole; the others share what they leave.
        sizes.sort_unstable();
        let (mut left, mut each) = (most, 0);
        for (place, size) in sizes.iter().enumerate() {
            each = left / (sizes.len() - place);
            if *size > each {
                break;
            }
            left -= size;
        }

        for memory in self.window.iter_mut().chain(&mut self.pinned) {
            if count(memory) <= each {
                continue;
            }
            let room = each.saturating_sub(LABEL_TOKENS);
            memory.content = shortened(&memory.content, room, counter);
            let tokens = counter.count(&entry(&memory.content));
            let id = memory.id.to_string();
            for item in self.items.iter_mut().filter(|item| item.memory_id == id) {
                item.reason = format!("{}, shortened to {tokens} tokens", item.reason);
            }
        }
    }

    /// The older turns that were found for the task: what keeps its place whatever the task is does
    /// not count as used.
    pub fn reused(&self) -> Vec<String> {
        let each = self.episodes.iter();
        each.map(|memory| memory.id.to_string()).collect()
    }

    /// Notes what contradicts a message and counts more; the first is enough.
    pub fn mark(&mut self, memory_id: &str, by: &str) {
        if self.contradicted.contains_key(memory_id) {
            return;
        }

        for item in self
            .items
            .iter_mut()
            .filter(|item| item.memory_id == memory_id)
        {
            item.reason = format!("{}, {by}", item.reason);
        }
        self.contradicted
            .insert(memory_id.to_owned(), by.to_owned());
    }
}

/// The beginning and the end of a text, with at most so many tokens.
fn shortened(text: &str, most: usize, counter: TokenCounter) -> String {
    let mut room = most;
    loop {
        let head = &text[..counter.prefix(text, room * 3 / 4)];
        // A head of long words may already reach into the last quarter.
        let mut from = (text.len() - head.len() / 4).max(head.len());
        while !text.is_char_boundary(from) {
            from += 1;
        }
        let (tail, left_out) = (&text[from..], char_count(&text[head.len()..from]));
        let (head, tail) = (head.trim_end(), tail.trim_start());
        let whole = format!("{head} [… {left_out} characters left out …] {tail}");
        if room == 0 || counter.count(&entry(&whole)) <= most {
            return whole;
        }
        room = room * 4 / 5;
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
    /// Whether the prompt shows the conversation.
    pub shown: bool,
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
    let shown = thread.shown;
    let pinned = history.pinned.iter();
    let pinned = pinned.map(|memory| (memory, "pinned", "kept: pinned summary"));
    let window = history.window.iter();
    let window = window.map(|memory| (memory, "window", "kept: recency window"));
    let all = pinned.chain(window);
    history.items = all
        .map(|(memory, layer, reason)| HistoryItem {
            shown,
            ..item(memory, layer, None, true, reason.to_owned())
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

    // The pinned summary stands in the prompt already.
    let pinned = history.pinned.as_ref().map(|one| one.id.clone());
    let mut scored = scored;
    scored.retain(|one| Some(&one.found.id) != pinned.as_ref());
    let older = older_turns::choose(tools, &turns, scored, pool, files).await?;
    history.conflicts = older.conflicts;
    for episode in older.episodes {
        let score = Some(episode.scores.total());
        let (kept, reason) = (episode.is_kept(), episode.decision.text());
        let memory = episode.found;
        history.items.push(HistoryItem {
            shown: kept && thread.shown,
            ..item(&memory, "episodic", score, kept, reason)
        });
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
        shown: false,
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_long_words_before_short_ones_is_shortened() {
        let counter = TokenCounter::for_model(None);
        let text = format!("{}{}", "lighthouse ".repeat(2000), "1,".repeat(1000));
        for most in [0, 10, 500, 3000, 3900] {
            let short = shortened(&text, most, counter);
            assert!(short.contains("characters left out"), "{most}");
            assert!(most < 20 || counter.count(&short) <= most, "{most}");
        }
    }
}
