//! Searches the entries of one kind: opens the index, asks for the query's vector, and searches in
//! memory or in the database.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use memoir_index::fields::FieldScores;
use memoir_index::terms::{self, QueryTerm};
use memoir_index::{Filter, Kind, OwnerKind, PreparedQuery};

use super::cache::{Location, blocking};
use super::in_database::DatabaseSearch;
use super::{EntryQuery, FoundEntries, Search, SearchError};
use crate::base::clock::{Timestamp, milliseconds_since};
use crate::base::ids::Space;
use crate::llm::{LlmError, Session};
use crate::model::chunk::RETRIEVAL;
use crate::model::scope::QueryScope;
use crate::model::search::Span;
use crate::store::StoreError;

/// How often a search restarts because its space has switched to another embedding model.
const TURNS: usize = 3;

impl Search {
    /// By words and meaning alone.
    pub(super) async fn find_entries(
        &self,
        session: &Session,
        ask: EntryQuery<'_>,
        filter: impl Future<Output = Result<Filter, StoreError>>,
    ) -> Result<FoundEntries, SearchError> {
        let (inner, space) = (&*self.inner, session.space());
        let mut provider_ms = 0.0;
        let (opened, filter) = tokio::join!(self.open(space, ask), filter);
        let ((mut location, about), mut filter) = (opened?, filter?);
        let text = ask.text.to_owned();
        let terms = blocking(move || terms::of_query(&text)).await?;
        let fields;
        (fields, filter) = self.fields(space, ask, about, &terms, filter).await?;
        let question = PreparedQuery {
            kind: ask.kind,
            terms,
            vector: None,
            fields: Arc::new(fields),
            k: ask.k,
            min_score: ask.min_score,
            by_group: ask.by_group,
        };

        for _ in 0..TURNS {
            let model = match (&location, ask.kind) {
                (_, Kind::Keyword) => None,
                (Location::Memory(entry), _) => {
                    entry.index().model().map(|model| model.name.to_string())
                }
                (Location::Database(_), _) => inner.store.find_embedding_model(space).await?,
            };

            let mut question = question.clone();
            if let Some(model) = &model {
                let asked_at = Instant::now();
                question.vector = Some(self.vector_of(session, model, ask.text).await?);
                provider_ms += milliseconds_since(asked_at);
            }

            let in_memory = matches!(location, Location::Memory(_));
            let hits = match location {
                Location::Database(size) => {
                    let database = DatabaseSearch {
                        store: &inner.store,
                        space,
                        kind: ask.owner_kind,
                        scope: ask.scope,
                        size,
                        model: model.as_deref(),
                    };

                    Some(database.search(&question, &filter).await?)
                }
                Location::Memory(entry) => {
                    let (model, taken) = (model.clone(), std::mem::take(&mut filter));
                    let (hits, back) = blocking(move || {
                        let index = entry.index();
                        let now = index.model().map(|model| &*model.name);
                        let turned = question.kind != Kind::Keyword && now != model.as_deref();
                        ((!turned).then(|| index.search(&question, &taken)), taken)
                    })
                    .await?;

                    filter = back;
                    hits
                }
            };

            if let Some(hits) = hits {
                return Ok(FoundEntries {
                    hits,
                    model,
                    in_memory,
                    provider_ms,
                    identified: None,
                });
            }

            location = inner
                .cache
                .of(space, ask.owner_kind, ask.group, true)
                .await?;
        }

        let cause = "the embedding model of the space keeps changing".to_owned();
        Err(StoreError::Contended { cause }.into())
    }

    /// The index to search; for chunks that are compared by keyword, also the one of what is said
    /// about their sources.
    async fn open(
        &self,
        space: &Space,
        ask: EntryQuery<'_>,
    ) -> Result<(Location, Option<Location>), StoreError> {
        let cache = &self.inner.cache;
        let vectors = ask.kind != Kind::Keyword;
        if ask.owner_kind == OwnerKind::Chunk && ask.kind != Kind::Semantic {
            let (chunks, about) = cache.of_chunks(space, vectors).await?;
            return Ok((chunks, Some(about)));
        }

        let location = cache.of(space, ask.owner_kind, ask.group, vectors);
        Ok((location.await?, None))
    }

