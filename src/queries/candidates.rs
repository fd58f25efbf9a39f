//! Chunks of the selected leaves: each leaf once, as many as possible in one statement, in a fixed
//! order.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use memoir_text::text::one_line;

use super::QueryError;
use super::input::QuerySettings;
use super::page::{Cursor, Place};
use super::traversal::Path;
use crate::base::ids::{SourceId, Space};
use crate::model::query::{Candidate, QueryScope, SourceHelper};
use crate::store::{LeafPart, Store};

/// Leaves per statement: more than any strategy selects by default. The rows must fit into memory
/// many times over.
const LEAVES_AT_ONCE: usize = 16;

/// Maximum sources whose helpers are shown to the model that selects categories.
const MAX_DESCRIBED: usize = 3;

/// Where chunks come from.
pub enum LeafReader {
    Stored {
        store: Store,
        space: Space,
        scope: QueryScope,
    },
    /// The recorded chunks, and the versions of the helpers.
    Recorded {
        store: Store,
        space: Space,
        /// Each chunk's recorded leaf: it may have moved since.
        leaves: HashMap<i64, i64>,
        helpers: Vec<(SourceId, i64)>,
        next: Option<Place>,
    },
}

/// Chunks in order, each with the index of its path.
#[derive(Debug, Default)]
pub struct Found {
    pub chunks: Vec<(usize, Candidate)>,
    /// The number of chunks per path.
    pub counts: Vec<i64>,
    /// By path: whether there was nothing at all.
    pub empty: Vec<bool>,
    /// By path, in milliseconds: the time of a statement is attributed to its first path.
    pub latencies: Vec<f64>,
    /// Where the next page begins, if any.
    pub next: Option<Place>,
}

impl LeafReader {
    /// Reads the chunks of each path that the query may see.
    pub async fn read(
        &self,
        ask: &QuerySettings,
        paths: &[Path],
        from: Option<&Cursor>,
    ) -> Result<Found, QueryError> {
        let limit = usize::try_from(ask.limit).unwrap_or(usize::MAX);
        let per_path = match ask.per_path_limit {
            0 => usize::MAX,
            most => usize::try_from(most).unwrap_or(usize::MAX),
        };

        let first = from.map_or(0, |cursor| cursor.after.path);
        let mut latencies = vec![0.0; paths.len()];
        let mut empty = vec![false; paths.len()];
        let mut rows = Vec::new();

        match self {
            Self::Stored {
                store,
                space,
                scope,
            } => {
                // One more than wanted shows whether there is more.
                let part = |place: &usize| {
                    let here = from
                        .filter(|cursor| cursor.after.path == *place)
                        .map(|cursor| &cursor.after);
                    LeafPart {
                        leaf: paths[*place].leaf(),
                        after: here.map(Place::chunk),
                        limit: per_path
                            .saturating_sub(here.map_or(0, |here| here.taken))
                            .min(limit + 1),
                    }
                };

                let places: Vec<usize> = (first..paths.len()).collect();
                for some in places.chunks(LEAVES_AT_ONCE) {
                    if rows.len() > limit {
                        break;
                    }

                    let begun = Instant::now();
                    let parts: Vec<LeafPart> = some.iter().map(part).collect();
                    rows.extend(store.list_candidates(space, scope, &parts).await?);
                    latencies[some[0]] = milliseconds(begun);

                    for place in some {
                        empty[*place] = true;
                    }
                }

                // A chunk that moved between two reads appears twice.
                let mut seen = HashSet::new();
                rows.retain(|chunk| seen.insert(chunk.id));
            }
            Self::Recorded {
                store,
                space,
                leaves,
                ..
            } => {
                let begun = Instant::now();
                let ids: Vec<i64> = leaves.keys().copied().collect();
                rows = store.list_chunks_by_id(space, &ids).await?;
                for chunk in &mut rows {
                    chunk.category_id = leaves.get(&chunk.id).copied().unwrap_or(chunk.category_id);
                }

                if let Some(latency) = latencies.get_mut(first) {
                    *latency = milliseconds(begun);
                }
            }
        }

        let numbers: HashMap<i64, usize> = paths
            .iter()
            .enumerate()
            .map(|(place, path)| (path.leaf(), place))
            .collect();

        let known = rows
            .into_iter()
            .filter_map(|chunk| Some((*numbers.get(&chunk.category_id)?, chunk)));
        let mut chunks: Vec<(usize, Candidate)> = known.collect();
        chunks.sort_by_key(|(place, chunk)| (*place, chunk.created_at, chunk.id));
        for (place, _) in &chunks {
            empty[*place] = false;
        }

        let more = chunks.len() > limit;
        chunks.truncate(limit);
        let mut counts = vec![0; paths.len()];
        for (place, _) in &chunks {
            counts[*place] += 1;
        }

        let next = chunks.last().filter(|_| more).map(|(place, last)| {
            let before = from
                .filter(|cursor| cursor.after.path == *place)
                .map_or(0, |cursor| cursor.after.taken);
            let taken = before + usize::try_from(counts[*place]).unwrap_or(0);
            Place {
                path: *place,
                created_at: last.created_at.as_micros(),
                id: last.id,
                taken,
                returned: from.map_or(0, |cursor| cursor.after.returned) + chunks.len(),
            }
        });

        let next = if let Self::Recorded { next, .. } = self {
            next.clone()
        } else {
            next
        };

        Ok(Found {
            chunks,
            counts,
            empty,
            latencies,
            next,
        })
    }

