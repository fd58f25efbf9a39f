//! Finds memories by search: by words and by meaning, with a share of what was said before and
//! after, because "Yes, last Tuesday" means nothing alone.

use std::collections::{HashMap, HashSet};

use super::intent::Intent;
use super::lexicon::other_names;
use super::scoring::{self, Scored};
use super::stages::{BUDGET, RetrievalSource, StageScope, relevance};
use super::{Conversation, ConversationError};
use crate::base::ids::{Space, memory_group};
use crate::llm::Session;
use crate::model::memory::Memory;
use crate::model::search::OwnerKind;
use crate::search::{EntryQuery, Filter, Kind};

/// Memories that are compared.
const CANDIDATES: usize = 200;
/// The share of a neighbour's score.
const NEIGHBOUR: f64 = 1.0 / 3.0;
/// The weight of the search in a score; the stages' score has the rest.
const SEARCH: f64 = 0.6;
const MOST: f64 = 100.0;

/// A memory found by search.
#[derive(Debug, Clone)]
pub struct Recalled {
    pub memory: Memory,
    /// Its own score and the share of its neighbours, from 0 to 1 with the best at 1.
    pub score: f64,
    /// The memory that it helps to understand, if it was not found itself.
    pub neighbour_of: Option<String>,
}

impl Conversation {
    /// The memories of a user that match a question best, best first.
    ///
    /// # Errors
    /// The model's, or the store's.
    pub async fn recall(
        &self,
        session: &Session,
        space: &Space,
        scope: StageScope<'_>,
        query: &str,
        intent: &Intent,
        expand: usize,
    ) -> Result<Vec<Recalled>, ConversationError> {
        // Other names of what the question names find the same.
        let names = other_names(query, &self.lexicon(space).await?);
        let text = std::iter::once(query.to_owned()).chain(names);
        let text = text.collect::<Vec<_>>().join(" ");
        let entries = EntryQuery {
            owner_kind: OwnerKind::Memory,
            text: &text,
            kind: Kind::Hybrid,
            k: CANDIDATES,
            min_score: None,
            by_group: false,
            scope: None,
        };
        let filter = Filter {
            groups: Some(HashMap::from([(memory_group(scope.user_id), 0)])),
            ..Filter::default()
        };
        let found = self.search.find(session, space, entries, filter).await?;
        let own: HashMap<i64, f64> = found
            .hits
            .iter()
            .map(|hit| (hit.owner.id, hit.score))
            .collect();
        let seqs: Vec<i64> = own.keys().copied().collect();
        let mut memories = self.store.list_memories_at(space, &seqs).await?;
        let since = intent.since(scope.now);
        memories.retain(|memory| {
            memory.user_id == scope.user_id
                && memory.superseded_by.is_none()
                && scope.exclude != Some(memory.id.as_str())
                && since.is_none_or(|since| memory.created_at >= since)
        });

        let around = self.neighbours(space, &memories).await?;
        let total = |memory: &Memory| {
            let near = around.get(&memory.seq).into_iter().flatten();
            let near: f64 = near.filter_map(|seq| own.get(seq)).sum();
            own.get(&memory.seq).copied().unwrap_or(0.0) + NEIGHBOUR * near
        };

        let mut ranked: Vec<(f64, Memory)> = memories
            .into_iter()
            .map(|memory| (total(&memory), memory))
            .collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.seq.cmp(&b.1.seq)));
        ranked.truncate(BUDGET);
        let best = ranked
            .first()
            .map_or(1.0, |(score, _)| score.max(f64::MIN_POSITIVE));
        let mut recalled: Vec<Recalled> = ranked
            .into_iter()
            .map(|(score, memory)| Recalled {
                memory,
                score: score / best,
                neighbour_of: None,
            })
            .collect();

        if expand > 0 {
            self.add_neighbours(space, scope, &around, &mut recalled)
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
                let search = SEARCH * MOST * one.score;
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

    /// The numbers of the messages before and after each memory.
    async fn neighbours(
        &self,
        space: &Space,
        memories: &[Memory],
    ) -> Result<HashMap<i64, Vec<i64>>, ConversationError> {
        let mut threads: Vec<String> = memories
            .iter()
            .filter_map(|memory| memory.thread_id.as_ref().map(ToString::to_string))
            .collect();
        threads.sort_unstable();
        threads.dedup();
        let mut around: HashMap<i64, Vec<i64>> = HashMap::new();
        for seqs in self.store.list_thread_seqs(space, &threads).await?.values() {
            for pair in seqs.windows(2) {
                around.entry(pair[0]).or_default().push(pair[1]);
                around.entry(pair[1]).or_default().push(pair[0]);
            }
        }

        Ok(around)
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
