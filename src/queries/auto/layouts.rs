//! Where the filed chunks of long sources begin and end, kept in memory: a search finds its own
//! chunks of such a source, and reading all filed chunks to find those with the same text would take
//! longer than the search. A version's chunks never change their place, and ids are never used
//! again; only a version that is still being written gets more chunks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use hashlink::LruCache;

use crate::base::ids::Space;
use crate::model::query::PlacedChunk;
use crate::store::{Store, StoreError};

/// Maximum kept versions, and maximum chunks of one: at most 60 MB in all, and some 10 MB if each is
/// a long book.
const MAX_VERSIONS: usize = 500;
const MAX_CHUNKS: usize = 5_000;

/// The filed chunks of one version, by their beginning.
type Layout = Arc<[Part]>;

#[derive(Debug, Clone, Copy)]
struct Part {
    chunk_id: i64,
    start_char: i64,
    end_char: i64,
}

/// The layouts of all spaces.
pub struct Layouts {
    kept: Mutex<LruCache<(Space, i64), Layout>>,
}

impl Default for Layouts {
    fn default() -> Self {
        Self {
            kept: Mutex::new(LruCache::new(MAX_VERSIONS)),
        }
    }
}

impl Layouts {
    /// The filed chunks that share text with chunks that were cut for search; of a version that is
    /// not known yet, all.
    pub async fn list_filed(
        &self,
        store: &Store,
        space: &Space,
        places: &[PlacedChunk],
    ) -> Result<Vec<PlacedChunk>, StoreError> {
        let mut by_version: HashMap<i64, Vec<&PlacedChunk>> = HashMap::new();
        for place in places.iter().filter(|place| !place.filed) {
            by_version.entry(place.version_id).or_default().push(place);
        }

        let (mut wanted, mut unknown) = (Vec::new(), Vec::new());
        for (version, places) in &by_version {
            let known = self.find(space, *version);
            let parts = known.and_then(|layout| parts_of(&layout, places));
            match parts {
                Some(parts) => wanted.extend(parts),
                None => unknown.push(*version),
            }
        }

        unknown.sort_unstable();
        wanted.sort_unstable();
        wanted.dedup();
        let mut filed = store.list_filed_chunks(space, &unknown).await?;
        for version in unknown {
            self.keep(space, version, &filed);
        }

        filed.extend(store.list_placed_chunks(space, &wanted).await?);
        Ok(filed)
    }

    fn find(&self, space: &Space, version: i64) -> Option<Layout> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(&(space.clone(), version)).cloned()
    }

    fn keep(&self, space: &Space, version: i64, filed: &[PlacedChunk]) {
        let own = filed.iter().filter(|chunk| chunk.version_id == version);
        let mut parts: Vec<Part> = own
            .map(|chunk| Part {
                chunk_id: chunk.chunk_id,
                start_char: chunk.start_char,
                end_char: chunk.end_char,
            })
            .collect();
        if parts.len() > MAX_CHUNKS {
            return;
        }

        parts.sort_by_key(|part| part.start_char);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert((space.clone(), version), parts.into());
    }
}

/// The chunks that share text with some places; none if they do not cover each of them.
fn parts_of(layout: &[Part], places: &[&PlacedChunk]) -> Option<Vec<i64>> {
    let mut found = Vec::new();
    for place in places {
        let first = layout.partition_point(|part| part.end_char <= place.start_char);
        let after = layout.partition_point(|part| part.start_char < place.end_char);
        let parts = layout.get(first..after)?;
        let covers = parts.first()?.start_char <= place.start_char
            && parts.last()?.end_char >= place.end_char;
        if !covers {
            return None;
        }

        found.extend(parts.iter().map(|part| part.chunk_id));
    }

    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(start_char: i64, end_char: i64) -> PlacedChunk {
        PlacedChunk {
            chunk_id: 9,
            version_id: 1,
            filed: false,
            start_char,
            end_char,
            token_count: 1,
            category_id: 0,
        }
    }

    #[test]
    fn finds_the_parts_that_share_text() {
        let part = |chunk_id, start_char, end_char| Part {
            chunk_id,
            start_char,
            end_char,
        };
        let layout = [part(1, 0, 100), part(2, 100, 200), part(3, 200, 300)];
        let parts = |from, to| parts_of(&layout, &[&place(from, to)]);

        assert_eq!(parts(0, 100), Some(vec![1]));
        assert_eq!(parts(50, 150), Some(vec![1, 2]));
        assert_eq!(parts(199, 300), Some(vec![2, 3]));
        // More chunks are being written.
        assert_eq!(parts(250, 350), None);
        assert_eq!(parts(300, 400), None);
    }
}
