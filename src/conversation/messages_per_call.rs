//! How many messages one model call classifies. A small model needs minutes for twenty, so what was
//! too many for one job is not tried again by the next.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::llm::tasks::enrich::MAX_MESSAGES;

/// Full calls in a row after which one more message is tried: each try of too many takes as long as
/// the model may.
const FULL_CALLS: usize = 10;

/// The present limit, shared by all jobs of a process.
#[derive(Debug, Clone)]
pub struct MessagesPerCall(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    limit: usize,
    full_calls: usize,
}

impl Default for MessagesPerCall {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State {
            limit: MAX_MESSAGES,
            full_calls: 0,
        })))
    }
}

impl MessagesPerCall {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn limit(&self) -> usize {
        self.state().limit
    }

    /// The model took too long for this many.
    pub fn was_too_slow(&self, messages: usize) {
        let mut state = self.state();
        state.limit = state.limit.min((messages / 2).max(1));
        state.full_calls = 0;
    }

    /// The model classified this many. It may have been slow only for a while, so after several
    /// calls with as many as allowed, one more is tried.
    pub fn was_in_time(&self, messages: usize) {
        let mut state = self.state();
        if messages < state.limit || state.limit == MAX_MESSAGES {
            return;
        }

        state.full_calls += 1;
        if state.full_calls == FULL_CALLS {
            state.limit += 1;
            state.full_calls = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FULL_CALLS, MessagesPerCall};

    #[test]
    fn half_after_a_timeout_and_one_more_after_several_full_calls() {
        let per_call = MessagesPerCall::default();
        assert_eq!(per_call.limit(), 20);
        per_call.was_in_time(20);
        assert_eq!(per_call.limit(), 20);

        per_call.was_too_slow(20);
        per_call.was_too_slow(10);
        assert_eq!(per_call.limit(), 5);
        // A late report of a larger call changes nothing.
        per_call.was_too_slow(20);
        for _ in 1..FULL_CALLS {
            per_call.was_in_time(5);
            per_call.was_in_time(3);
        }
        assert_eq!(per_call.limit(), 5);
        per_call.was_in_time(5);
        assert_eq!(per_call.limit(), 6);

        per_call.was_too_slow(1);
        assert_eq!(per_call.limit(), 1);
    }
}
