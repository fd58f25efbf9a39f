//! Results of the last minute, so that the same query is not searched twice.

use std::sync::{Arc, Mutex, PoisonError};

use hashlink::LruCache;

use super::retrieve::Selection;
use crate::base::clock::Timestamp;
use crate::base::ids::Space;

/// How long a result is used.
const TTL_SECONDS: i64 = 60;
const MAX_RESULTS: usize = 2_000;

/// What a result depends on, besides the memories.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    pub space: Space,
    pub user_id: String,
    pub query: String,
    /// The policy, its version, and the values of the request.
    pub settings: String,
}

struct Cached {
    found: Arc<Selection>,
    /// The write counter of the user's memories at that time.
    writes: i64,
    /// How many erasures the space had had: nothing deleted since is in the result.
    erasures: i64,
    at: Timestamp,
}

pub struct ResultCache(Mutex<LruCache<Key, Cached>>);

impl ResultCache {
    pub fn new() -> Self {
        Self(Mutex::new(LruCache::new(MAX_RESULTS)))
    }

    /// The result over the same memories; with `writes: None` also over fewer ones, but never one
    /// from before an erasure.
    pub fn find(
        &self,
        key: &Key,
        (writes, erasures): (Option<i64>, i64),
        now: Timestamp,
    ) -> Option<Arc<Selection>> {
        let mut results = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = results.get(key)?;
        let age = now.as_micros() - cached.at.as_micros();
        let is_recent = (0..TTL_SECONDS * 1_000_000).contains(&age);
        let is_same = writes.is_none_or(|writes| writes == cached.writes);
        let is_same = is_same && cached.erasures == erasures;
        (is_recent && is_same).then(|| Arc::clone(&cached.found))
    }

    pub fn store(
        &self,
        key: Key,
        found: Arc<Selection>,
        (writes, erasures): (i64, i64),
        at: Timestamp,
    ) {
        let cached = Cached {
            found,
            writes,
            erasures,
            at,
        };
        let mut results = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        results.insert(key, cached);
    }
}
