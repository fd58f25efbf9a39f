//! Where a query finds what it reads: in the store as it is now, or in its record. A replay is a
//! query with a recorded finder and recorded answers of the models; no step knows the difference.

use std::collections::HashMap;
use std::time::Instant;

use super::auto::decide::Reach;
use super::auto::ranking::{self, RankedChunk};
use super::auto::searching::{self, SearchOutcome};
use super::auto::{Tier, picking};
use super::budget::ModeTokens;
use super::cursor::{LeafCursor, LeafPlace};
use super::hints::{self, Hints};
use super::leaves::{self, Leaves};
use super::memories::{self, ScoredMemories};
use super::receipt::Receipt;
use super::steps::QueryContext;
use super::traversal::{CategoryView, Hierarchy, Offer, Path, Walker};
use super::{Inner, QueryError, QuerySettings, sources};
use crate::base::clock::milliseconds_since;
use crate::base::ids::{SourceId, Space};
use crate::llm::Session;
use crate::model::chunk::SourceChunk;
use crate::model::query::SourceHelper;
use crate::model::scope::QueryScope;
use crate::retrieval::{Item, hydrate};
use crate::store::LeafPart;

pub enum Finder<'a> {
    Live(Live<'a>),
    Recorded(Record<'a>),
}

/// The store, the search and the caches, within the scope of the query.
pub struct Live<'a> {
    pub inner: &'a Inner,
    pub space: &'a Space,
    pub settings: &'a QuerySettings,
    pub session: &'a Session,
    pub scope: QueryScope,
    /// The last tier that `auto` may use.
    pub reach: Reach,
}

/// The receipt, and the texts that it names.
pub struct Record<'a> {
    pub inner: &'a Inner,
    pub space: &'a Space,
    pub receipt: &'a Receipt,
}

impl Finder<'_> {
    /// The hierarchy, and what else a model sees when it selects from it.
    pub async fn view(&self) -> Result<CategoryView, QueryError> {
        match self {
            Self::Live(live) => Ok(CategoryView {
                hierarchy: live.inner.hierarchy(live.space, &live.scope).await?,
                contextual_helper: sources::described(&live.inner.store, live.space, &live.scope)
                    .await?,
                hints: hints::of(live).await?,
            }),
            Self::Recorded(record) => Ok(CategoryView {
                hierarchy: Hierarchy::recorded(&record.receipt.levels),
                contextual_helper: None,
                hints: Hints::Nothing,
            }),
        }
    }

    /// The paths of an earlier page.
    pub async fn page_paths(&self, cursor: &LeafCursor) -> Result<Vec<Path>, QueryError> {
        match self {
            Self::Live(live) => {
                let store = &live.inner.store;
                let names = store
                    .find_category_paths(live.space, &cursor.leaves(), live.scope.as_of)
                    .await?;
                let name = |leaf| {
                    let path = names.get(&leaf)?;
                    Some(path.iter().map(|(_, name)| name.clone()).collect())
                };
                Ok(cursor.paths(name))
            }
            Self::Recorded(record) => Ok(record.receipt.paths.clone()),
        }
    }

    /// The chunks of leaves, from where an earlier page ended.
    pub async fn leaf_chunks(
        &self,
        paths: &[Path],
        after: Option<&LeafPlace>,
    ) -> Result<Leaves, QueryError> {
        match self {
            Self::Live(live) => Ok(leaves::read(live, paths, after).await?),
            Self::Recorded(record) => record.leaf_chunks(paths, after).await,
        }
    }

    /// The chunks that a search finds, for a budget of tokens.
    pub async fn search(&self, budget: i64) -> Result<SearchOutcome, QueryError> {
        match self {
            Self::Live(live) => searching::search(live, budget).await,
            Self::Recorded(record) => Ok(record.searched()),
        }
    }

    /// The categories among which a model picks.
    pub async fn offers(
        &self,
        walker: &Walker<'_>,
        chunks: &[RankedChunk],
    ) -> Result<Vec<(Path, Offer)>, QueryError> {
        match self {
            Self::Live(live) => picking::offers(live, walker, chunks).await,
            Self::Recorded(record) => Ok(picking::recorded_offers(
                &record.receipt.levels,
                record.inner.depth(),
            )),
        }
    }

    /// The chunks of picked leaves. The record has them among those that were read.
    pub async fn picked_chunks(&self, parts: &[LeafPart]) -> Result<Vec<SourceChunk>, QueryError> {
        match self {
            Self::Live(live) => {
                let store = &live.inner.store;
                Ok(store
                    .list_leaf_chunks(live.space, &live.scope, parts)
                    .await?)
            }
            Self::Recorded(_) => Ok(Vec::new()),
        }
    }

    /// A tier as the record has it: its counts include chunks that were not read.
    pub fn recorded_tier(&self, place: usize) -> Option<&Tier> {
        match self {
            Self::Live(_) => None,
            Self::Recorded(record) => record.receipt.auto.as_ref()?.tiers.get(place),
        }
    }

    /// Which of the ranked chunks are read, and which are left for further pages.
    pub fn choose(
        &self,
        ranked: Vec<RankedChunk>,
        limits: ranking::Limits,
    ) -> (Vec<RankedChunk>, Vec<(i64, u32)>) {
        match self {
            Self::Live(_) => ranking::choose(ranked, limits),
            Self::Recorded(record) => {
                let auto = record.receipt.auto.clone().unwrap_or_default();
                (auto.read, auto.rest)
            }
        }
    }

    /// Ranked chunks with their texts, in their order; only those that the query may see.
    pub async fn hydrate(
        &self,
        ranked: Vec<RankedChunk>,
    ) -> Result<Vec<Item<SourceChunk, RankedChunk>>, QueryError> {
        let found = ranked.into_iter().map(|one| (one.chunk_id, one)).collect();
        match self {
            Self::Live(live) => {
                let store = &live.inner.store;
                let mut items: Vec<Item<SourceChunk, RankedChunk>> =
                    hydrate(store, live.space, Some(&live.scope), found).await?;
                for item in &mut items {
                    item.scores.leaf = item.found.leaf();
                }
                Ok(items)
            }
            Self::Recorded(record) => {
                Ok(hydrate(&record.inner.store, record.space, None, found).await?)
            }
        }
    }

    /// The ids and names on the paths to leaves.
    pub async fn leaf_paths(
        &self,
        leaves: &[i64],
    ) -> Result<HashMap<i64, (Vec<i64>, Vec<String>)>, QueryError> {
        match self {
            Self::Live(live) => {
                let filed: Vec<i64> = leaves.iter().copied().filter(|leaf| *leaf != 0).collect();
                let store = &live.inner.store;
                let as_of = live.scope.as_of;
                let found = store.find_category_paths(live.space, &filed, as_of).await?;
                let found = found.into_iter();
                Ok(found
                    .map(|(leaf, path)| (leaf, path.into_iter().unzip()))
                    .collect())
            }
            Self::Recorded(record) => {
                let paths = record.receipt.paths.iter();
                Ok(paths
                    .map(|path| (path.leaf(), (path.ids.clone(), path.names.clone())))
                    .collect())
            }
        }
    }

    /// The helpers of sources.
    pub async fn helpers(&self, ids: &[SourceId]) -> Result<Vec<SourceHelper>, QueryError> {
        match self {
            Self::Live(live) => {
                let (store, as_of) = (&live.inner.store, live.scope.as_of);
                Ok(sources::helpers(store, live.space, ids, as_of).await?)
            }
            Self::Recorded(record) if !ids.is_empty() => {
                let versions = record.receipt.helpers.iter();
                let versions: Vec<(SourceId, i64)> = versions
                    .filter_map(|(id, version)| Some((id.parse().ok()?, *version)))
                    .collect();
                let store = &record.inner.store;
                Ok(store.list_helper_versions(record.space, &versions).await?)
            }
            Self::Recorded(_) => Ok(Vec::new()),
        }
    }

    /// The memories of the user that match the query, best first.
    pub async fn memories(&self) -> Result<ScoredMemories, QueryError> {
        match self {
            Self::Live(live) => memories::search(live).await,
            Self::Recorded(record) => {
                memories::recorded(&record.inner.store, record.space, record.receipt).await
            }
        }
    }

    /// What the output mode adds to prompts.
    pub fn mode_tokens(&self, query: &QueryContext<'_>) -> ModeTokens {
        match self {
            Self::Live(live) => {
                let model = live.settings.model.as_deref();
                ModeTokens::of(&live.inner.llm, model, query.counter)
            }
            Self::Recorded(record) => record.receipt.mode_tokens,
        }
    }
}

