//! The visible part of a hierarchy with excluded sources, whose chunks stay in their categories.
//! Computed once, and cached until the next write to the space; a change of eligibility counts as a
//! write.

use std::sync::{Arc, Mutex, PoisonError};

use hashlink::LruCache;

use crate::base::ids::Space;
use crate::model::category::Category;
use crate::model::scope::QueryScope;
use crate::store::{Store, StoreError};

/// Maximum cached spaces, and maximum categories of all of them.
const MAX_SPACES: usize = 64;
const MAX_CATEGORIES: usize = 50_000;

/// By space, and whether older versions count; cheap to clone.
#[derive(Clone)]
pub struct VisibleCache {
    store: Store,
    depth: i64,
    cache: Arc<Mutex<LruCache<(Space, bool), Entry>>>,
}

#[derive(Clone)]
struct Entry {
    /// The space's write counter at that time.
    writes: i64,
    /// `None` if nothing is excluded: then everything is visible.
    part: Option<Arc<[Category]>>,
}

impl VisibleCache {
    pub fn new(store: Store, depth: i64) -> Self {
        Self {
            store,
            depth,
            cache: Arc::new(Mutex::new(LruCache::new(MAX_SPACES))),
        }
    }

    /// The visible part of the hierarchy; `None` if all of it is visible.
    pub async fn of(
        &self,
        space: &Space,
        scope: &QueryScope,
    ) -> Result<Option<Arc<[Category]>>, StoreError> {
        if scope.is_narrow() {
            return Ok(Some(
                self.store
                    .list_categories_in(space, self.depth, scope)
                    .await?
                    .into(),
            ));
        }

        let key = (space.clone(), scope.all_versions);
        // Read first, so that later changes are not missed.
        let writes = self.store.find_chunk_writes(space).await?;
        let known = self
            .cache
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&key)
            .cloned();

        if let Some(entry) = known.filter(|entry| entry.writes == writes) {
            return Ok(entry.part);
        }

        let part = if self.store.has_ineligible(space).await? {
            Some(
                self.store
                    .list_categories_in(space, self.depth, scope)
                    .await?
                    .into(),
            )
        } else {
            None
        };

        self.store_entry(
            key,
            Entry {
                writes,
                part: part.clone(),
            },
        );

        Ok(part)
    }

    fn store_entry(&self, key: (Space, bool), fresh: Entry) {
        let size = |entry: &Entry| entry.part.as_ref().map_or(0, |part| part.len());
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.remove(&key);
        if size(&fresh) > MAX_CATEGORIES {
            return;
        }

        let mut total: usize = cache.iter().map(|(_, other)| size(other)).sum();
        while total + size(&fresh) > MAX_CATEGORIES
            && let Some((_, oldest)) = cache.remove_lru()
        {
            total -= size(&oldest);
        }

        cache.insert(key, fresh);
    }
}
