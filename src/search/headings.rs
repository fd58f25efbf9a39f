//! The headings above chunks, from the texts of their versions, which never change. Kept in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use hashlink::LruCache;

use crate::base::headings::{Heading, above, headings};
use crate::base::ids::Space;
use crate::store::{Store, StoreError};

/// Versions whose headings are kept, and the longest text that is read for them, in characters.
const MOST_KEPT: usize = 4_000;
const LONGEST: i64 = 5_000_000;

/// Finds headings; cheap to clone.
#[derive(Clone)]
pub struct Headings {
    store: Store,
    kept: Kept,
}

type Kept = Arc<Mutex<LruCache<(Space, i64), Arc<[Heading]>>>>;

/// The headings of some versions.
#[derive(Default)]
pub struct FoundHeadings(HashMap<i64, Arc<[Heading]>>);

impl Headings {
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self {
            store,
            kept: Arc::new(Mutex::new(LruCache::new(MOST_KEPT))),
        }
    }

    /// The headings that may stand above these chunks, each named by its version and its start. At
    /// the start of a text nothing stands above.
    ///
    /// # Errors
    /// The store's.
    pub async fn of(
        &self,
        space: &Space,
        chunks: &[(i64, i64)],
    ) -> Result<FoundHeadings, StoreError> {
        let mut versions: Vec<i64> = chunks
            .iter()
            .filter(|(_, start_char)| *start_char > 0)
            .map(|(version, _)| *version)
            .collect();
        versions.sort_unstable();
        versions.dedup();
        let mut found = HashMap::new();
        {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            versions.retain(|version| {
                let known = kept.get(&(space.clone(), *version)).cloned();
                let missing = known.is_none();
                found.extend(known.map(|known| (*version, known)));
                missing
            });
        }

        let texts = self
            .store
            .list_version_texts(space, &versions, LONGEST)
            .await?;
        for (version, text) in texts {
            let fresh: Arc<[Heading]> = headings(&text).into();
            self.kept
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert((space.clone(), version), Arc::clone(&fresh));
            found.insert(version, fresh);
        }

        Ok(FoundHeadings(found))
    }
}

impl FoundHeadings {
    /// The heading above a chunk, or the one with which it begins.
    #[must_use]
    pub fn above(&self, version: i64, start_char: i64, text: &str) -> Option<String> {
        // Blank lines at the beginning of a chunk belong to what follows them.
        let lead = text.chars().take_while(|c| c.is_whitespace()).count();
        if start_char == 0 {
            let found = headings(text);
            return above(&found, lead).map(|heading| heading.text.clone());
        }

        let start = usize::try_from(start_char).unwrap_or(0) + lead;
        above(self.0.get(&version)?, start).map(|heading| heading.text.clone())
    }
}
