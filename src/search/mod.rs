//! Search without a walk: by keyword, by meaning, or by both; the same order on every engine.
//!
//! The ranking is pure: `terms` turns text into terms (`stem`), `keywords` scores terms, `vectors`
//! compares meanings, `fusion` combines the two, `fields` adds what is said about a source,
//! `neighbours` a share of the chunks before and after; `rank` defines queries and hits, and
//! `quoted` keeps those with the words in quotes. `index` holds a space in memory and `cache` keeps
//! it up to date; `in_database` searches in the database what does not fit; `entries` chooses between
//! them. `memories` ranks what a user said. `prepare` makes what an ingestion writes, `reembed`
//! switches a space to another embedding model.

mod cache;
mod entries;
pub mod fields;
pub mod fusion;
pub mod highlight;
mod in_database;
pub mod index;
pub mod input;
pub mod keywords;
pub mod memories;
mod neighbours;
pub mod prepare;
mod quoted;
pub mod rank;
mod reembed;
mod reindex;
pub mod source_words;
mod stem;
pub mod terms;
mod time_words;
pub mod vectors;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hashlink::LruCache;
use memoir_text::field_error::FieldError;

use crate::base::ids::{SourceId, Space};
use crate::config;
use crate::llm::{Llm, LlmError, Session};
use crate::model::query::QueryScope;
use crate::model::search::{Found, OwnerKind};
use crate::store::{Store, StoreError};

pub use index::Filter;
pub use input::{CheckedSearch, SearchInput};
pub use rank::{Hit, Kind};
pub use reembed::ReembedWork;
pub use reindex::ReindexWork;

use cache::IndexCache;
use highlight::Highlighter;
use memories::{FoundMemories, FoundMemory, MemoryQuery};
use quoted::{LOOKED_AT, Quoted};

/// Query vectors that are cached, so that repeating a query calls no model.
const KEPT_QUESTIONS: usize = 1_000;
/// The pause after the database failed to copy vectors.
const TRY_AGAIN: Duration = Duration::from_secs(30);

/// Entry point of search; cheap to clone.
#[derive(Clone)]
pub struct Search {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    llm: Llm,
    settings: config::Vector,
    cache: IndexCache,
    questions: Mutex<LruCache<(String, String), Vec<f32>>>,
}

/// A search among the entries of one kind.
#[derive(Debug, Clone, Copy)]
pub struct EntryQuery<'q> {
    pub owner_kind: OwnerKind,
    pub text: &'q str,
    pub kind: Kind,
    /// Maximum number of results.
    pub k: usize,
    pub min_score: Option<f64>,
    /// Only the best entry of each group.
    pub by_group: bool,
    /// For chunks: the visible sources, for a search in the database. For an index in memory, the
    /// filter has the same effect.
    pub scope: Option<&'q QueryScope>,
    /// For memories: the group of the user, which has an index of its own. Never missing there.
    pub group: Option<&'q str>,
}

/// The entries found.
#[derive(Debug, Clone)]
pub struct FoundEntries {
    /// Best first.
    pub hits: Vec<Hit>,
    /// The embedding model, if meanings were compared.
    pub model: Option<String>,
    /// Whether the space was searched in memory.
    pub in_memory: bool,
    /// Milliseconds that the embedding model took.
    pub provider_ms: f64,
}

/// How many results are looked at: more if some of them may lack the quoted words.
fn looked_at(ask: &CheckedSearch, quoted: &Quoted) -> usize {
    if quoted.is_empty() {
        ask.k
    } else {
        ask.k.max(LOOKED_AT)
    }
}

