//! How many messages one model call classifies. A small model needs minutes for twenty, so what was
//! too many for one job is not tried again by the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::llm::tasks::enrich::MOST_MESSAGES;

/// The present limit, shared by all jobs of a process.
#[derive(Debug, Clone)]
pub struct MessagesPerCall(Arc<AtomicUsize>);

impl Default for MessagesPerCall {
    fn default() -> Self {
        Self(Arc::new(AtomicUsize::new(MOST_MESSAGES)))
    }
}

impl MessagesPerCall {
    pub fn limit(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// The model took too long for this many.
    pub fn was_too_slow(&self, messages: usize) {
        self.0.fetch_min((messages / 2).max(1), Ordering::Relaxed);
    }

    /// The model classified this many. If they were as many as allowed, one more is tried next: the
    /// model may have been slow only for a while.
    pub fn was_in_time(&self, messages: usize) {
        let more = |limit: usize| {
            let full = messages >= limit && limit < MOST_MESSAGES;
            full.then_some(limit + 1)
        };
        // An error means that the limit stays.
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }
}

#[cfg(test)]
mod tests {
    use super::MessagesPerCall;

    #[test]
    fn half_after_a_timeout_and_one_more_after_each_full_call() {
        let per_call = MessagesPerCall::default();
        assert_eq!(per_call.limit(), 20);
        per_call.was_in_time(20);
        assert_eq!(per_call.limit(), 20);

        per_call.was_too_slow(20);
        per_call.was_too_slow(10);
        assert_eq!(per_call.limit(), 5);
        // A late report of a larger call changes nothing.
        per_call.was_too_slow(20);
        per_call.was_in_time(3);
        assert_eq!(per_call.limit(), 5);
        per_call.was_in_time(5);
        assert_eq!(per_call.limit(), 6);

        per_call.was_too_slow(1);
        assert_eq!(per_call.limit(), 1);
    }
}
