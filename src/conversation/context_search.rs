//! Fills a context by search alone: the memories that match a question best, and on request the
//! messages around them.

use std::collections::{HashMap, HashSet};

use super::intent::Intent;
use super::lexicon::other_names;
use super::scoring::{FoundBy, MAX_SCORE, SEARCH_WEIGHT};
use super::stages::{ContextScope, MAX_MEMORIES, RetrievalSource, relevance};
use super::{Conversation, ConversationError};
use crate::llm::Session;
use crate::model::memory::Memory;
use crate::retrieval::{Item, hydrate};
use crate::search::memories::{MemoryQuery, NEIGHBOUR};
use crate::store::LexiconEntry;

impl Conversation {
    /// The memories of a user that match a question best, and on request the messages next to them,
    /// as long as there is room; in the order in which they were stored.
    ///
    /// # Errors
    /// The store's.
    pub(super) async fn find_by_search(
        &self,
        session: &Session,
        scope: ContextScope<'_>,
        intent: &Intent,
        expand: usize,
    ) -> Result<Vec<Item<Memory, FoundBy>>, ConversationError> {
        let query = scope.query;
        let text = asked_text(query, &self.lexicon(session.call()).await?);
        let asked = MemoryQuery {
            since: intent.said_since(query, scope.call.now),
            exclude: scope.exclude,
            thread: intent.only_thread(scope.thread_id),
            ..MemoryQuery::of(scope.user_id, &text, MAX_MEMORIES)
        };
        let found = self.retrieval.find_memories_or_words(session, asked);
        let (found, failed) = found.await?;
        if let Some(error) = failed {
            tracing::warn!(%error, "a context is found by keyword only");
        }

        // From 0 to 1: the best memory has 1.
        let best = found.items.first().map_or(0.0, |one| one.scores.standing);
        let least_cosine = self.search.least_cosine(found.model.as_deref(), query);
        let shares = found.items.into_iter().map(|item| {
            item.scored(|_, scores| Share {
                value: 1.0 / (1.0 + best - scores.standing),
                related: scores.is_related(least_cosine),
            })
        });
        let mut shares: Vec<Item<Memory, Share>> = shares.collect();
        if expand > 0 {
            let related = shares.iter().filter(|one| one.scores.related);
            let related = related.map(|one| (one.found.seq, one.scores.value));
            let near = self
                .neighbours(session, scope, &found.around, related)
                .await?;
            let near = near.into_iter().map(|one| {
                one.scored(|_, value| Share {
                    value,
                    related: true,
                })
            });
            add_in_place(&mut shares, near, |one| !one.scores.related);
        }

        shares.sort_by_key(|one| one.found.seq);
        let found = shares.into_iter().map(|one| {
            one.scored(|memory, share| FoundBy {
                source: source_of(memory, scope),
                relevance: Some(relevance(memory, intent, 12.0, None)),
                search: Some(SEARCH_WEIGHT * MAX_SCORE * share.value),
            })
        });
        Ok(found.collect())
    }

    /// The messages next to those found, each with a part of their score.
    pub(super) async fn neighbours(
        &self,
        session: &Session,
        scope: ContextScope<'_>,
        around: &HashMap<i64, Vec<i64>>,
        found: impl Iterator<Item = (i64, f64)>,
    ) -> Result<Vec<Item<Memory, f64>>, ConversationError> {
        let found: Vec<(i64, f64)> = found.collect();
        let mut seen: HashSet<i64> = found.iter().map(|(seq, _)| *seq).collect();
        let mut wanted: Vec<(i64, f64)> = Vec::new();
        for (seq, score) in found {
            for near in around.get(&seq).into_iter().flatten() {
                if seen.insert(*near) {
                    wanted.push((*near, score * NEIGHBOUR));
                }
            }
        }

        let space = session.space();
        let mut near: Vec<Item<Memory, f64>> = hydrate(&self.store, space, None, wanted).await?;
        near.retain(|item| {
            let memory = &item.found;
            memory.superseded_by.is_none()
                && memory.user_id == scope.user_id
                && scope.exclude != Some(memory.id.as_str())
                && !memory.repeats(scope.query, scope.call.now)
        });
        Ok(near)
    }
}

/// Adds memories as long as there is room; those that may make room do so, the last one first.
pub(super) fn add_in_place<S>(
    items: &mut Vec<Item<Memory, S>>,
    added: impl Iterator<Item = Item<Memory, S>>,
    makes_room: impl Fn(&Item<Memory, S>) -> bool,
) {
    for one in added {
        if let Some(known) = items
            .iter_mut()
            .find(|item| item.found.seq == one.found.seq)
        {
            // It was found as something that has nothing to do with the question.
            known.scores = one.scores;
            continue;
        }

        if items.len() >= MAX_MEMORIES {
            let Some(place) = items.iter().rposition(&makes_room) else {
                break;
            };
            items.remove(place);
        }

        items.push(one);
    }
}

/// How well a memory fits a question, compared with the best one.
#[derive(Debug, Clone, Copy)]
struct Share {
    value: f64,
    /// Whether the question has to do with it.
    related: bool,
}

/// The text that is searched: the question, with the other names of what it names.
pub(super) fn asked_text(query: &str, lexicon: &[LexiconEntry]) -> String {
    let names = other_names(query, lexicon);
    let text = std::iter::once(query.to_owned()).chain(names);
    text.collect::<Vec<_>>().join(" ")
}

pub(super) fn source_of(memory: &Memory, scope: ContextScope<'_>) -> RetrievalSource {
    match (&memory.thread_id, scope.thread_id) {
        (None, _) => RetrievalSource::Expansion,
        (Some(own), Some(current)) if own == current => RetrievalSource::CurrentThread,
        _ => RetrievalSource::CrossThread,
    }
}
