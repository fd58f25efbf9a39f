//! Passages of the leaves that were reached: each leaf once, all in one trip to the database, in the one order (M-4.3, M-9.D).

use std::collections::HashMap;
use std::time::Instant;

use super::QueryError;
use super::ask::Ask;
use super::page::{Cursor, Place};
use super::traversal::Path;
use crate::base::ids::{SourceId, Space};
use crate::model::query::{Candidate, QueryScope, SourceHelper};
use crate::store::{LeafPart, Store};

/// Where passages come from.
pub enum Shelf {
    Stored {
        store: Store,
        space: Space,
        scope: QueryScope,
    },
    /// Those that were found then, and the versions of the descriptions.
    Recorded {
        store: Store,
        space: Space,
        chunk_ids: Vec<i64>,
        helpers: Vec<(SourceId, i64)>,
        next: Option<Place>,
    },
}

/// Passages in order, with the place of their path.
#[derive(Debug, Default)]
pub struct Found {
    pub chunks: Vec<(usize, Candidate)>,
    /// How many of each path.
    pub counts: Vec<i64>,
    /// By path: whether there was nothing at all.
    pub empty: Vec<bool>,
    pub latency_ms: f64,
    /// Where the next page begins, if there is one.
    pub next: Option<Place>,
}

impl Shelf {
    /// Reads what the question may have of each path.
    pub async fn read(&self, ask: &Ask, paths: &[Path], from: Option<&Cursor>) -> Result<Found, QueryError> {
        let limit = usize::try_from(ask.limit).unwrap_or(usize::MAX);
        let per_path = match ask.per_path_limit {
            0 => usize::MAX,
            most => usize::try_from(most).unwrap_or(usize::MAX),
        };
        let begun = Instant::now();
        let rows = match self {
            Self::Stored { store, space, scope } => {
                // One more than wanted tells whether there is more.
                let part = |(place, path): (usize, &Path)| {
                    let here = from.filter(|cursor| cursor.after.path == place).map(|cursor| &cursor.after);
                    LeafPart {
                        leaf: path.leaf(),
                        after: here.map(Place::passage),
                        limit: per_path.saturating_sub(here.map_or(0, |here| here.taken)).min(limit + 1),
                    }
                };
                let first = from.map_or(0, |cursor| cursor.after.path);
                let parts: Vec<LeafPart> = paths.iter().enumerate().skip(first).map(part).collect();
                store.list_candidates(space, scope, &parts).await?
            }
            Self::Recorded { store, space, chunk_ids, .. } => store.list_chunks_by_id(space, chunk_ids).await?,
        };
        let latency_ms = milliseconds(begun);
        let numbers: HashMap<i64, usize> = paths.iter().enumerate().map(|(place, path)| (path.leaf(), place)).collect();
        let known = rows.into_iter().filter_map(|chunk| Some((*numbers.get(&chunk.category_id)?, chunk)));
        let mut chunks: Vec<(usize, Candidate)> = known.collect();
        chunks.sort_by_key(|(place, chunk)| (*place, chunk.created_at, chunk.id));
        let mut empty = vec![true; paths.len()];
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
            let before = from.filter(|cursor| cursor.after.path == *place).map_or(0, |cursor| cursor.after.taken);
            let taken = before + usize::try_from(counts[*place]).unwrap_or(0);
            Place { path: *place, created_at: last.created_at.as_micros(), id: last.id, taken }
        });
        let next = if let Self::Recorded { next, .. } = self { next.clone() } else { next };
        Ok(Found { chunks, counts, empty, latency_ms, next })
    }

    /// The descriptions of documents.
    pub async fn helpers(&self, sources: &[SourceId]) -> Result<Vec<SourceHelper>, QueryError> {
        if sources.is_empty() {
            return Ok(Vec::new());
        }
        Ok(match self {
            Self::Stored { store, space, scope } => store.list_source_helpers(space, sources, scope.as_of).await?,
            Self::Recorded { store, space, helpers, .. } => store.list_helper_versions(space, helpers).await?,
        })
    }
}

/// To the microsecond; more would be noise.
pub fn milliseconds(since: Instant) -> f64 {
    (since.elapsed().as_secs_f64() * 1e6).round() / 1000.0
}