/// The result of a search.
pub struct Results {
    /// Chunks, best first.
    pub items: Vec<(Hit, Found)>,
    /// Memories, best first.
    pub memories: Vec<FoundMemory>,
    /// How many of both are wanted.
    pub k: usize,
    /// The headings above the chunks, by chunk.
    pub headings: HashMap<i64, String>,
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

/// A search failed.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// 422: fields violate a rule.
    #[error("the search is invalid")]
    Invalid(Vec<FieldError>),
    /// As the model's error says.
    #[error(transparent)]
    Llm(#[from] LlmError),
    /// 503 or 500, as the store says.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Search {
    #[must_use]
    pub fn new(store: Store, llm: Llm, settings: config::Vector) -> Self {
        let cache = IndexCache::new(store.clone(), settings.memory_mb);
        Self {
            inner: Arc::new(Inner {
                store,
                llm,
                settings,
                cache,
                questions: Mutex::new(LruCache::new(KEPT_QUESTIONS)),
            }),
        }
    }

    /// Searches the chunks of a space, the memories of a user, or both.
    ///
    /// # Errors
    /// [`SearchError::Invalid`], the model's, or the store's.
    pub async fn search(
        &self,
        session: &Session,
        space: &Space,
        request: SearchInput,
    ) -> Result<Results, SearchError> {
        let begun = Instant::now();
        let ask = request.resolve()?;
        let quoted = Quoted::of(&ask.query);
        let mut memories = self.memories(session, space, &ask, &quoted).await?;
        memories
            .items
            .retain(|item| quoted.are_in(&item.memory.content));
        memories.items.truncate(ask.k);
        if let Some(least) = self.least_cosine(&ask, memories.model.as_deref()) {
            let related = |item: &FoundMemory| {
                rank::is_related(&item.hit, least) || item.speaker > 0.0 || item.time > 0.0
            };
            if !memories.items.iter().any(related) {
                memories.items.clear();
            }
        }

        if !ask.searched.sources() {
            return Ok(Results {
                model: memories.model.clone(),
                in_memory: memories.in_memory,
                total_ms: milliseconds(begun),
                provider_ms: memories.provider_ms,
                memories: memories.items,
                items: Vec::new(),
                headings: HashMap::new(),
                highlighter: Highlighter::new(&ask.query),
                k: ask.k,
            });
        }

        let query = EntryQuery {
            owner_kind: OwnerKind::Chunk,
            text: &ask.query,
            kind: ask.kind,
            k: looked_at(&ask, &quoted),
            min_score: ask.min_score,
            by_group: ask.by_source && quoted.is_empty(),
            scope: Some(&ask.scope),
            group: None,
        };

        let found = self
            .find_filtered(
                session,
                space,
                query,
                self.filter(space, &ask.scope, ask.category_id),
            )
            .await?;

        let mut hits = found.hits;
        if let Some(least) = self.least_cosine(&ask, found.model.as_deref()) {
            let is_related = hits.iter().any(|hit| rank::is_related(hit, least));
            hits.retain(|hit| is_related && hit.score > 0.0);
        }

        let mut items = self.read(space, hits).await?;
        if !quoted.is_empty() {
            let mut sources = HashSet::new();
            items.retain(|(_, found)| quoted.are_in(&found.text));
            items.retain(|(_, found)| {
                let is_new = sources.insert(found.source_id.clone());
                is_new || !ask.by_source
            });
            items.truncate(ask.k);
        }

        let wanted: Vec<i64> = items.iter().map(|(_, found)| found.chunk_id).collect();
        let headings = self.inner.store.list_chunk_headings(space, &wanted).await?;
        Ok(Results {
            headings,
            highlighter: Highlighter::new(&ask.query),
            items,
            model: found.model,
            in_memory: found.in_memory,
            total_ms: milliseconds(begun),
            provider_ms: found.provider_ms + memories.provider_ms,
            memories: memories.items,
            k: ask.k,
        })
    }

    /// How close a meaning must be if no result has a word of the query, for otherwise the nearest
    /// results have nothing in common with it. `None` if the caller decides, by a minimum score or
    /// by a search for the nearest.
    fn least_cosine(&self, ask: &CheckedSearch, model: Option<&str>) -> Option<f64> {
        let decides = ask.kind == Kind::Hybrid && ask.min_score.is_none();
        decides.then(|| self.inner.llm.least_cosine(model, &ask.query))
    }

    /// The memories that a search finds, if it wants any.
    async fn memories(
        &self,
        session: &Session,
        space: &Space,
        ask: &CheckedSearch,
        quoted: &Quoted,
    ) -> Result<FoundMemories, SearchError> {
        let user_id = ask.scope.user_id.as_deref();
        let Some(user_id) = user_id.filter(|_| ask.searched.memories()) else {
            return Ok(FoundMemories::default());
        };
        let query = MemoryQuery {
            user_id,
            text: &ask.query,
            kind: ask.kind,
            k: looked_at(ask, quoted),
            min_score: ask.min_score,
            tags: &ask.scope.tags,
            as_of: ask.scope.as_of,
            since: None,
            exclude: None,
        };
        self.find_memories(session, space, query).await
    }

    /// Ranks the chunks of a scope by words and meaning, best first, without reading them.
    ///
    /// # Errors
    /// The model's, or the store's.
    pub async fn rank_chunks(
        &self,
        session: &Session,
        space: &Space,
        (text, kind, k): (&str, Kind, usize),
        scope: &QueryScope,
    ) -> Result<FoundEntries, SearchError> {
        let query = EntryQuery {
            owner_kind: OwnerKind::Chunk,
            text,
            kind,
            k,
            min_score: None,
            by_group: false,
            scope: Some(scope),
            group: None,
        };

        self.find_filtered(session, space, query, self.filter(space, scope, None))
            .await
    }

    /// Searches the entries of one kind.
    ///
    /// # Errors
    /// The model's, or the store's.
    pub async fn find(
        &self,
        session: &Session,
        space: &Space,
        query: EntryQuery<'_>,
        filter: Filter,
    ) -> Result<FoundEntries, SearchError> {
        self.find_filtered(session, space, query, async { Ok(filter) })
            .await
    }

    /// The sources of an end user that contain any of the words, in any version: in their texts, or
    /// in what is said about them. Best first, with their scores.
    ///
    /// # Errors
    /// The store's.
    pub async fn find_sources(
        &self,
        space: &Space,
        user_id: &str,
        words: &str,
        most: usize,
    ) -> Result<Vec<(SourceId, f64)>, SearchError> {
        let session = Session::of_caller(space.clone());
        let scope = QueryScope {
            user_id: Some(user_id.to_owned()),
            all_versions: true,
            ..QueryScope::default()
        };

        let find = |owner_kind: OwnerKind| {
            let query = EntryQuery {
                owner_kind,
                text: words,
                kind: Kind::Keyword,
                k: most,
                min_score: None,
                by_group: true,
                scope: Some(&scope),
                group: None,
            };

            let filter = Filter {
                user_id: Some(user_id.to_owned()),
                all_versions: true,
                ..Filter::default()
            };

            self.find(&session, space, query, filter)
        };

        let (texts, names) = tokio::try_join!(find(OwnerKind::Chunk), find(OwnerKind::Source))?;
        let hits: Vec<Hit> = texts.hits.into_iter().chain(names.hits).collect();
        let ids: Vec<i64> = hits.iter().map(|hit| hit.entry_id).collect();
        let groups = self.inner.store.list_entry_groups(space, &ids).await?;
        let mut scores: HashMap<&str, f64> = HashMap::new();
        for hit in &hits {
            if let Some(group) = groups.get(&hit.entry_id) {
                *scores.entry(group).or_default() += hit.score;
            }
        }

        let mut found: Vec<(SourceId, f64)> = scores
            .into_iter()
            .map(|(id, score)| (SourceId::from_stored(id.to_owned()), score))
            .collect();
        found.sort_by(|a, b| {
            b.1.total_cmp(&a.1)
                .then_with(|| a.0.as_str().cmp(b.0.as_str()))
        });
        found.truncate(most);
        Ok(found)
    }

    /// The details of the hits, without chunks deleted in the meantime.
    async fn read(&self, space: &Space, hits: Vec<Hit>) -> Result<Vec<(Hit, Found)>, StoreError> {
        let ids: Vec<i64> = hits.iter().map(|hit| hit.owner.id).collect();
        let found = self.inner.store.list_found(space, &ids).await?;
        let mut found: HashMap<i64, Found> = found
            .into_iter()
            .map(|found| (found.chunk_id, found))
            .collect();

        Ok(hits
            .into_iter()
            .filter_map(|hit| Some((hit, found.remove(&hit.owner.id)?)))
            .collect())
    }

    /// Copies existing vectors to pgvector, where the database has it.
    pub async fn complete_pgvector(&self) {
        while let Err(error) = self.inner.store.complete_pgvector().await {
            tracing::warn!(%error, "cannot copy vectors for pgvector yet");
            tokio::time::sleep(TRY_AGAIN).await;
        }
    }

    /// Bytes of all indexes held in memory.
    pub fn index_bytes(&self) -> u64 {
        self.inner.cache.index_bytes()
    }

    /// Bytes of the vectors held in memory for a space.
    pub fn vector_bytes(&self, space: &Space) -> usize {
        self.inner.cache.vector_bytes(space)
    }
}

/// Rounded to microseconds; more digits would be noise.
fn milliseconds(since: Instant) -> f64 {
    (since.elapsed().as_secs_f64() * 1e6).round() / 1000.0
}
