//! What fits into the memory for indexes, and which indexes give way.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use memoir_index::{OwnerKind, SearchSize};

use super::{IndexCache, IndexKey, SpaceIndex};
use crate::base::ids::Space;
use crate::store::StoreError;

/// How long the size of a space counts before it is read again.
const MEASURED_FOR: Duration = Duration::from_hours(1);
/// About so many bytes of memory per term of a chunk and per chunk; known before any is read.
const TERM_BYTES: u64 = 8;
const ENTRY_BYTES: u64 = 256;
/// Memory of one number of a vector.
const NUMBER_BYTES: u64 = 2;
/// Memory of the index of one group, besides its entries.
const GROUP_BYTES: u64 = 1024;

/// With more indexes than this, looking for room takes a while.
const MANY: usize = 1000;

/// The size of all entries of a kind in a space.
pub(super) struct WholeSize {
    size: SearchSize,
    measured_at: Instant,
}

impl IndexCache {
    /// The number and length of all entries of a kind; not necessarily the newest.
    pub(super) async fn whole_size(
        &self,
        space: &Space,
        kind: OwnerKind,
    ) -> Result<SearchSize, StoreError> {
        let key = (space.clone(), kind);
        let known = |known: &WholeSize| known.measured_at.elapsed() < MEASURED_FOR;
        {
            let mut sizes = self.sizes.lock().unwrap_or_else(PoisonError::into_inner);
            sizes.retain(|_, size| known(size));
            if let Some(found) = sizes.get(&key) {
                return Ok(found.size);
            }
        }

        let size = self.store.find_search_size(space, kind, None).await?;
        let measured_at = Instant::now();
        let mut sizes = self.sizes.lock().unwrap_or_else(PoisonError::into_inner);
        sizes.insert(key, WholeSize { size, measured_at });
        Ok(size)
    }

    /// Whether an index fits into the memory for all of them.
    pub(super) async fn fits(
        &self,
        IndexKey { space, kind, .. }: &IndexKey,
        size: SearchSize,
        vectors: bool,
    ) -> Result<bool, StoreError> {
        let [entries, terms] =
            [size.entries, size.terms].map(|number| u64::try_from(number).unwrap_or(0));
        let mut bytes = entries * ENTRY_BYTES + terms * TERM_BYTES;
        if vectors && let Some(model) = self.store.find_embedding_model(space).await? {
            let dim = self.store.find_vector_dim(space, *kind, &model).await?;
            bytes += entries * u64::try_from(dim.unwrap_or(0)).unwrap_or(0) * NUMBER_BYTES;
        }

        Ok(bytes <= self.most_bytes)
    }

    /// Evicts the least recently searched indexes until all fit; never the one just requested, which
    /// had so many bytes before.
    pub(super) fn make_room(&self, key: &IndexKey, before: u64) {
        // Freed after the lock is released.
        let mut evicted: Vec<Arc<SpaceIndex>> = Vec::new();
        let mut spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
        let now = spaces
            .get(key)
            .map_or(0, |entry| entry.bytes.load(Ordering::Relaxed));
        let added = now.saturating_sub(before) + GROUP_BYTES;
        if self.held.fetch_add(added, Ordering::Relaxed) + added <= self.most_bytes {
            // There may be very many indexes: they are not counted one by one each time.
            return;
        }

        let size = |(key, entry): (&IndexKey, &Arc<SpaceIndex>)| {
            let bytes = entry.bytes.load(Ordering::Relaxed);
            // There may be many users, and an empty index needs memory too.
            bytes + key.group.as_ref().map_or(0, |_| GROUP_BYTES)
        };
        let mut all: u64 = spaces.iter().map(size).fold(0, u64::saturating_add);
        if all > self.most_bytes {
            // With many, some more than needed, so that not every search has to look for room.
            let goal = if spaces.len() > MANY {
                self.most_bytes / 8 * 7
            } else {
                self.most_bytes
            };
            let mut others: Vec<(u64, u64, IndexKey)> = spaces
                .iter()
                .filter(|(other, _)| *other != key)
                .map(|(other, entry)| {
                    let used = entry.used.load(Ordering::Relaxed);
                    (used, size((other, entry)), other.clone())
                })
                .filter(|(_, size, _)| *size > 0)
                .collect();
            others.sort_unstable_by_key(|(used, _, _)| *used);

            for (_, size, oldest) in others {
                if all <= goal {
                    break;
                }

                // A running search still holds it.
                evicted.extend(spaces.remove(&oldest));
                all = all.saturating_sub(size);
            }
        }

        self.held.store(all, Ordering::Relaxed);
        drop(spaces);
    }
}
