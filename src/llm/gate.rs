//! Limits the requests to a provider, concurrently and per minute, over all jobs and queries of
//! this process.
//!
//! If a provider asks one caller to wait, all callers wait until then: for a short wait they wait
//! inside the gate, for a long one they are rejected.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

const MINUTE: Duration = Duration::from_mins(1);
/// The maximum wait that is respected; a provider that asks for more is called again after this
/// time.
const LONGEST_SHUT: Duration = Duration::from_hours(24);

/// Admits requests within the provider's limits.
pub struct Gate {
    places: Semaphore,
    requests: Option<Pace>,
    tokens: Option<Pace>,
    closed: Mutex<Closed>,
}

/// Until when no request is sent.
#[derive(Default, Clone, Copy)]
struct Closed {
    /// A short wait: callers wait inside.
    held_until: Option<Instant>,
    /// A long wait: callers are rejected.
    shut_until: Option<Instant>,
}

/// Why a caller is rejected.
#[derive(Debug, PartialEq, Eq)]
pub enum NoEntry {
    /// The service is stopping.
    Stopping,
    /// The provider asked to receive no requests for this long.
    Shut(Duration),
}

impl Gate {
    /// 0 per minute means no limit.
    pub fn new(at_once: u64, requests_per_minute: u64, tokens_per_minute: u64) -> Self {
        Self {
            places: Semaphore::new(
                usize::try_from(at_once)
                    .unwrap_or(usize::MAX)
                    .clamp(1, Semaphore::MAX_PERMITS),
            ),
            requests: Pace::new(requests_per_minute),
            tokens: Pace::new(tokens_per_minute),
            closed: Mutex::default(),
        }
    }

    /// Waits for a turn; the caller holds the permit while the request runs.
    pub async fn enter(&self, tokens: u64) -> Result<SemaphorePermit<'_>, NoEntry> {
        // Checked before the wait for a permit, which may be long, and after it.
        self.check_open()?;
        let permit = self.places.acquire().await.map_err(|_| NoEntry::Stopping)?;
        loop {
            self.check_open()?;
            let held_until = self.closed().held_until;
            match held_until {
                Some(until) if until > Instant::now() => tokio::time::sleep_until(until).await,
                _ => break,
            }
        }

        self.keep_pace(tokens).await;
        self.check_open()?;
        Ok(permit)
    }

    /// Admits a probe, even while the gate is closed.
    pub async fn admit_probe(&self, tokens: u64) -> Result<SemaphorePermit<'_>, NoEntry> {
        let permit = self.places.acquire().await.map_err(|_| NoEntry::Stopping)?;
        self.keep_pace(tokens).await;
        Ok(permit)
    }

    async fn keep_pace(&self, tokens: u64) {
        let now = Instant::now();
        let paces = [(&self.requests, 1), (&self.tokens, tokens)];
        let turns: Vec<Turn<'_>> = paces
            .iter()
            .filter_map(|(pace, units)| Some(pace.as_ref()?.reserve(*units, now)))
            .collect();

        if let Some(at) = turns
            .iter()
            .map(|turn| turn.at)
            .max()
            .filter(|at| *at > now)
        {
            tokio::time::sleep_until(at).await;
        }
        turns.into_iter().for_each(Turn::take);
    }

    /// No request is sent before this time has passed; callers wait inside.
    pub fn hold_for(&self, wait: Duration) {
        let until = Some(Instant::now() + wait);
        let mut closed = self.closed();
        closed.held_until = closed.held_until.max(until);
    }

    /// No request is sent before this time has passed; callers are rejected.
    pub fn shut_for(&self, wait: Duration) {
        let until = Some(Instant::now() + wait.min(LONGEST_SHUT));
        let mut closed = self.closed();
        closed.shut_until = closed.shut_until.max(until);
    }

    /// The provider has responded; opens the gate and returns whether it was shut.
    pub fn reopen(&self) -> bool {
        let was_shut = self.check_open().is_err();
        *self.closed() = Closed::default();
        was_shut
    }

    fn check_open(&self) -> Result<(), NoEntry> {
        let left = self
            .closed()
            .shut_until
            .map(|until| until.saturating_duration_since(Instant::now()));
        left.filter(|left| !left.is_zero())
            .map_or(Ok(()), |left| Err(NoEntry::Shut(left)))
    }

    fn closed(&self) -> MutexGuard<'_, Closed> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An even rate with room for small bursts, so that no minute exceeds the limit.
