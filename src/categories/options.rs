//! The names of a space's categories by their parents, kept in memory for whoever walks down the hierarchy.
//!
//! Categories are added under the space's lock and with rising numbers, so one look for those that have come since brings
//! it up to date, whichever process made them. Removals, which are seldom, are counted: after one all are read anew.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::base::ids::Space;
use crate::model::category::CategoryOption;
use crate::store::{Store, StoreError};

/// Spaces that are kept.
const MOST_SPACES: usize = 64;
/// A space with more is read level by level instead.
const MOST_CATEGORIES: usize = 50_000;

/// Keeps them by space; cheap to clone.
#[derive(Clone)]
pub struct OptionCache {
    store: Store,
    kept: Arc<Mutex<HashMap<Space, Arc<Options>>>>,
}

/// The categories of one space.
#[derive(Debug, Default)]
pub struct Options {
    known: RwLock<Known>,
}

#[derive(Debug, Default)]
struct Known {
    by_parent: HashMap<i64, Vec<CategoryOption>>,
    count: usize,
    last: i64,
    /// How often some had been removed when these were read.
    removals: i64,
}

impl OptionCache {
    pub fn new(store: Store) -> Self {
        Self { store, kept: Arc::default() }
    }

    /// The categories of a space as they are now; none where there are too many to keep.
    pub async fn of(&self, space: &Space) -> Result<Option<Arc<Options>>, StoreError> {
        let options = self.entry(space);
        loop {
            let (last, count) = options.place();
            if count > MOST_CATEGORIES {
                return Ok(None);
            }
            let (removals, come) = self.store.list_options_after(space, last, MOST_CATEGORIES + 1).await?;
            if options.add(removals, come) {
                break;
            }
        }
        let (_, count) = options.place();
        Ok((count <= MOST_CATEGORIES).then_some(options))
    }

    fn entry(&self, space: &Space) -> Arc<Options> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MOST_SPACES && !kept.contains_key(space) {
            kept.clear();
        }
        Arc::clone(kept.entry(space.clone()).or_default())
    }
}

impl Options {
    /// The children of several parents, oldest first; 0 stands for the root.
    pub fn children(&self, parents: &[i64]) -> Vec<CategoryOption> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut found: Vec<CategoryOption> =
            parents.iter().filter_map(|parent| known.by_parent.get(parent)).flatten().cloned().collect();
        found.sort_unstable_by_key(|option| option.id);
        found
    }

    /// The number of the last, and how many there are.
    fn place(&self) -> (i64, usize) {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        (known.last, known.count)
    }

    /// Adds what has come, in the order of their numbers; what another has added meanwhile is passed over. `false` if some
    /// have gone meanwhile: then nothing is known any more.
    fn add(&self, removals: i64, come: Vec<CategoryOption>) -> bool {
        let same = self.known.read().unwrap_or_else(PoisonError::into_inner).removals >= removals;
        if same && come.is_empty() {
            return true;
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.removals < removals {
            *known = Known { removals, ..Known::default() };
            return false;
        }
        for option in come {
            if option.id > known.last {
                known.last = option.id;
                known.count += 1;
                known.by_parent.entry(option.parent_id).or_default().push(option);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_twice_is_there_once() {
        let option = |id, parent_id| CategoryOption { id, parent_id, name: format!("Name {id}") };
        let options = Options::default();
        assert!(options.add(0, vec![option(1, 0), option(2, 1), option(4, 1)]));
        assert!(options.add(0, vec![option(2, 1), option(4, 1), option(5, 0)]));
        let ids = |parents: &[i64]| options.children(parents).iter().map(|option| option.id).collect::<Vec<_>>();
        assert_eq!((ids(&[0]), ids(&[1]), ids(&[0, 1]), ids(&[9])), (vec![1, 5], vec![2, 4], vec![1, 2, 4, 5], vec![]));
        assert_eq!(options.place(), (5, 4));
        // Some were removed: all are read again.
        assert!(!options.add(1, vec![option(6, 0)]));
        assert_eq!(options.place(), (0, 0));
        assert!(options.add(1, vec![option(1, 0), option(6, 0)]));
        assert_eq!((ids(&[0]), options.place()), (vec![1, 6], (6, 2)));
    }
}
