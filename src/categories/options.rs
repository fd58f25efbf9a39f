//! The names of a space's categories by parent, cached for walks.
//!
//! Categories are added under the space's lock and with rising ids, so one lookup finds all new
//! ones, whichever process created them. A counter of deletions, which are rare, invalidates the
//! cache.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use hashlink::LruCache;

use crate::base::ids::Space;
use crate::model::category::CategoryOption;
use crate::store::{Store, StoreError};

/// Maximum cached spaces.
const MAX_SPACES: usize = 64;
/// A larger space is read level by level instead.
const MAX_CATEGORIES: usize = 50_000;

/// Caches them by space; cheap to clone.
#[derive(Clone)]
pub struct OptionCache {
    store: Store,
    cached: Arc<Mutex<LruCache<Space, Arc<Options>>>>,
}

/// The categories of one space between two deletions.
#[derive(Debug, Default)]
pub struct Options {
    /// The deletion counter when these were read.
    removals: i64,
    loaded: RwLock<LoadedOptions>,
}

#[derive(Debug, Default)]
struct LoadedOptions {
    by_parent: HashMap<i64, Vec<CategoryOption>>,
    count: usize,
    last: i64,
}

impl OptionCache {
    pub fn new(store: Store) -> Self {
        Self {
            store,
            cached: Arc::new(Mutex::new(LruCache::new(MAX_SPACES))),
        }
    }

    /// The current categories of a space; `None` if there are too many to cache.
    pub async fn of(&self, space: &Space) -> Result<Option<Arc<Options>>, StoreError> {
        loop {
            let options = self.entry(space);
            let (last, full) = options.place();

            // If there are too many to cache, only the deletion counter matters.
            let limit = if full { 1 } else { MAX_CATEGORIES + 1 };
            let (removals, come) = self.store.list_options_after(space, last, limit).await?;
            if removals > options.removals {
                self.replace(space, &options, removals);
                continue;
            }

            // What was read before a known deletion is discarded.
            if removals == options.removals && !full {
                options.add(come);
            }

            let (_, full) = options.place();
            return Ok((!full).then_some(options));
        }
    }

    fn entry(&self, space: &Space) -> Arc<Options> {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = cached.get(space) {
            return Arc::clone(known);
        }

        let fresh = Arc::<Options>::default();
        cached.insert(space.clone(), Arc::clone(&fresh));
        fresh
    }

    /// Starts over after a deletion, unless another task has; running walks keep the previous
    /// cache.
    fn replace(&self, space: &Space, former: &Arc<Options>, removals: i64) {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if cached
            .get(space)
            .is_none_or(|options| Arc::ptr_eq(options, former))
        {
            cached.insert(
                space.clone(),
                Arc::new(Options {
                    removals,
                    loaded: RwLock::default(),
                }),
            );
        }
    }
}

impl Options {
    /// The children of several parents, oldest first; 0 stands for the root.
    pub fn children(&self, parents: &[i64]) -> Vec<CategoryOption> {
        let known = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        let mut found: Vec<CategoryOption> = parents
            .iter()
            .filter_map(|parent| known.by_parent.get(parent))
            .flatten()
            .cloned()
            .collect();

        found.sort_unstable_by_key(|option| option.id);
        found
    }

    /// The id of the last category, and whether there are more than can be cached.
    fn place(&self) -> (i64, bool) {
        let known = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        (known.last, known.count > MAX_CATEGORIES)
    }

    /// Adds new categories by ascending id; those that another task has added in the meantime are
    /// skipped.
    fn add(&self, come: Vec<CategoryOption>) {
        if come.is_empty() {
            return;
        }

        let mut known = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        for option in come {
            if option.id > known.last {
                known.last = option.id;
                known.count += 1;
                known
                    .by_parent
                    .entry(option.parent_id)
                    .or_default()
                    .push(option);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_is_read_twice_is_listed_once() {
        let option = |id, parent_id| CategoryOption {
            id,
            parent_id,
            name: format!("Name {id}"),
        };

        let options = Options::default();
        options.add(vec![option(1, 0), option(2, 1), option(4, 1)]);
        options.add(vec![option(2, 1), option(4, 1), option(5, 0)]);
        let ids = |parents: &[i64]| {
            options
                .children(parents)
                .iter()
                .map(|option| option.id)
                .collect::<Vec<_>>()
        };

        assert_eq!(
            (ids(&[0]), ids(&[1]), ids(&[0, 1]), ids(&[9])),
            (vec![1, 5], vec![2, 4], vec![1, 2, 4, 5], vec![])
        );

        assert_eq!(options.place(), (5, false));
    }

    #[tokio::test]
    async fn a_deletion_reloads_the_options_and_does_not_affect_running_walks() {
        let folder = tempfile::tempdir().unwrap();
        let environment = HashMap::from([(
            "DATABASE_URL".to_owned(),
            format!("sqlite://{}/options.db", folder.path().display()),
        )]);

        let config = crate::config::Config::load(&crate::config::Origin {
            file: None,
            environment,
        })
        .unwrap();

        let cache = OptionCache::new(Store::connect(&config.database).await.unwrap());
        let space: Space = "default".parse().unwrap();
        let option = |id| CategoryOption {
            id,
            parent_id: 0,
            name: format!("Name {id}"),
        };

        let under_way = cache.entry(&space);
        under_way.add(vec![option(1), option(2)]);

        // If two tasks notice the same deletion, the second does not discard what the first has
        // read since.
        cache.replace(&space, &under_way, 1);
        cache.entry(&space).add(vec![option(2), option(3)]);
        cache.replace(&space, &under_way, 1);
        let ids = |options: &Options| {
            options
                .children(&[0])
                .iter()
                .map(|option| option.id)
                .collect::<Vec<_>>()
        };

        assert_eq!(
            (ids(&cache.entry(&space)), ids(&under_way)),
            (vec![2, 3], vec![1, 2])
        );

        assert_eq!(cache.entry(&space).removals, 1);
    }
}
