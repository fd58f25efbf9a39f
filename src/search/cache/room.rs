//! What fits into the memory for indexes: which spaces do not, and which indexes give way.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::{IndexCache, Place, SpaceIndex};
use crate::model::search::SearchSize;
use crate::store::StoreError;

/// How long a space counts as too big before its size is read again.
const TOO_BIG_FOR: Duration = Duration::from_hours(1);
/// Maximum bytes of memory per term of a chunk and per chunk; known before any is read.
const TERM_BYTES: u64 = 8;
const ENTRY_BYTES: u64 = 256;
/// Memory of the index of one group, besides its entries.
const GROUP_BYTES: u64 = 1024;

/// A space that does not fit into memory, with or without its vectors.
pub(super) struct TooBig {
    size: SearchSize,
    measured_at: Instant,
}

impl IndexCache {
    /// The size of a space that was found not to fit, not long ago.
    pub(super) fn known_too_big(&self, place: &Place, vectors: bool) -> Option<SearchSize> {
        let too_big = self.too_big.lock().unwrap_or_else(PoisonError::into_inner);
        let found = too_big.get(&(place.clone(), vectors))?;
        (found.measured_at.elapsed() < TOO_BIG_FOR).then_some(found.size)
    }

    pub(super) fn remember_too_big(&self, place: &Place, vectors: bool, size: SearchSize) {
        let found = TooBig {
            size,
            measured_at: Instant::now(),
        };
        let mut too_big = self.too_big.lock().unwrap_or_else(PoisonError::into_inner);
        too_big.retain(|_, known| known.measured_at.elapsed() < TOO_BIG_FOR);
        too_big.insert((place.clone(), vectors), found);
    }

    /// Whether an index fits into the memory for all of them.
    pub(super) async fn fits(
        &self,
        Place { space, kind, .. }: &Place,
        size: SearchSize,
        vectors: bool,
    ) -> Result<bool, StoreError> {
        let [entries, terms] =
            [size.entries, size.terms].map(|number| u64::try_from(number).unwrap_or(0));
        let mut bytes = entries * ENTRY_BYTES + terms * TERM_BYTES;
        if vectors && let Some(model) = self.store.find_embedding_model(space).await? {
            let dim = self.store.find_vector_dim(space, *kind, &model).await?;
            bytes += entries * u64::try_from(dim.unwrap_or(0)).unwrap_or(0) * 4;
        }

        Ok(bytes <= self.most_bytes)
    }

    /// Evicts the least recently searched indexes until all fit; never the one just requested.
    pub(super) fn make_room(&self, place: &Place) {
        let mut spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
        let size = |(place, entry): (&Place, &Arc<SpaceIndex>)| {
            let bytes = entry.bytes.load(Ordering::Relaxed);
            // There may be many users, and an empty index needs memory too.
            bytes + place.group.as_ref().map_or(0, |_| GROUP_BYTES)
        };
        let mut all: u64 = spaces.iter().map(size).fold(0, u64::saturating_add);
        if all <= self.most_bytes {
            return;
        }

        let mut others: Vec<(u64, u64, Place)> = spaces
            .iter()
            .filter(|(other, _)| *other != place)
            .map(|(other, entry)| {
                let used = entry.used.load(Ordering::Relaxed);
                (used, size((other, entry)), other.clone())
            })
            .filter(|(_, size, _)| *size > 0)
            .collect();
        others.sort_unstable_by_key(|(used, _, _)| *used);

        for (_, size, oldest) in others {
            if all <= self.most_bytes {
                return;
            }

            // A running search still holds it.
            spaces.remove(&oldest);
            all = all.saturating_sub(size);
        }
    }
}
