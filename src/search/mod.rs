//! Search without a walk: by keyword, by meaning, or by both; the same order on every engine.
//!
//! The ranking and the index are the crate `memoir_index`. `cache` holds the index of a space and
//! keeps it up to date; `in_database` searches in the database what does not fit; `entries` chooses
//! between them, and `identifiers` raises what names the version or id of a query. `cuts` maps what
//! was found onto what is filed. `memories` ranks what a user said. `prepare` makes what an ingestion writes, `reindex` writes the terms of a space
//! again, `reembed` switches it to another embedding model.

mod cache;
mod cuts;
mod entries;
mod identifiers;
mod in_database;
pub mod memories;
pub mod prepare;
mod reembed;
mod reindex;
pub mod source_words;
mod time_words;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hashlink::LruCache;
use memoir_index::{Filter, Hit, Kind, OwnerKind};
use memoir_text::field_error::FieldError;

use crate::base::ids::{SourceId, Space};
use crate::config;
use crate::llm::{Llm, LlmError, Session};
use crate::model::call::CallContext;
use crate::model::scope::QueryScope;
use crate::store::{Store, StoreError};

pub use reembed::ReembedWork;
pub use reindex::ReindexWork;

use cache::IndexCache;
use cuts::Cuts;

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
    cuts: Cuts,
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
    /// Whether a chunk names a version or an id that the query names; `None` if the query names none,
    /// or if that cannot be told.
    pub identified: Option<bool>,
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
                cuts: Cuts::default(),
                questions: Mutex::new(LruCache::new(KEPT_QUESTIONS)),
            }),
        }
    }

    /// Which filed chunks share text with those that a search finds.
    pub fn cuts(&self) -> &Cuts {
        &self.inner.cuts
    }

    /// How close a meaning must be if no result has a word of the query, for otherwise the nearest
    /// results have nothing in common with it.
    pub fn least_cosine(&self, model: Option<&str>, text: &str) -> f64 {
        self.inner.llm.least_cosine(model, text)
    }

    /// Ranks the chunks of a scope by words and meaning, best first, without reading them.
    ///
    /// # Errors
    /// The model's, or the store's.
    pub async fn rank_chunks(
        &self,
        session: &Session,
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

        self.find_in_scope(session, query, None).await
    }

    /// Searches the chunks of a scope, or those of a category in it.
    ///
    /// # Errors
    /// The model's, or the store's.
    pub async fn find_in_scope(
        &self,
        session: &Session,
        query: EntryQuery<'_>,
        category_id: Option<i64>,
    ) -> Result<FoundEntries, SearchError> {
        let everything = QueryScope::default();
        let scope = query.scope.unwrap_or(&everything);
        self.find_filtered(
            session,
            query,
            self.filter(session.space(), scope, category_id),
        )
        .await
    }

    /// Searches the entries of one kind.
    ///
    /// # Errors
    /// The model's, or the store's.
    pub async fn find(
        &self,
        session: &Session,
        query: EntryQuery<'_>,
        filter: Filter,
    ) -> Result<FoundEntries, SearchError> {
        self.find_filtered(session, query, async { Ok(filter) })
            .await
    }

    /// The sources of an end user that contain any of the words, in any version: in their texts, or
    /// in what is said about them. Best first, with their scores. If the vectors of the space are
    /// computed in this process, those whose texts are near the words in meaning follow, with a
    /// score of 0.
    ///
    /// # Errors
    /// The store's.
    pub async fn find_sources(
        &self,
        call: &CallContext,
        user_id: &str,
        words: &str,
        most: usize,
    ) -> Result<Vec<(SourceId, f64)>, SearchError> {
        let session = Session::of_caller(call.unpaid());
        let scope = QueryScope {
            user_id: Some(user_id.to_owned()),
            all_versions: true,
            ..QueryScope::default()
        };

        let find = |owner_kind: OwnerKind, kind: Kind| {
            let query = EntryQuery {
                owner_kind,
                text: words,
                kind,
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

            self.find(&session, query, filter)
        };

        let (texts, names) = tokio::try_join!(
            find(OwnerKind::Chunk, Kind::Keyword),
            find(OwnerKind::Source, Kind::Keyword)
        )?;
        let model = self.model_of(&call.space).await?;
        let near = if self.inner.llm.embeds_here(&model) {
            match find(OwnerKind::Chunk, Kind::Semantic).await {
                // The space has switched to another model meanwhile.
                Err(SearchError::Llm(_)) => Vec::new(),
                found => found?.hits,
            }
        } else {
            Vec::new()
        };
        let hits: Vec<Hit> = texts.hits.into_iter().chain(names.hits).collect();
        let ids: Vec<i64> = hits.iter().chain(&near).map(|hit| hit.entry_id).collect();
        let groups = self
            .inner
            .store
            .list_entry_groups(&call.space, &ids)
            .await?;
        let mut scores: HashMap<&str, f64> = HashMap::new();
        for hit in &hits {
            if let Some(group) = groups.get(&hit.entry_id) {
                *scores.entry(group).or_default() += hit.score;
            }
        }

        let mut found: Vec<(SourceId, f64)> = scores
            .iter()
            .map(|(id, score)| (SourceId::from_stored((*id).to_owned()), *score))
            .collect();
        found.sort_by(|a, b| {
            b.1.total_cmp(&a.1)
                .then_with(|| a.0.as_str().cmp(b.0.as_str()))
        });
        for hit in &near {
            if let Some(group) = groups.get(&hit.entry_id)
                && !scores.contains_key(group.as_str())
            {
                found.push((SourceId::from_stored(group.clone()), 0.0));
            }
        }
        found.truncate(most);
        Ok(found)
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
