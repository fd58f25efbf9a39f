//! Fills a context by search: the memories that match a question best, and on request the messages
//! around them.

use std::collections::{HashMap, HashSet};

use super::intent::Intent;
use super::lexicon::other_names;
use super::scoring::{FoundBy, MAX_SCORE, SEARCH_WEIGHT};
use super::stages::{BUDGET, RetrievalSource, StageScope, relevance};
use super::{Conversation, ConversationError};
use crate::base::ids::Space;
use crate::llm::Session;
use crate::model::memory::Memory;
use crate::retrieval::{Item, hydrate};
use crate::search::Kind;
use crate::search::memories::{MemoryQuery, NEIGHBOUR};

impl Conversation {
    /// The memories of a user that match a question best, and on request the messages next to them;
    /// in the order in which they were stored.
    ///
    /// # Errors
    /// The store's.
    pub(super) async fn find_by_search(
        &self,
        session: &Session,
        scope: StageScope<'_>,
        query: &str,
        intent: &Intent,
        expand: usize,
    ) -> Result<Vec<Item<Memory, FoundBy>>, ConversationError> {
        let space = session.space();
        // The aliases of terms in the question are searched too.
        let names = other_names(query, &self.lexicon(space).await?);
        let text = std::iter::once(query.to_owned()).chain(names);
        let text = text.collect::<Vec<_>>().join(" ");
        let asked = MemoryQuery {
            user_id: scope.user_id,
            text: &text,
            kind: Kind::Hybrid,
            k: BUDGET,
            min_score: None,
            tags: &[],
            as_of: None,
            since: intent.since(scope.now),
            exclude: scope.exclude,
        };
        let retrieval = &self.retrieval;
        let found = retrieval.find_memories_or_words(session, asked);
        let (found, failed) = found.await?;
        if let Some(error) = failed {
            tracing::warn!(%error, "a context is found by keyword only");
        }

        // From 0 to 1: the best memory has 1.
        let best = found.items.first().map_or(0.0, |one| one.scores.standing);
        let shares = found.items.into_iter().map(|item| {
            let share = 1.0 / (1.0 + best - item.scores.standing);
            (item.found, share)
        });
        let mut shares: Vec<(Memory, f64)> = shares.collect();
        if expand > 0 {
            self.add_neighbours(space, scope, &found.around, &mut shares)
                .await?;
        }

        shares.sort_by_key(|(memory, _)| memory.seq);
        let found = shares.into_iter().map(|(memory, share)| {
            let by = FoundBy {
                source: source_of(&memory, scope),
                relevance: Some(relevance(&memory, intent, 12.0, None)),
                search: Some(SEARCH_WEIGHT * MAX_SCORE * share),
            };
            Item::new(memory, by)
        });
        Ok(found.collect())
    }

    /// Adds the messages next to those found, each with a part of their share.
    async fn add_neighbours(
        &self,
        space: &Space,
        scope: StageScope<'_>,
        around: &HashMap<i64, Vec<i64>>,
        shares: &mut Vec<(Memory, f64)>,
    ) -> Result<(), ConversationError> {
        let known: HashSet<i64> = shares.iter().map(|(memory, _)| memory.seq).collect();
        let mut wanted: HashMap<i64, f64> = HashMap::new();
        for (memory, share) in shares.iter() {
            for seq in around.get(&memory.seq).into_iter().flatten() {
                if !known.contains(seq) {
                    wanted.entry(*seq).or_insert(*share * NEIGHBOUR);
                }
            }
        }

        let wanted = wanted.into_iter().collect();
        let found: Vec<Item<Memory, f64>> = hydrate(&self.store, space, None, wanted).await?;
        let allowed = found.into_iter().filter(|item| {
            let memory = &item.found;
            memory.superseded_by.is_none() && scope.exclude != Some(memory.id.as_str())
        });
        shares.extend(allowed.map(|item| (item.found, item.scores)));
        Ok(())
    }
}

fn source_of(memory: &Memory, scope: StageScope<'_>) -> RetrievalSource {
    match (&memory.thread_id, scope.thread_id) {
        (None, _) => RetrievalSource::Expansion,
        (Some(own), Some(current)) if own == current => RetrievalSource::CurrentThread,
        _ => RetrievalSource::CrossThread,
    }
}
