//! The circuit breaker: stops calling a failing provider, and at intervals allows one request to
//! check whether it has recovered.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Opens after a number of consecutive failures.
pub struct Breaker {
    failures: u64,
    cooldown: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    in_a_row: u64,
    open_until: Option<Instant>,
    probing: bool,
}

/// Permission for one request; its holder reports the outcome. If it is dropped without a report,
/// it has no effect.
pub struct Pass<'a> {
    breaker: &'a Breaker,
    probe: bool,
}

impl Breaker {
    pub fn new(failures: u64, cooldown: Duration) -> Self {
        Self {
            failures,
            cooldown,
            state: Mutex::default(),
        }
    }

    /// Whether a request is allowed; if not, how long to wait.
    pub fn admit(&self) -> Result<Pass<'_>, Duration> {
        let mut state = self.state();
        let Some(until) = state.open_until else {
            return Ok(Pass {
                breaker: self,
                probe: false,
            });
        };

        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() && !state.probing {
            state.probing = true;
            return Ok(Pass {
                breaker: self,
                probe: true,
            });
        }

        Err(left.max(Duration::from_secs(1)))
    }

    /// Permission regardless of earlier failures, for a probe.
    pub fn admit_probe(&self) -> Pass<'_> {
        let probe = self.state().open_until.is_some();
        Pass {
            breaker: self,
            probe,
        }
    }

    /// Whether requests are currently blocked.
    pub fn is_open(&self) -> bool {
        self.state().open_until.is_some()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pass<'_> {
    /// The provider responded; returns whether requests had been blocked.
    pub fn succeeded(self) -> bool {
        let before = std::mem::take(&mut *self.breaker.state());
        before.open_until.is_some()
    }

    /// The request failed because of the provider.
    pub fn failed(self) {
        let mut state = self.breaker.state();
        state.in_a_row += 1;
        if self.probe || state.in_a_row >= self.breaker.failures {
            state.open_until = Some(Instant::now() + self.breaker.cooldown);
            tracing::warn!(
                failures = state.in_a_row,
                "provider temporarily avoided after too many consecutive failures"
            );
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if self.probe {
            self.breaker.state().probing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COOLDOWN: Duration = Duration::from_secs(30);

    fn tripped() -> Breaker {
        let breaker = Breaker::new(3, COOLDOWN);
        for _ in 0..3 {
            breaker.admit().ok().unwrap().failed();
        }

        breaker
    }

    #[tokio::test(start_paused = true)]
    async fn opens_after_consecutive_failures_and_a_success_resets_the_count() {
        let breaker = Breaker::new(3, COOLDOWN);
        for _ in 0..5 {
            breaker.admit().ok().unwrap().failed();
            breaker.admit().ok().unwrap().failed();
            breaker.admit().ok().unwrap().succeeded();
        }

        assert!(!breaker.is_open());
        assert!(tripped().admit().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn one_request_at_a_time_checks_for_recovery() {
        let breaker = tripped();
        tokio::time::advance(COOLDOWN).await;
        let probe = breaker.admit().ok().unwrap();
        assert!(breaker.admit().is_err(), "a second probe at the same time");
        probe.failed();
        assert!(breaker.admit().is_err(), "the cooldown begins again");
        tokio::time::advance(COOLDOWN).await;
        drop(breaker.admit().ok().unwrap());
        breaker.admit().ok().unwrap().succeeded();

        assert!(!breaker.is_open());
    }
}
