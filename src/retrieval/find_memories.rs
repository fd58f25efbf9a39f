//! Memories found by a search, as items.

use std::collections::{HashMap, HashSet};

use memoir_index::{Hit, Kind};

use super::{Item, Retrieval, hydrate};
use crate::llm::{LlmError, Session};
use crate::model::memory::Memory;
use crate::search::SearchError;
use crate::search::memories::{MemoryQuery, MemoryScores};

/// A memory that a search found.
pub type MemoryItem = Item<Memory, MemoryScores>;

/// Memories that a search found.
#[derive(Debug, Clone, Default)]
pub struct FoundMemories {
    /// Best first.
    pub items: Vec<MemoryItem>,
    /// The best of those that last and are not among them.
    pub lasting: Vec<MemoryItem>,
    /// The numbers of the messages before and after each message found.
    pub around: HashMap<i64, Vec<i64>>,
    pub model: Option<String>,
    pub in_memory: bool,
    pub provider_ms: f64,
}

impl Retrieval {
    /// The memories of a user that match a text best, best first.
    ///
    /// # Errors
    /// The model's, or the store's.
    pub async fn find_memories(
        &self,
        session: &Session,
        query: MemoryQuery<'_>,
    ) -> Result<FoundMemories, SearchError> {
        let ranked = self.search.rank_memories(session, query).await?;
        let beside: HashSet<i64> = ranked.lasting.iter().map(|(seq, _)| *seq).collect();
        let all = ranked.ranked.into_iter().chain(ranked.lasting).collect();
        let all: Vec<MemoryItem> = hydrate(&self.store, session.space(), None, all).await?;
        let (lasting, items) = all
            .into_iter()
            .partition(|item| beside.contains(&item.found.seq));
        Ok(FoundMemories {
            items,
            lasting,
            around: ranked.around,
            model: ranked.model,
            in_memory: ranked.in_memory,
            provider_ms: ranked.provider_ms,
        })
    }

    /// Also finds memories if the embedding model fails, then by their words alone; returns its
    /// error.
    ///
    /// # Errors
    /// The store's.
    pub async fn find_memories_or_words(
        &self,
        session: &Session,
        query: MemoryQuery<'_>,
    ) -> Result<(FoundMemories, Option<LlmError>), SearchError> {
        match self.find_memories(session, query).await {
            Err(SearchError::Llm(error)) => {
                let words = MemoryQuery {
                    kind: Kind::Keyword,
                    ..query
                };
                let found = self.find_memories(session, words).await?;
                Ok((found, Some(error)))
            }
            found => Ok((found?, None)),
        }
    }

    /// The memories of a user that match a text best by themselves, without those that others have
    /// replaced; best first.
    ///
    /// # Errors
    /// The model's, or the store's.
    pub async fn find_current_memories(
        &self,
        session: &Session,
        user_id: &str,
        (text, kind, k): (&str, Kind, usize),
    ) -> Result<Vec<Item<Memory, Hit>>, SearchError> {
        let search = &self.search;
        let found = search.find_entries_of(session, user_id, text, kind, k);
        let found = found.await?.hits.into_iter();
        let found = found.map(|hit| (hit.owner.id, hit)).collect();
        let mut items: Vec<Item<Memory, Hit>> =
            hydrate(&self.store, session.space(), None, found).await?;
        items.retain(|item| {
            // The group of an entry is only a hash of its user.
            item.found.user_id == user_id && item.found.superseded_by.is_none()
        });

        Ok(items)
    }
}