struct Pace {
    interval: Duration,
    burst: Duration,
    /// When the next unit would be due at an even rate.
    due: Mutex<Option<Instant>>,
}

impl Pace {
    fn new(per_minute: u64) -> Option<Self> {
        if per_minute == 0 {
            return None;
        }

        // A tenth may be sent at once; the rest is spread over the minute.
        let burst = per_minute.div_ceil(10);
        let steady = per_minute - burst + 1;
        let interval = MINUTE.div_f64(precise(steady));
        let burst = interval.mul_f64(precise(burst.saturating_sub(1)));

        Some(Self {
            interval,
            burst,
            due: Mutex::default(),
        })
    }

    /// The time at which `units` may be sent.
    fn reserve(&self, units: u64, now: Instant) -> Turn<'_> {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let earliest = due.map_or(now, |due| due.max(now));
        let length = self.interval.mul_f64(precise(units));
        *due = Some(earliest + length);
        let at = earliest
            .checked_sub(self.burst)
            .map_or(now, |turn| turn.max(now));

        Turn {
            pace: self,
            length,
            at,
            taken: false,
        }
    }
}

/// A place in the queue; released if its holder is dropped before its turn.
struct Turn<'a> {
    pace: &'a Pace,
    length: Duration,
    at: Instant,
    taken: bool,
}

impl Turn<'_> {
    fn take(mut self) {
        self.taken = true;
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.taken {
            let mut due = self.pace.due.lock().unwrap_or_else(PoisonError::into_inner);
            *due = due.and_then(|due| due.checked_sub(self.length));
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a pace needs no more than 52 bits"
)]
fn precise(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_minute_exceeds_the_limit() {
        for limit in [1, 2, 6, 60, 600] {
            let gate = Gate::new(100, limit, 0);
            let start = Instant::now();
            let mut passed = 0;
            while start.elapsed() < MINUTE {
                drop(gate.enter(0).await);
                passed += u64::from(start.elapsed() < MINUTE);
            }

            assert!(
                passed <= limit && passed * 10 >= limit * 8,
                "{passed} of {limit}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_have_their_own_limit() {
        let gate = Gate::new(100, 0, 6000);
        let start = Instant::now();
        for _ in 0..3 {
            drop(gate.enter(2000).await);
        }

        assert!(
            start.elapsed() > Duration::from_secs(30),
            "{:?}",
            start.elapsed()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_caller_releases_its_turn() {
        let gate = Gate::new(100, 6, 0);
        drop(gate.enter(0).await);
        for _ in 0..50 {
            let waiting = tokio::time::timeout(Duration::from_millis(1), gate.enter(0));
            assert!(waiting.await.is_err());
        }

        let start = Instant::now();
        drop(gate.enter(0).await);
        assert!(
            start.elapsed() <= Duration::from_secs(10),
            "{:?}",
            start.elapsed()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_gate_delays_all_callers() {
        let gate = Gate::new(2, 0, 0);
        gate.hold_for(Duration::from_secs(7));
        gate.hold_for(Duration::from_secs(3));
        let start = Instant::now();
        drop(gate.enter(0).await);

        assert_eq!(start.elapsed().as_secs(), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn a_shut_gate_rejects_all_callers_at_once() {
        let gate = Gate::new(1, 0, 0);
        let permit = gate.enter(0).await.unwrap();
        let waiting = gate.enter(0);
        tokio::pin!(waiting);
        assert!(
            tokio::time::timeout(Duration::from_millis(1), &mut waiting)
                .await
                .is_err()
        );

        gate.shut_for(Duration::MAX);
        gate.shut_for(Duration::from_mins(2));
        drop(permit);
        let start = Instant::now();
        assert_eq!(
            waiting.await.unwrap_err(),
            NoEntry::Shut(LONGEST_SHUT),
            "who waited for a place, too"
        );

        assert_eq!(
            gate.enter(0).await.unwrap_err(),
            NoEntry::Shut(LONGEST_SHUT)
        );

        assert!(gate.admit_probe(0).await.is_ok());
        assert!(start.elapsed().is_zero());
        assert!(gate.reopen() && !gate.reopen());
        assert!(gate.enter(0).await.is_ok());
    }
}
