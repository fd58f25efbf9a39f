//! Recent results of `auto`, kept in memory: the same query over an unchanged space gets the same
//! result without a call.

use std::sync::{Mutex, PoisonError};

use hashlink::LruCache;
use memoir_text::hash::sha256_hex;

use crate::base::clock::Timestamp;
use crate::base::ids::Space;
use crate::queries::{QueryResult, QuerySettings};

/// Maximum kept results, and maximum characters of the chunks of one.
const MAX_RESULTS: usize = 256;
const MAX_CHARS: usize = 200_000;

/// The results of all spaces.
pub struct RecentResults {
    kept: Mutex<LruCache<(Space, String), Kept>>,
}

struct Kept {
    /// The space's write counter before the query ran.
    writes: i64,
    at: Timestamp,
    result: QueryResult,
}

impl Default for RecentResults {
    fn default() -> Self {
        Self {
            kept: Mutex::new(LruCache::new(MAX_RESULTS)),
        }
    }
}

impl RecentResults {
    /// The result of the same query, if it is recent and nothing was written since.
    pub fn find(
        &self,
        space: &Space,
        ask: &QuerySettings,
        writes: i64,
        since: Timestamp,
    ) -> Option<QueryResult> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(&(space.clone(), key(ask)))
            .filter(|kept| kept.writes == writes && kept.at >= since)
            .map(|kept| kept.result.clone())
    }

    pub fn keep(
        &self,
        space: &Space,
        ask: &QuerySettings,
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

        let fresh = Kept {
            writes,
            at,
            result: result.clone(),
        };

        self.kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert((space.clone(), key(ask)), fresh);
    }
}

/// Everything that decides what a query returns.
fn key(ask: &QuerySettings) -> String {
    sha256_hex(&serde_json::to_vec(ask).unwrap_or_default())
}
