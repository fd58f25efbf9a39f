//! The search of `POST /v1/search`: chunks, memories, or both, without a walk.

use std::collections::HashSet;
use std::time::Instant;

use memoir_index::highlight::Highlighter;
use memoir_index::{Hit, Kind, OwnerKind, rank};

use super::quoted::{LOOKED_AT, Quoted};
use super::search_input::CheckedSearch;
use super::{FoundMemories, Item, MemoryItem, Retrieval, SearchInput, hydrate};
use crate::base::clock::milliseconds_since;
use crate::llm::Session;
use crate::model::chunk::SourceChunk;
use crate::search::memories::MemoryQuery;
use crate::search::{EntryQuery, FoundEntries, SearchError};

/// The result of a search.
pub struct Results {
    /// Best first.
    pub chunks: Vec<Item<SourceChunk, Hit>>,
    /// Best first.
    pub memories: Vec<MemoryItem>,
    /// How many of both are wanted.
    pub k: usize,
    /// Marks the words of the query.
    pub highlighter: Highlighter,
    /// The embedding model, if meanings were compared.
    pub model: Option<String>,
    /// Whether the space was searched in memory.
    pub in_memory: bool,
    /// Milliseconds in total, and those of the embedding model.
    pub total_ms: f64,
    pub provider_ms: f64,
}

impl Retrieval {
    /// Searches the chunks of a space, the memories of a user, or both.
    ///
    /// # Errors
    /// [`SearchError::Invalid`], the model's, or the store's.
    pub async fn search(
        &self,
        session: &Session,
        request: SearchInput,
    ) -> Result<Results, SearchError> {
        let begun = Instant::now();
        let input = request.resolve()?;
        let quoted = Quoted::of(&input.query);
        let memories = self.search_memories(session, &input, &quoted).await?;

        let mut results = Results {
            chunks: Vec::new(),
            memories: memories.items,
            k: input.k,
            highlighter: Highlighter::new(&input.query),
            model: memories.model,
            in_memory: memories.in_memory,
            total_ms: 0.0,
            provider_ms: memories.provider_ms,
        };
        if input.searched.sources() {
            let mut found = self.find_chunks(session, &input, &quoted).await?;
            let hits = std::mem::take(&mut found.hits);
            let hits = hits.into_iter().map(|hit| (hit.owner.id, hit)).collect();
            let items = hydrate(&self.store, session.space(), None, hits).await?;
            results.chunks = with_quoted(items, &input, &quoted);
            results.model = found.model;
            results.in_memory = found.in_memory;
            results.provider_ms += found.provider_ms;
        }

        results.total_ms = milliseconds_since(begun);
        Ok(results)
    }

    /// The chunks that match the query, if any has to do with it.
    async fn find_chunks(
        &self,
        session: &Session,
        input: &CheckedSearch,
        quoted: &Quoted,
    ) -> Result<FoundEntries, SearchError> {
        let query = EntryQuery {
            owner_kind: OwnerKind::Chunk,
            text: &input.query,
            kind: input.kind,
            k: looked_at(input, quoted),
            min_score: input.min_score,
            by_group: input.by_source && quoted.is_empty(),
            scope: Some(&input.scope),
            group: None,
        };

        let mut found = self
            .search
            .find_in_scope(session, query, input.category_id)
            .await?;
        if let Some(least) = self.least_cosine(input, found.model.as_deref()) {
            let is_related = found.hits.iter().any(|hit| rank::is_related(hit, least));
            found.hits.retain(|hit| is_related && hit.score > 0.0);
        }

        Ok(found)
    }

    /// The memories that match the query, if any are wanted and any has to do with it.
    async fn search_memories(
        &self,
        session: &Session,
        input: &CheckedSearch,
        quoted: &Quoted,
    ) -> Result<FoundMemories, SearchError> {
        let user_id = input.scope.user_id.as_deref();
        let Some(user_id) = user_id.filter(|_| input.searched.memories()) else {
            return Ok(FoundMemories::default());
        };
        let query = MemoryQuery {
            kind: input.kind,
            min_score: input.min_score,
            tags: &input.scope.tags,
            as_of: input.scope.as_of,
            ..MemoryQuery::of(user_id, &input.query, looked_at(input, quoted))
        };

        let mut found = self.find_memories(session, query).await?;
        found
            .items
            .retain(|item| quoted.are_in(&item.found.content));
        found.items.truncate(input.k);
        if let Some(least) = self.least_cosine(input, found.model.as_deref())
            && !found.items.iter().any(|item| item.scores.is_related(least))
        {
            found.items.clear();
        }

        Ok(found)
    }

    /// How close a meaning must be if no result has a word of the query. `None` if the caller
    /// decides, by a minimum score or by a search for the nearest.
    fn least_cosine(&self, input: &CheckedSearch, model: Option<&str>) -> Option<f64> {
        let decides = input.kind == Kind::Hybrid && input.min_score.is_none();
        decides.then(|| self.search.least_cosine(model, &input.query))
    }
}

/// How many results are looked at: more if some of them may lack the quoted words.
fn looked_at(input: &CheckedSearch, quoted: &Quoted) -> usize {
    if quoted.is_empty() {
        input.k
    } else {
        input.k.max(LOOKED_AT)
    }
}

/// The chunks with the quoted words, one of each source if sources are wanted.
fn with_quoted(
    mut items: Vec<Item<SourceChunk, Hit>>,
    input: &CheckedSearch,
    quoted: &Quoted,
) -> Vec<Item<SourceChunk, Hit>> {
    if quoted.is_empty() {
        return items;
    }

    let mut sources = HashSet::new();
    items.retain(|item| quoted.are_in(&item.found.text));
    items.retain(|item| {
        let is_new = sources.insert(item.found.source_id.clone());
        is_new || !input.by_source
    });
    items.truncate(input.k);
    items
}
