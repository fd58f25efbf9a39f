//! The episodic layer: older turns that matter for a question, best first, each with the parts of
//! its score and a reason.

use memoir_index::{Hit, Kind};
use memoir_policy::steps::deduplicate;
use memoir_text::tokens::TokenCounter;
use serde::Serialize;
use utoipa::ToSchema;

use super::intent::check_query;
use super::lexicon::{mentions, other_names};
use super::window::DEFAULT_TURNS;
use super::{Conversation, ConversationError};
use crate::base::clock::Timestamp;
use crate::llm::Session;
use crate::model::memory::{DEFAULT_IMPORTANCE, Memory};
use crate::model::thread::Thread;
use crate::retrieval::Item;
use crate::retrieval::fit::{Budget, fit};
use crate::retrieval::select::{drop_each, drop_repeated};

/// Maximum tokens of the selection, unless the request sets another.
pub const DEFAULT_TOKENS: usize = 800;
/// Maximum items that are compared.
const CANDIDATES: usize = 200;
/// The weights of the parts.
const SEMANTIC: f64 = 0.45;
const LEXICON: f64 = 0.20;
const RECENCY: f64 = 0.20;
const IMPORTANCE: f64 = 0.15;
/// Turns after which recency has fallen to 37 %.
const FADING_TURNS: f64 = 20.0;
/// Days after which the recency of another thread has fallen to a half.
const FADING_DAYS: f64 = 30.0;
/// An item whose scores for meaning and lexicon are below this is off topic.
const ON_TOPIC: f64 = 0.15;
/// After a pause of this many days, items older than this many days score less.
const GAP_DAYS: i64 = 7;
const OLD_DAYS: i64 = 30;
const DAMPING: f64 = 0.9;
/// The step that selects.
const STEP: &str = "episodic";
const DAY_MICROS: i64 = 86_400_000_000;

/// The question for which older turns are selected.
#[derive(Debug, Clone, Default)]
pub struct EpisodicInput {
    pub query: String,
    /// Number of last turns to leave out, because they are in the window.
    pub k: Option<i64>,
}

/// The scores of an older turn.
#[derive(Debug, Clone)]
pub struct EpisodeScores {
    pub turn_distance: i64,
    pub age_seconds: i64,
    pub parts: EpisodeParts,
    pub tokens: usize,
}

/// The weighted parts of a score.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[schema(as = EpisodeScorePartsResponse)]
pub struct EpisodeParts {
    /// By meaning.
    pub semantic: f64,
    /// By the words of the question and their aliases in the lexicon.
    pub lexicon: f64,
    /// By the number of turns since then.
    pub recency: f64,
    /// By importance.
    pub importance: f64,
}

/// An older turn.
pub type Episode = Item<Memory, EpisodeScores>;

impl EpisodeScores {
    pub fn total(&self) -> f64 {
        let parts = &self.parts;
        parts.semantic + parts.lexicon + parts.recency + parts.importance
    }
}

