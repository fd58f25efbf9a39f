//! Scores memories by how well they match and how recent they are. Pure: no database, no clock.

use std::collections::HashSet;

use super::intent::Intent;
use super::stages::{RelevanceParts, RetrievalSource, Staged};
use crate::base::clock::Timestamp;
use crate::model::memory::{DEFAULT_IMPORTANCE, Memory, Tier};

/// The highest score.
const MAX_SCORE: f64 = 100.0;
/// Hours until recency has decayed, and what stays of it.
const DECAY_HOURS: f64 = 720.0;
const MIN_RECENCY: f64 = 0.2;

/// The parts of a score, before its factors.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ScoreParts {
    pub topic: f64,
    pub entity: f64,
    pub recency: f64,
    pub importance: f64,
    pub source_factor: f64,
    pub tier_factor: f64,
    /// The part of the search, if there was one.
    pub search: Option<f64>,
}

impl ScoreParts {
    pub fn total(&self) -> f64 {
        let sum = self.topic + self.entity + self.recency + self.importance;
        (sum * self.source_factor * self.tier_factor).min(MAX_SCORE)
    }
}

/// A memory with its score.
#[derive(Debug, Clone)]
pub struct Scored {
    pub memory: Memory,
    pub source: RetrievalSource,
    pub relevance: Option<RelevanceParts>,
    pub parts: ScoreParts,
    pub score: f64,
    pub thread_title: Option<String>,
}

/// Scores memories; best first, then oldest first.
pub fn score(found: Vec<Staged>, intent: &Intent, now: Timestamp) -> Vec<Scored> {
    let mut scored: Vec<Scored> = found
        .into_iter()
        .map(|one| {
            let parts = parts(&one.memory, one.source, intent, now);
            Scored {
                score: parts.total(),
                parts,
                memory: one.memory,
                source: one.source,
                relevance: one.relevance,
                thread_title: None,
            }
        })
        .collect();

    scored.sort_by(|a, b| {
        b.score
            .total_cmp(&a.score)
            .then_with(|| {
                a.memory
                    .created_at
                    .as_micros()
                    .cmp(&b.memory.created_at.as_micros())
            })
            .then_with(|| a.memory.id.cmp(&b.memory.id))
    });
    scored
}

/// The parts of one memory's score.
pub fn parts(
    memory: &Memory,
    source: RetrievalSource,
    intent: &Intent,
    now: Timestamp,
) -> ScoreParts {
    let topics = shared(memory.labels.topics.iter(), intent.topics.iter());
    let own = memory.labels.entities.iter().map(|entity| &entity.value);
    let entities = shared(own, intent.entities.iter().map(|entity| &entity.value));

    ScoreParts {
        topic: topics * 30.0,
        entity: entities * 25.0,
        recency: (1.0 - hours(memory, now) / DECAY_HOURS).max(MIN_RECENCY) * 20.0,
        importance: memory.importance().unwrap_or(DEFAULT_IMPORTANCE) * 15.0,
        source_factor: match source {
            RetrievalSource::CurrentThread => 1.3,
            RetrievalSource::CrossThread => 1.0,
            RetrievalSource::Expansion => 0.9,
        },
        tier_factor: match memory.tier(now) {
            Tier::Short => 1.2,
            Tier::Mid => 1.0,
            Tier::Long => 0.9,
        },
        search: None,
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