impl Live<'_> {
    /// Whether a language model selects categories, rather than the embedded model.
    pub fn language_model_selects(&self) -> bool {
        !self.inner.llm.selects_by_contents(self.session)
    }

    /// Whether the model that selects should see only a few options.
    pub fn selects_from_few(&self) -> bool {
        self.inner.llm.selects_from_few(self.session)
    }
}

impl Record<'_> {
    fn searched(&self) -> SearchOutcome {
        let auto = self.receipt.auto.clone().unwrap_or_default();
        let first = auto.tiers.first();
        SearchOutcome {
            count: first.map_or(0, |tier| usize::try_from(tier.chunks).unwrap_or(0)),
            language_model: auto.tiers.iter().any(|tier| tier.tier == "pick"),
            reach: Reach::default(),
            chunks: auto.read,
            evidence: auto.evidence,
            warning: None,
        }
    }

    async fn leaf_chunks(
        &self,
        paths: &[Path],
        after: Option<&LeafPlace>,
    ) -> Result<Leaves, QueryError> {
        let begun = Instant::now();
        let recorded = self.receipt.paths.iter();
        // A chunk keeps its recorded leaf: it may have moved since.
        let leaves: HashMap<i64, i64> = recorded
            .flat_map(|path| path.chunk_ids.iter().map(|id| (*id, path.leaf())))
            .collect();

        let ids: Vec<i64> = leaves.keys().copied().collect();
        let store = &self.inner.store;
        let mut chunks = store.list_source_chunks(self.space, &ids, None).await?;
        for chunk in &mut chunks {
            chunk.category_id = leaves.get(&chunk.id).copied();
        }

        let mut found = Leaves::of(chunks, paths);
        if let Some(latency) = found.latencies.get_mut(after.map_or(0, |after| after.path)) {
            *latency = milliseconds_since(begun);
        }

        let errors = &self.receipt.path_errors;
        let is_empty = |path: &Path| errors.iter().any(|error| error.path == path.names);
        found.empty = paths.iter().map(is_empty).collect();
        found.next.clone_from(&self.receipt.next);
        Ok(found)
    }
}
