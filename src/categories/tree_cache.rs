//! The hierarchy of a space as filing needs it, cached between jobs: a job reads only the categories
//! that are new. `options` explains why one lookup finds them all.

use std::sync::{Arc, Mutex, PoisonError};

use hashlink::LruCache;

use super::Taxonomy;
use super::tree::Tree;
use crate::base::ids::Space;
use crate::store::{Store, StoreError};

/// Maximum cached spaces.
const MAX_SPACES: usize = 64;
/// More new categories than this are read in several parts.
const AT_ONCE: usize = 10_000;

/// Caches it by space; cheap to clone.
#[derive(Clone)]
pub struct TreeCache {
    store: Store,
    taxonomy: Taxonomy,
    cached: Arc<Mutex<LruCache<Space, CachedTree>>>,
}

#[derive(Clone)]
struct CachedTree {
    tree: Tree,
    /// The deletion counter when it was read.
    removals: i64,
    /// The id of the last category.
    last: i64,
}

impl TreeCache {
    pub fn new(store: Store, taxonomy: Taxonomy) -> Self {
        Self {
            store,
            taxonomy,
            cached: Arc::new(Mutex::new(LruCache::new(MAX_SPACES))),
        }
    }

    /// The current hierarchy of a space, to plan with.
    ///
    /// # Errors
    /// The store's.
    pub async fn of(&self, space: &Space) -> Result<Tree, StoreError> {
        let known = self.cached().get(space).cloned();
        let mut cached = known.unwrap_or_else(|| self.empty(0));
        loop {
            let read = self.store.list_options_after(space, cached.last, AT_ONCE);
            let (removals, come) = read.await?;
            if removals != cached.removals {
                cached = self.empty(removals);
                continue;
            }

            cached.tree.load_options(&come);
            cached.last = come.last().map_or(cached.last, |option| option.id);
            if come.len() < AT_ONCE {
                break;
            }
        }

        let tree = cached.tree.clone();
        let mut all = self.cached();
        // Another job may have read more in the meantime.
        if all
            .get(space)
            .is_none_or(|other| other.last < cached.last || other.removals != cached.removals)
        {
            all.insert(space.clone(), cached);
        }

        drop(all);
        Ok(tree)
    }

    fn empty(&self, removals: i64) -> CachedTree {
        CachedTree {
            tree: Tree::new(self.taxonomy.clone()),
            removals,
            last: 0,
        }
    }

    fn cached(&self) -> std::sync::MutexGuard<'_, LruCache<Space, CachedTree>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
