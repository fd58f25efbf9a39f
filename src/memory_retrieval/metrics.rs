//! The metrics of memory retrieval, counted in this process for each space.

use std::sync::{Arc, Mutex, PoisonError};

use hashlink::LruCache;

use crate::base::ids::Space;
use crate::base::metrics as names;

/// Spaces whose figures are kept.
const MAX_SPACES: usize = 10_000;

/// What was counted in a space since the process started.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RetrievalMetrics {
    pub calls: u64,
    /// Milliseconds of all calls.
    pub latency_ms: f64,
    /// Number of memories that were returned.
    pub results: u64,
    /// Their tokens by the tokenizer `o200k_base`.
    pub tokens: u64,
    /// Memories that deduplication saw, and those it removed because they repeated another.
    pub examined: u64,
    pub duplicates: u64,
    /// Calls that looked into the cache, and those that were served from it.
    pub lookups: u64,
    pub cache_hits: u64,
}

impl RetrievalMetrics {
    fn plus(self, other: &Self) -> Self {
        Self {
            calls: self.calls + other.calls,
            latency_ms: self.latency_ms + other.latency_ms,
            results: self.results + other.results,
            tokens: self.tokens + other.tokens,
            examined: self.examined + other.examined,
            duplicates: self.duplicates + other.duplicates,
            lookups: self.lookups + other.lookups,
            cache_hits: self.cache_hits + other.cache_hits,
        }
    }

    /// The mean time of a call.
    pub fn mean_latency_ms(&self) -> f64 {
        if self.calls == 0 {
            0.0
        } else {
            self.latency_ms / to_f64(self.calls)
        }
    }

    /// The percentage of memories that repeated another one.
    pub fn dedup_ratio(&self) -> f64 {
        percent(self.duplicates, self.examined)
    }

    /// The percentage of calls that were served from the cache.
    pub fn cache_hit_rate(&self) -> f64 {
        percent(self.cache_hits, self.lookups)
    }
}

/// With one decimal; 0 of nothing is 0.
fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    (1000.0 * to_f64(part) / to_f64(whole)).round() / 10.0
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
fn to_f64(count: u64) -> f64 {
    count as f64
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Counted(Arc<Mutex<LruCache<Space, RetrievalMetrics>>>);

impl Counted {
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(LruCache::new(MAX_SPACES))))
    }

    pub fn count(&self, space: &Space, add: impl FnOnce(&mut RetrievalMetrics)) {
        let mut spaces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut call = RetrievalMetrics::default();
        add(&mut call);
        Self::publish(&call);
        let sum = spaces.get(space).copied().unwrap_or_default().plus(&call);
        spaces.insert(space.clone(), sum);
    }

    /// Adds a call to the metrics for Prometheus, which cover all spaces.
    fn publish(call: &RetrievalMetrics) {
        metrics::histogram!(names::RETRIEVAL_DURATION_SECONDS).record(call.latency_ms / 1000.0);
        metrics::counter!(names::RETRIEVAL_RESULTS_TOTAL).increment(call.results);
        metrics::counter!(names::RETRIEVAL_TOKENS_TOTAL).increment(call.tokens);
        let kept = call.examined.saturating_sub(call.duplicates);
        let missed = call.lookups.saturating_sub(call.cache_hits);
        for (name, outcome, count) in [
            (names::RETRIEVAL_DEDUPLICATED_TOTAL, "kept", kept),
            (
                names::RETRIEVAL_DEDUPLICATED_TOTAL,
                "duplicate",
                call.duplicates,
            ),
            (names::RETRIEVAL_CACHE_TOTAL, "hit", call.cache_hits),
            (names::RETRIEVAL_CACHE_TOTAL, "miss", missed),
        ] {
            metrics::counter!(name, "outcome" => outcome).increment(count);
        }
    }

    pub fn of(&self, space: &Space) -> RetrievalMetrics {
        let mut spaces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        spaces.get(space).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_have_one_decimal_and_nothing_is_zero() {
        assert_eq!(percent(2, 3).to_string(), "66.7");
        assert_eq!(percent(1, 2).to_string(), "50");
        assert_eq!(percent(0, 0).to_string(), "0");
    }
}