    /// Chunks by id, filed or not, that the query may see.
    pub async fn read_by_id(&self, ids: &[i64]) -> Result<Vec<Candidate>, QueryError> {
        Ok(match self {
            Self::Stored {
                store,
                space,
                scope,
            } => store.list_ranked_chunks(space, ids, Some(scope)).await?,
            Self::Recorded { store, space, .. } => {
                store.list_ranked_chunks(space, ids, None).await?
            }
        })
    }

    /// The helpers shown to the selecting model, if the query names a few sources.
    pub async fn described(&self) -> Result<Option<Arc<str>>, QueryError> {
        let Self::Stored {
            store,
            space,
            scope,
        } = self
        else {
            return Ok(None);
        };
        if scope.source_ids.is_empty() || scope.source_ids.len() > MAX_DESCRIBED {
            return Ok(None);
        }

        let mut ids = scope.source_ids.clone();
        if let Some(user) = &scope.user_id {
            let sources = store.list_sources_by_id(space, &ids).await?;
            let is_own = |id: &SourceId| {
                sources
                    .iter()
                    .any(|one| one.id == *id && one.user_id == *user)
            };
            ids.retain(is_own);
        }

        let helpers = self.helpers(&ids).await?;
        let of = |id: &SourceId| helpers.iter().find(|helper| helper.source_id == *id);
        let texts: Vec<String> = ids
            .iter()
            .filter_map(of)
            .map(|helper| one_line(&helper.text))
            .collect();

        Ok((!texts.is_empty()).then(|| texts.join(" ").into()))
    }

    /// The helpers of sources.
    pub async fn helpers(&self, sources: &[SourceId]) -> Result<Vec<SourceHelper>, QueryError> {
        if sources.is_empty() {
            return Ok(Vec::new());
        }
        Ok(match self {
            Self::Stored {
                store,
                space,
                scope,
            } => {
                store
                    .list_source_helpers(space, sources, scope.as_of)
                    .await?
            }
            Self::Recorded {
                store,
                space,
                helpers,
                ..
            } => store.list_helper_versions(space, helpers).await?,
        })
    }
}

/// Rounded to microseconds; more digits would be noise.
pub fn milliseconds(since: Instant) -> f64 {
    (since.elapsed().as_secs_f64() * 1e6).round() / 1000.0
}
