//! Fills a context by search: the memories that match a question best, and on request the messages
//! around them.

use std::collections::{HashMap, HashSet};

use super::intent::Intent;
use super::lexicon::other_names;
use super::scoring::{self, Scored};
use super::stages::{BUDGET, RetrievalSource, StageScope, relevance};
use super::{Conversation, ConversationError};
use crate::base::ids::Space;
use crate::llm::Session;
use crate::model::memory::Memory;
use crate::search::Kind;
use crate::search::memories::{MemoryQuery, NEIGHBOUR};

/// The weight of the search in a score; the score of the stages has the rest.
const SEARCH: f64 = 0.6;
const MAX_SCORE: f64 = 100.0;

/// A memory found by search.
#[derive(Debug, Clone)]
pub struct Recalled {
    pub memory: Memory,
    /// Its own score plus the share of its neighbours, from 0 to 1; the best memory has 1.
    pub score: f64,
    /// The memory found that it stands next to, if it was not found itself.
    pub neighbour_of: Option<String>,
}

impl Conversation {
    /// The memories of a user that match a question best, best first.
    ///
    /// # Errors
    /// The store's.
    pub async fn recall(
        &self,
        session: &Session,
        space: &Space,
        scope: StageScope<'_>,
        query: &str,
        intent: &Intent,
        expand: usize,
    ) -> Result<Vec<Recalled>, ConversationError> {
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
        let found = retrieval.find_memories_or_words(session, space, asked);
        let (found, failed) = found.await?;
        if let Some(error) = failed {
            tracing::warn!(%error, "a context is found by keyword only");
        }

        let best = found.items.first().map_or(0.0, |one| one.scores.standing);
        let mut recalled: Vec<Recalled> = found
            .items
            .into_iter()
            .map(|one| Recalled {
                memory: one.found,
                score: 1.0 / (1.0 + best - one.scores.standing),
                neighbour_of: None,
            })
            .collect();

        if expand > 0 {
            self.add_neighbours(space, scope, &found.around, &mut recalled)
                .await?;
        }

        Ok(recalled)
    }

    /// Scores what a search found like the stages do, and adds the search's share.
    pub(super) fn fuse(
        recalled: Vec<Recalled>,
        scope: StageScope<'_>,
        intent: &Intent,
    ) -> Vec<Scored> {
        let mut scored: Vec<Scored> = recalled
            .into_iter()
            .map(|one| {
                let source = source_of(&one.memory, scope);
                let mut parts = scoring::parts(&one.memory, source, intent, scope.now);
                let search = SEARCH * MAX_SCORE * one.score;
                parts.search = Some(search);
                Scored {
                    score: search + (1.0 - SEARCH) * parts.total(),
                    relevance: Some(relevance(&one.memory, intent, 12.0, None)),
                    parts,
                    source,
                    memory: one.memory,
                    thread_title: None,
                }
            })
            .collect();

        scored.sort_by(|a, b| {
            b.score
                .total_cmp(&a.score)
                .then_with(|| a.memory.seq.cmp(&b.memory.seq))
        });
        scored
    }

    async fn add_neighbours(
        &self,
        space: &Space,
        scope: StageScope<'_>,
        around: &HashMap<i64, Vec<i64>>,
        recalled: &mut Vec<Recalled>,
    ) -> Result<(), ConversationError> {
        let known: HashSet<i64> = recalled.iter().map(|one| one.memory.seq).collect();
        let mut wanted: HashMap<i64, (String, f64)> = HashMap::new();
        for one in recalled.iter() {
            for seq in around.get(&one.memory.seq).into_iter().flatten() {
                if !known.contains(seq) {
                    let entry = (one.memory.id.to_string(), one.score);
                    wanted.entry(*seq).or_insert(entry);
                }
            }
        }

        let seqs: Vec<i64> = wanted.keys().copied().collect();
        let found = self.store.list_memories_at(space, &seqs).await?;
        let allowed = found.into_iter().filter(|memory| {
            memory.superseded_by.is_none() && scope.exclude != Some(memory.id.as_str())
        });
        recalled.extend(allowed.filter_map(|memory| {
            let (first, found) = wanted.remove(&memory.seq)?;
            Some(Recalled {
                memory,
                score: found * NEIGHBOUR,
                neighbour_of: Some(first),
            })
        }));
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