impl Conversation {
    /// The older turns with their scores, best first; [`choose`] decides which are kept.
    ///
    /// # Errors
    /// [`ConversationError::Invalid`], [`ConversationError::NotFound`], the model's, or the store's.
    pub async fn score_episodes(
        &self,
        session: &Session,
        thread_id: &str,
        user_id: Option<&str>,
        input: &EpisodicInput,
        now: Timestamp,
    ) -> Result<Vec<Episode>, ConversationError> {
        check_query(&input.query)?;
        let thread = self.thread(session.call(), thread_id, user_id).await?;
        let lexicon = self.lexicon(session.call()).await?;
        let others = other_names(&input.query, &lexicon);
        let query = std::iter::once(input.query.clone()).chain(others.clone());
        let query = query.collect::<Vec<_>>().join(" ");
        let asked = (query.as_str(), Kind::Semantic, CANDIDATES);
        let found = self
            .retrieval
            .find_current_memories(session, &thread.user_id, asked)
            .await?;
        let first = thread.turn_count - input.k.unwrap_or(DEFAULT_TURNS) + 1;
        let is_older = |memory: &Memory| {
            let in_window =
                memory.thread_id.as_ref() == Some(&thread.id) && memory.turn_index >= first;
            memory.role != "system" && !in_window
        };

        let gap = thread
            .last_message_at
            .map_or(0, |last| now.as_micros() - last.as_micros());
        let older = found.into_iter().filter(|item| is_older(&item.found));
        let each = older.map(|item| {
            item.scored(|memory, hit: Hit| {
                let cosine = hit.score.max(0.0);
                let named = others
                    .iter()
                    .filter(|name| mentions(&memory.content, name))
                    .count();
                let age = now.as_micros() - memory.created_at.as_micros();
                let distance = distance(memory, &thread);
                let damped = gap > GAP_DAYS * DAY_MICROS && age > OLD_DAYS * DAY_MICROS;
                let fading = fading(memory, &thread, distance, age);
                let recency = fading * if damped { DAMPING } else { 1.0 };
                EpisodeScores {
                    parts: EpisodeParts {
                        semantic: SEMANTIC * cosine,
                        lexicon: LEXICON * f64::from(u8::from(named > 0)),
                        recency: RECENCY * recency,
                        importance: IMPORTANCE * memory.importance().unwrap_or(DEFAULT_IMPORTANCE),
                    },
                    tokens: TokenCounter::for_model(None).count(&memory.content),
                    turn_distance: distance,
                    age_seconds: age / 1_000_000,
                }
            })
        });

        let mut episodes: Vec<Episode> = each.collect();
        episodes.sort_by(|a, b| {
            let by_score = b.scores.total().total_cmp(&a.scores.total());
            by_score.then_with(|| nearness(&b.found, &thread).cmp(&nearness(&a.found, &thread)))
        });
        Ok(episodes)
    }
}

/// Number of turns since a memory; those of other threads count as older than the whole current
/// thread.
fn distance(memory: &Memory, thread: &Thread) -> i64 {
    if memory.thread_id.as_ref() == Some(&thread.id) {
        thread.turn_count - memory.turn_index
    } else {
        thread.turn_count + 1
    }
}

/// How recent a memory is, from 1 down to 0: by its turns in the current thread. Turns of other
/// threads cannot be counted together, so they fade by their age too.
#[expect(
    clippy::cast_precision_loss,
    reason = "a few thousand turns, and microseconds of a few decades"
)]
fn fading(memory: &Memory, thread: &Thread, distance: i64, age: i64) -> f64 {
    let by_turns = (-(distance as f64) / FADING_TURNS).exp();
    if memory.thread_id.as_ref() == Some(&thread.id) {
        return by_turns;
    }

    let days = age.max(0) as f64 / DAY_MICROS as f64;
    by_turns / (1.0 + days / FADING_DAYS)
}

/// Sorts memories with the same score: those of the current thread are nearer than all others and
/// go by their places, which an import with odd times keeps; the others go by time.
fn nearness(memory: &Memory, thread: &Thread) -> (bool, i64, i64) {
    let here = memory.thread_id.as_ref() == Some(&thread.id);
    let time = if here {
        0
    } else {
        memory.created_at.as_micros()
    };

    (here, time, memory.seq)
}

/// Keeps the best of those that are left and fit; a larger budget adds items and removes none. What
/// was dropped before takes no room.
pub fn choose(episodes: &mut [Episode], max_tokens: usize) {
    drop_each(episodes, STEP, |one| {
        let parts = &one.scores.parts;
        let on_topic = parts.semantic / SEMANTIC + parts.lexicon / LEXICON >= ON_TOPIC;
        (!on_topic && !one.found.important).then_some("off topic")
    });
    drop_repeated(episodes, STEP, "duplicate", |memory| {
        (deduplicate::key(&memory.content), memory.id.to_string())
    });
    let budget = Budget::in_order(max_tokens);
    fit(episodes, STEP, "over budget", budget, |one| {
        one.scores.tokens
    });

    for episode in episodes.iter_mut().filter(|one| one.is_kept()) {
        let named = episode.scores.parts.lexicon > 0.0;
        let reason = match (named, episode.found.important) {
            (true, _) => "lexicon match",
            (false, true) => "marked important",
            (false, false) => "strong semantic match",
        };
        episode.keep(STEP, reason);
    }
}
