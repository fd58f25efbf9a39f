//! Recent results of `auto`, kept in memory: the same query over an unchanged space gets the same
//! result without a call.

use std::sync::{Mutex, PoisonError};

use hashlink::LruCache;
use memoir_text::hash::sha256_hex;

use crate::base::clock::Timestamp;
use crate::base::ids::Space;
use crate::queries::{QueryResult, QuerySettings};

/// Maximum cached results, and maximum characters of the chunks of one.
const MAX_RESULTS: usize = 256;
const MAX_CHARS: usize = 200_000;

/// The results of all spaces.
pub struct RecentResults {
    cache: Mutex<LruCache<(Space, String), Entry>>,
}

struct Entry {
    /// The space's write counter before the query ran.
    writes: i64,
    at: Timestamp,
    result: QueryResult,
}

impl Default for RecentResults {
    fn default() -> Self {
        Self {
            cache: Mutex::new(LruCache::new(MAX_RESULTS)),
        }
    }
}

impl RecentResults {
    /// The result of the same query, if it is recent and nothing was written since.
    pub fn find(
        &self,
        space: &Space,
        settings: &QuerySettings,
        writes: i64,
        since: Timestamp,
    ) -> Option<QueryResult> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache
            .get(&(space.clone(), key(settings)))
            .filter(|entry| entry.writes == writes && entry.at >= since)
            .map(|entry| entry.result.clone())
    }

    pub fn store(
        &self,
        space: &Space,
        settings: &QuerySettings,
        writes: i64,
        at: Timestamp,
        result: &QueryResult,
    ) {
        let chars: usize = result
            .chunks
            .iter()
            .map(|chunk| chunk.text_content.len())
            .sum();
        if chars > MAX_CHARS {
            return;
        }

        let fresh = Entry {
            writes,
            at,
            result: result.clone(),
        };

        self.cache
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert((space.clone(), key(settings)), fresh);
    }
}

/// Everything that decides what a query returns.
fn key(settings: &QuerySettings) -> String {
    sha256_hex(&serde_json::to_vec(settings).unwrap_or_default())
}
