//! Chunks of the selected leaves: each leaf once, as many as possible in one statement, in a fixed
//! order.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use super::cursor::LeafPlace;
use super::finder::Live;
use super::steps::{ChunkRank, QueryItem};
use super::traversal::Path;
use crate::base::clock::milliseconds_since;
use crate::model::chunk::SourceChunk;
use crate::retrieval::Item;
use crate::store::{LeafPart, StoreError};

/// Leaves per statement: more than any strategy selects by default. The rows must fit into memory
/// many times over.
const LEAVES_AT_ONCE: usize = 16;

/// The chunks of the leaves of some paths.
pub struct Leaves {
    /// In the order of the paths.
    pub items: Vec<QueryItem>,
    /// By path: whether its leaf was read from its beginning and has no chunk.
    pub empty: Vec<bool>,
    /// By path, in milliseconds: the time of a statement is attributed to its first path.
    pub latencies: Vec<f64>,
    /// Where the next page begins, if any.
    pub next: Option<LeafPlace>,
}

impl Leaves {
    /// Chunks in the order of their paths, then of their arrival.
    pub fn of(chunks: Vec<SourceChunk>, paths: &[Path]) -> Self {
        let numbers: HashMap<i64, usize> = paths.iter().map(Path::leaf).zip(0..).collect();
        let item = |chunk: SourceChunk| {
            let path = *numbers.get(&chunk.leaf())?;
            let rank = ChunkRank {
                path,
                relevance: paths[path].relevance(),
                ..ChunkRank::default()
            };
            Some(Item::new(chunk, rank))
        };

        let mut items: Vec<QueryItem> = chunks.into_iter().filter_map(item).collect();
        items.sort_by_key(|item| (item.scores.path, item.found.created_at, item.found.id));
        Self {
            items,
            empty: vec![false; paths.len()],
            latencies: vec![0.0; paths.len()],
            next: None,
        }
    }

    /// The number of chunks per path.
    pub fn counts(&self) -> Vec<i64> {
        let mut counts = vec![0; self.empty.len()];
        for item in &self.items {
            counts[item.scores.path] += 1;
        }

        counts
    }

    /// Cuts off what exceeds the limit, and notes where the next page begins.
    fn limit(&mut self, limit: usize, after: Option<&LeafPlace>) {
        if self.items.len() <= limit {
            return;
        }

        self.items.truncate(limit);
        let counts = self.counts();
        self.next = self.items.last().map(|last| {
            let path = last.scores.path;
            let here = after.filter(|after| after.path == path);
            let count = usize::try_from(counts[path]).unwrap_or(0);
            LeafPlace {
                path,
                created_at: last.found.created_at.as_micros(),
                id: last.found.id,
                taken: here.map_or(0, |here| here.taken) + count,
                returned: after.map_or(0, |after| after.returned) + self.items.len(),
            }
        });
    }
}

/// Reads the chunks of each path that the query may see.
pub async fn read(
    live: &Live<'_>,
    paths: &[Path],
    after: Option<&LeafPlace>,
) -> Result<Leaves, StoreError> {
    let limit = usize::try_from(live.settings.limit).unwrap_or(usize::MAX);
    let per_path = match live.settings.per_path_limit {
        0 => usize::MAX,
        most => usize::try_from(most).unwrap_or(usize::MAX),
    };

    // One more than wanted shows whether there is more.
    let part = |place: &usize| {
        let here = after.filter(|after| after.path == *place);
        LeafPart {
            leaf: paths[*place].leaf(),
            after: here.map(LeafPlace::chunk),
            limit: per_path
                .saturating_sub(here.map_or(0, |here| here.taken))
                .min(limit + 1),
        }
    };

    let mut chunks = Vec::new();
    let mut was_read = vec![false; paths.len()];
    let mut latencies = vec![0.0; paths.len()];
    let places: Vec<usize> = (after.map_or(0, |after| after.path)..paths.len()).collect();
    for some in places.chunks(LEAVES_AT_ONCE) {
        if chunks.len() > limit {
            break;
        }

        let begun = Instant::now();
        let parts: Vec<LeafPart> = some.iter().map(part).collect();
        let store = &live.inner.store;
        chunks.extend(
            store
                .list_leaf_chunks(live.space, &live.scope, &parts)
                .await?,
        );
        latencies[some[0]] = milliseconds_since(begun);
        for place in some {
            was_read[*place] = after.is_none_or(|after| after.path != *place);
        }
    }

    // A chunk that moved between two reads appears twice.
    let mut seen = HashSet::new();
    chunks.retain(|chunk: &SourceChunk| seen.insert(chunk.id));

    let mut leaves = Leaves::of(chunks, paths);
    let counts = leaves.counts();
    let is_empty = |(was_read, count): (bool, &i64)| was_read && *count == 0;
    leaves.empty = was_read.into_iter().zip(&counts).map(is_empty).collect();
    leaves.latencies = latencies;
    leaves.limit(limit, after);
    Ok(leaves)
}
