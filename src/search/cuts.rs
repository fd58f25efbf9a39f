//! A text is cut twice: into chunks for searching, and into shorter ones for filing. A search finds
//! the former, categories hold the latter. This maps one cut onto the other by ranges of characters.
//!
//! The ranges of filed chunks are cached by version: reading those of a book takes longer than the
//! search. A version's chunks never change their ranges, and ids are never used again; only a version
//! that is still being written gets more chunks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use hashlink::LruCache;

use crate::base::clock::Timestamp;
use crate::base::ids::Space;
use crate::model::chunk::ChunkRange;
use crate::store::{Store, StoreError};

/// Maximum cached versions, and maximum chunks of one: at most 140 MB in all, and some 25 MB if each
/// is a long book.
const MAX_VERSIONS: usize = 500;
const MAX_CHUNKS: usize = 5_000;

/// The filed chunks of one version, by their beginning.
type FiledCut = Arc<[ChunkRange]>;

/// The filed cuts of all spaces.
pub struct Cuts {
    cache: Mutex<LruCache<(Space, i64), FiledCut>>,
}

impl Default for Cuts {
    fn default() -> Self {
        Self {
            cache: Mutex::new(LruCache::new(MAX_VERSIONS)),
        }
    }
}

impl Cuts {
    /// The filed chunks that share text with each of these chunks, by its id. A filed chunk stands
    /// for itself, and so does one of a version without filed chunks; deleted ones are missing. Their
    /// leaves are those of now or of a time.
    pub async fn filed(
        &self,
        store: &Store,
        space: &Space,
        ids: &[i64],
        as_of: Option<Timestamp>,
    ) -> Result<HashMap<i64, Vec<ChunkRange>>, StoreError> {
        let found = store.list_chunk_ranges(space, ids).await?;
        let (cuts, read) = self.cuts_of(store, space, &found).await?;
        let shared = |range: &ChunkRange| match cuts.get(&range.version_id) {
            Some(cut) if !range.is_filed && !cut.is_empty() => overlapping(cut, range).to_vec(),
            _ => vec![*range],
        };
        let mut filed: HashMap<i64, Vec<ChunkRange>> = found
            .iter()
            .map(|range| (range.chunk_id, shared(range)))
            .collect();

        // A chunk may have moved to another leaf since its range was cached.
        let mut leaves: HashMap<i64, i64> = found
            .iter()
            .chain(&read)
            .map(|range| (range.chunk_id, range.leaf))
            .collect();
        let mut cached: Vec<i64> = filed
            .values()
            .flatten()
            .map(|range| range.chunk_id)
            .collect();
        cached.retain(|id| !leaves.contains_key(id));
        cached.sort_unstable();
        cached.dedup();
        let current = store.list_chunk_ranges(space, &cached).await?;
        leaves.extend(current.iter().map(|range| (range.chunk_id, range.leaf)));
        if let Some(moment) = as_of {
            let all: Vec<i64> = leaves.keys().copied().collect();
            leaves.extend(store.list_leaves_as_of(space, &all, moment).await?);
        }

        for ranges in filed.values_mut() {
            ranges.retain_mut(|range| {
                let leaf = leaves.get(&range.chunk_id);
                range.leaf = leaf.copied().unwrap_or(0);
                leaf.is_some()
            });
        }

        Ok(filed)
    }

    /// The filed cut of each version of these chunks, and what was read for it.
    async fn cuts_of(
        &self,
        store: &Store,
        space: &Space,
        chunks: &[ChunkRange],
    ) -> Result<(HashMap<i64, FiledCut>, Vec<ChunkRange>), StoreError> {
        let mut cuts: HashMap<i64, FiledCut> = HashMap::new();
        let mut unknown = Vec::new();
        for chunk in chunks.iter().filter(|chunk| !chunk.is_filed) {
            let cut = self.cached(space, chunk.version_id);
            match cut.filter(|cut| covers(cut, chunk)) {
                Some(cut) => _ = cuts.insert(chunk.version_id, cut),
                None => unknown.push(chunk.version_id),
            }
        }

        unknown.sort_unstable();
        unknown.dedup();
        let read = store.list_filed_ranges(space, &unknown).await?;
        for version_id in unknown {
            let own = read.iter().filter(|range| range.version_id == version_id);
            let mut cut: Vec<ChunkRange> = own.copied().collect();
            cut.sort_by_key(|range| (range.start_char, range.chunk_id));
            let cut: FiledCut = cut.into();
            self.store(space, version_id, &cut);
            cuts.insert(version_id, cut);
        }

        Ok((cuts, read))
    }

    fn cached(&self, space: &Space, version_id: i64) -> Option<FiledCut> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.get(&(space.clone(), version_id)).cloned()
    }

    fn store(&self, space: &Space, version_id: i64, cut: &FiledCut) {
        if cut.len() <= MAX_CHUNKS {
            let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
            cache.insert((space.clone(), version_id), Arc::clone(cut));
        }
    }
}

/// The part of a cut that shares text with a chunk.
fn overlapping<'c>(cut: &'c [ChunkRange], chunk: &ChunkRange) -> &'c [ChunkRange] {
    let first = cut.partition_point(|part| part.end_char <= chunk.start_char);
    let after = cut.partition_point(|part| part.start_char < chunk.end_char);
    &cut[first.min(after)..after]
}

/// Whether a cut has all the text of a chunk; otherwise more of it may have been written.
fn covers(cut: &[ChunkRange], chunk: &ChunkRange) -> bool {
    let parts = overlapping(cut, chunk);
    let begins = parts
        .first()
        .is_some_and(|part| part.start_char <= chunk.start_char);
    begins
        && parts
            .last()
            .is_some_and(|part| part.end_char >= chunk.end_char)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(chunk_id: i64, start_char: i64, end_char: i64) -> ChunkRange {
        ChunkRange {
            chunk_id,
            version_id: 1,
            is_filed: true,
            start_char,
            end_char,
            token_count: 1,
            leaf: 7,
        }
    }

    #[test]
    fn a_chunk_is_mapped_to_the_filed_chunks_that_share_its_text() {
        let cut = [range(1, 0, 100), range(2, 100, 200), range(3, 200, 300)];
        let mapped = |start, end| {
            let found = range(9, start, end);
            let parts = overlapping(&cut, &found).iter().map(|part| part.chunk_id);
            (parts.collect::<Vec<_>>(), covers(&cut, &found))
        };

        assert_eq!(mapped(0, 100), (vec![1], true));
        assert_eq!(mapped(50, 150), (vec![1, 2], true));
        assert_eq!(mapped(199, 300), (vec![2, 3], true));
        // More chunks are being written.
        assert_eq!(mapped(250, 350), (vec![3], false));
        assert_eq!(mapped(300, 400), (vec![], false));
    }
}
