//! Scores memories by how well they match and how recent they are. Pure: no database, no clock.

use std::collections::HashSet;

use serde::Serialize;
use utoipa::ToSchema;

use super::intent::Intent;
use super::stages::{RelevanceParts, RetrievalSource};
use crate::base::clock::Timestamp;
use crate::model::memory::{DEFAULT_IMPORTANCE, Memory, Tier};
use crate::retrieval::Item;

/// The highest score.
pub const MAX_SCORE: f64 = 100.0;
/// The weight of a search in a score; the score of the stages has the rest.
pub const SEARCH_WEIGHT: f64 = 0.6;
/// Hours until recency has decayed, and what stays of it.
const DECAY_HOURS: f64 = 720.0;
const MIN_RECENCY: f64 = 0.2;

/// The parts of a score. With `rank: auto`, it is `search` plus `bonus`, and the other parts are 0.
/// With `rank: staged`, it is the sum of `topic`, `entity`, `recency` and `importance`, multiplied by
/// both factors; with `rank: search`, it is 40 % of that plus `search`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
#[schema(as = ContextScorePartsResponse)]
pub struct ScoreParts {
    /// 0 to 30, by shared topics.
    pub topic: f64,
    /// 0 to 25, by shared entities.
    pub entity: f64,
    /// 0 to 20; falls with age.
    pub recency: f64,
    /// 0 to 15.
    pub importance: f64,
    /// 1.3 in the current thread, 1.0 in other threads, 0.9 in the last stage.
    pub source_factor: f64,
    /// By age: 1.2 up to a day, 1.0 up to 30 days, 0.9 beyond.
    pub tier_factor: f64,
    /// By relevance to the query: 0 to 100 with `rank: auto`, 0 to 60 with `rank: search`. Null with
    /// `rank: staged`.
    pub search: Option<f64>,
    /// With `rank: auto`: what shared topics and entities, the current thread, and the importance
    /// of the memory add; enough to order memories that match about equally well.
    pub bonus: Option<f64>,
}

impl ScoreParts {
    /// Of `rank: auto`.
    pub fn of_auto(search: f64, bonus: f64) -> Self {
        Self {
            topic: 0.0,
            entity: 0.0,
            recency: 0.0,
            importance: 0.0,
            source_factor: 1.0,
            tier_factor: 1.0,
            search: Some(search),
            bonus: Some(bonus),
        }
    }

    fn score(&self) -> f64 {
        let sum = self.topic + self.entity + self.recency + self.importance;
        let own = (sum * self.source_factor * self.tier_factor).min(MAX_SCORE);
        self.search
            .map_or(own, |search| search + (1.0 - SEARCH_WEIGHT) * own)
    }
}

/// How a finder came to a memory.
#[derive(Debug, Clone, Copy)]
pub struct FoundBy {
    pub source: RetrievalSource,
    /// The score of its stage, or the one that the stage of other threads would give it; `None` in
    /// the last stage, which ranks by importance.
    pub relevance: Option<RelevanceParts>,
    /// The part of the search in its score, if a search found it.
    pub search: Option<f64>,
}

/// Whether a memory keeps its place whatever the question is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lasting {
    No,
    /// A fact; if nothing was found, only one that the question has to do with.
    WhenRelated,
    /// A preference, or what somebody pinned.
    Always,
}

impl Lasting {
    pub fn of(memory: &Memory) -> Self {
        if memory.pinned || memory.is_preference() {
            Self::Always
        } else if memory.is_lasting() {
            Self::WhenRelated
        } else {
            Self::No
        }
    }
}

/// The scores of a memory in a context.
#[derive(Debug, Clone)]
pub struct ContextScores {
    pub source: RetrievalSource,
    pub relevance: Option<RelevanceParts>,
    pub parts: ScoreParts,
    pub score: f64,
    pub thread_title: Option<String>,
    /// With `rank: auto`: whether the question has to do with it, as far as the search can tell.
    pub related: bool,
    /// With `rank: auto`: whether another memory says otherwise and was said later.
    pub earlier: bool,
    /// A message lasts as what it says does.
    pub lasting: Lasting,
}

impl ContextScores {
    /// Of a lasting memory that no search found.
    pub fn unscored(memory: &Memory) -> Self {
        Self {
            source: RetrievalSource::Expansion,
            relevance: None,
            parts: ScoreParts::of_auto(0.0, 0.0),
            score: 0.0,
            thread_title: None,
            related: false,
            earlier: false,
            lasting: Lasting::of(memory),
        }
    }
}

/// A memory that was found for a context.
pub type ContextItem = Item<Memory, ContextScores>;

/// Scores memories; best first, equal ones in the order of their finder.
pub fn score(
    found: Vec<Item<Memory, FoundBy>>,
    intent: &Intent,
    now: Timestamp,
) -> Vec<ContextItem> {
    let score = |memory: &Memory, by: FoundBy| {
        let parts = parts(memory, by, intent, now);
        ContextScores {
            source: by.source,
            relevance: by.relevance,
            score: parts.score(),
            parts,
            thread_title: None,
            related: true,
            earlier: false,
            lasting: Lasting::of(memory),
        }
    };
    let mut items: Vec<ContextItem> = found.into_iter().map(|item| item.scored(score)).collect();
    items.sort_by(|a, b| b.scores.score.total_cmp(&a.scores.score));
    items
}

/// The parts of one memory's score.
fn parts(memory: &Memory, by: FoundBy, intent: &Intent, now: Timestamp) -> ScoreParts {
    let topics = shared(memory.labels.topics.iter(), intent.topics.iter());
    let own = memory.labels.entities.iter().map(|entity| &entity.value);
    let entities = shared(own, intent.entities.iter().map(|entity| &entity.value));

    ScoreParts {
        topic: topics * 30.0,
        entity: entities * 25.0,
        recency: (1.0 - hours(memory, now) / DECAY_HOURS).max(MIN_RECENCY) * 20.0,
        importance: memory.importance().unwrap_or(DEFAULT_IMPORTANCE) * 15.0,
        source_factor: match by.source {
            RetrievalSource::CurrentThread => 1.3,
            RetrievalSource::CrossThread => 1.0,
            RetrievalSource::Expansion => 0.9,
        },
        tier_factor: match memory.tier(now) {
            Tier::Short => 1.2,
            Tier::Mid => 1.0,
            Tier::Long => 0.9,
        },
        search: by.search,
        bonus: None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of a few decades")]
fn hours(memory: &Memory, now: Timestamp) -> f64 {
    (now.as_micros() - memory.created_at.as_micros()) as f64 / 3_600_000_000.0
}

/// The share of the wanted terms that a memory has.
fn shared<'a>(
    own: impl Iterator<Item = &'a String>,
    wanted: impl Iterator<Item = &'a String>,
) -> f64 {
    let own: HashSet<&String> = own.collect();
    let wanted: HashSet<&String> = wanted.collect();
    if own.is_empty() || wanted.is_empty() {
        return 0.0;
    }

    #[expect(clippy::cast_precision_loss, reason = "a few entries")]
    let share = own.intersection(&wanted).count() as f64 / wanted.len() as f64;
    share
}