    /// What is said about sources adds to the scores of their chunks. Gives the filter back.
    async fn fields(
        &self,
        space: &Space,
        ask: EntryQuery<'_>,
        about: Option<Location>,
        terms: &[QueryTerm],
        filter: Filter,
    ) -> Result<(FieldScores, Filter), StoreError> {
        match about {
            None => Ok((FieldScores::default(), filter)),
            Some(Location::Memory(entry)) if entry.index().is_empty() => {
                Ok((FieldScores::default(), filter))
            }
            Some(Location::Memory(entry)) => {
                let terms = terms.to_vec();
                let find = move || (entry.index().field_scores(&terms, &filter), filter);
                blocking(find).await
            }
            Some(Location::Database(size)) => {
                let database = DatabaseSearch {
                    store: &self.inner.store,
                    space,
                    kind: OwnerKind::Source,
                    scope: ask.scope,
                    size,
                    model: None,
                };
                Ok((database.field_scores(terms).await?, filter))
            }
        }
    }

    /// Which chunks are visible. Without filters, the index itself knows the current version of
    /// each source.
    pub(super) async fn filter(
        &self,
        space: &Space,
        scope: &QueryScope,
        category_id: Option<i64>,
    ) -> Result<Filter, StoreError> {
        let store = &self.inner.store;
        let mut filter = Filter {
            until: scope.as_of.map(Timestamp::as_micros),
            all_versions: scope.all_versions,
            ..Filter::default()
        };

        let QueryScope {
            source_ids,
            tags,
            user_id,
            as_of,
            ..
        } = scope;
        if source_ids.is_empty() && tags.is_empty() && as_of.is_none() {
            // The index knows the end user of each source.
            filter.user_id.clone_from(user_id);
        } else {
            let sources = store.list_sources_in(space, scope).await?;
            let named = sources
                .into_iter()
                .filter_map(|source| Some((source.id, source.version_id?)));
            filter.groups = Some(named.collect());
        }

        if let Some(category_id) = category_id {
            filter.owners = Some(self.chunks_under(space, category_id, scope).await?);
        }

        Ok(filter)
    }

    /// The chunks that overlap with text filed under a category or below it.
    async fn chunks_under(
        &self,
        space: &Space,
        category_id: i64,
        scope: &QueryScope,
    ) -> Result<HashSet<i64>, StoreError> {
        let store = &self.inner.store;
        let filed = store.list_spans_under(space, category_id, scope).await?;
        let mut versions: Vec<i64> = filed.iter().map(|span| span.version_id).collect();
        versions.dedup();
        let others = store.list_spans_of(space, &versions, RETRIEVAL).await?;
        let touching = others.iter().filter(|span| touches(&filed, span));

        Ok(filed
            .iter()
            .chain(touching)
            .map(|span| span.chunk_id)
            .collect())
    }

    /// The vector of a query, requested once.
    async fn vector_of(
        &self,
        session: &Session,
        model: &str,
        query: &str,
    ) -> Result<Vec<f32>, LlmError> {
        let key = (model.to_owned(), query.to_owned());
        let known = self
            .inner
            .questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&key)
            .cloned();

        if let Some(known) = known {
            return Ok(known);
        }

        let found = self.inner.llm.embed(session, model, &[query]).await?;
        let vector = found.into_iter().next().unwrap_or_default();
        self.inner
            .questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key, vector.clone());

        Ok(vector)
    }
}

/// Whether a chunk shares text with any of these, which are ordered by version and position.
fn touches(filed: &[Span], span: &Span) -> bool {
    let next = filed.partition_point(|one| {
        (one.version_id, one.end_char) <= (span.version_id, span.start_char)
    });
    filed
        .get(next)
        .is_some_and(|one| one.version_id == span.version_id && one.start_char < span.end_char)
}
