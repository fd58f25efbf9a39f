//! The part of a hierarchy that has something to be found, where sources are switched off: their
//! chunks still lie in their categories. Looked for once, and kept until the space is written to,
//! which switching counts as.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::ids::Space;
use crate::model::category::Category;
use crate::model::query::QueryScope;
use crate::store::{Store, StoreError};

/// Spaces that are kept, and most categories of all of them.
const MOST_SPACES: usize = 64;
const MOST_CATEGORIES: usize = 50_000;

/// By space, and whether older versions count; cheap to clone.
#[derive(Clone)]
pub struct VisibleCache {
    store: Store,
    depth: i64,
    kept: Arc<Mutex<HashMap<(Space, bool), Kept>>>,
}

#[derive(Clone)]
struct Kept {
    /// The space's count of writes when it was looked for.
    writes: i64,
    /// None where nothing is switched off: then all of it counts.
    part: Option<Arc<[Category]>>,
}

impl VisibleCache {
    pub fn new(store: Store, depth: i64) -> Self {
        Self {
            store,
            depth,
            kept: Arc::default(),
        }
    }

    /// The part that a scope leaves of the hierarchy; none if it leaves all of it.
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
        // Before anything is looked for, so that what comes meanwhile is not taken for known.
        let writes = self.store.find_chunk_writes(space).await?;
        let known = self
            .kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&key)
            .cloned();

        if let Some(kept) = known.filter(|kept| kept.writes == writes) {
            return Ok(kept.part);
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

        self.keep(
            key,
            Kept {
                writes,
                part: part.clone(),
            },
        );

        Ok(part)
    }

    fn keep(&self, key: (Space, bool), fresh: Kept) {
        let size = |kept: &Kept| kept.part.as_ref().map_or(0, |part| part.len());
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.remove(&key);
        if kept.len() >= MOST_SPACES
            || kept.values().map(size).sum::<usize>() + size(&fresh) > MOST_CATEGORIES
        {
            kept.clear();
        }

        if size(&fresh) <= MOST_CATEGORIES {
            kept.insert(key, fresh);
        }
    }
}
