//! What the server shares between requests: the script, the faults, the record and the counts.
//! Every lock is held for a few instructions only, never across an await.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::script::Script;
use super::step::{Fault, Step};
use super::types::{Outcome, Seen, Stats, Usage};

pub(super) struct State {
    pub(super) started: Instant,
    pub(super) stop: CancellationToken,
    script: Mutex<Arc<Script>>,
    faults: Mutex<Faults>,
    ledger: Mutex<Ledger>,
    changed: Notify,
}

#[derive(Default)]
struct Faults {
    queue: VecDeque<Step>,
    standing: Vec<Step>,
}

#[derive(Default)]
struct Ledger {
    /// The number of the last request.
    last: u64,
    /// Requests up to this number were cleared.
    cleared: u64,
    entries: VecDeque<Entry>,
    stats: Stats,
}

struct Entry {
    seen: Arc<Seen>,
    outcome: Outcome,
}

/// A panic elsewhere (a rule's assertion, say) must not hide the record from the test that reads
/// it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            started: Instant::now(),
            stop: CancellationToken::new(),
            script: Mutex::default(),
            faults: Mutex::default(),
            ledger: Mutex::default(),
            changed: Notify::new(),
        }
    }

    pub(super) fn script(&self) -> Arc<Script> {
        Arc::clone(&lock(&self.script))
    }

    pub(super) fn edit_script(&self, edit: impl FnOnce(&mut Script)) {
        edit(Arc::make_mut(&mut lock(&self.script)));
    }

    pub(super) fn push(&self, step: Step) {
        let mut faults = lock(&self.faults);
        if step.always {
            faults.standing.push(step);
        } else {
            faults.queue.push_back(step);
        }
    }

    pub(super) fn clear_faults(&self) {
        *lock(&self.faults) = Faults::default();
    }

    /// The first queued step for this request, otherwise a permanent one.
    pub(super) fn take_fault(&self, seen: &Seen) -> Option<Fault> {
        let mut faults = lock(&self.faults);
        let place = faults.queue.iter().position(|step| step.matches(seen));
        let step = match place {
            Some(place) => faults.queue.remove(place),
            None => faults
                .standing
                .iter()
                .find(|step| step.matches(seen))
                .cloned(),
        }?;

        drop(faults);
        lock(&self.ledger).stats.faults_met += 1;
        Some(step.fault)
    }

    /// Records a request; `make` gets its number.
    pub(super) fn admit(
        self: &Arc<Self>,
        limit: usize,
        make: impl FnOnce(u64) -> Seen,
    ) -> (Arc<Seen>, InFlight) {
        let mut ledger = lock(&self.ledger);
        ledger.last += 1;
        let seen = Arc::new(make(ledger.last));
        let guard = InFlight {
            state: Arc::clone(self),
            number: seen.number,
            open: true,
        };

        ledger.stats.requests += 1;
        *ledger.stats.by_stage.entry(seen.stage.clone()).or_default() += 1;
        ledger.stats.in_flight += 1;
        ledger.stats.max_in_flight = ledger.stats.max_in_flight.max(ledger.stats.in_flight);
        ledger.entries.push_back(Entry {
            seen: Arc::clone(&seen),
            outcome: Outcome::Pending,
        });

        while ledger.entries.len() > limit {
            ledger.entries.pop_front();
        }

        drop(ledger);
        self.changed.notify_waiters();
        (seen, guard)
    }

    fn settle(&self, number: u64, outcome: Outcome) {
        lock(&self.ledger).settle(number, outcome);
        self.changed.notify_waiters();
    }

    pub(super) fn count_usage(&self, usage: Usage) {
        let stats = &mut lock(&self.ledger).stats;
        stats.prompt_tokens += usage.prompt_tokens;
        stats.completion_tokens += usage.completion_tokens;
    }

    pub(super) fn count_unreadable(&self) {
        lock(&self.ledger).stats.unreadable += 1;
        self.changed.notify_waiters();
    }

    pub(super) fn requests(&self) -> Vec<Seen> {
        let ledger = lock(&self.ledger);
        ledger
            .entries
            .iter()
            .map(|entry| Seen {
                outcome: entry.outcome,
                ..Seen::clone(&entry.seen)
            })
            .collect()
    }

    /// Clears the requests and resets the counts.
    pub(super) fn clear(&self) {
        let mut ledger = lock(&self.ledger);
        let in_flight = ledger.stats.in_flight;
        ledger.cleared = ledger.last;
        ledger.entries.clear();

        ledger.stats = Stats {
            in_flight,
            max_in_flight: in_flight,
            ..Stats::default()
        };
    }

    pub(super) fn stats(&self) -> Stats {
        let queued = lock(&self.faults).queue.len() as u64;
        Stats {
            faults_queued: queued,
            ..lock(&self.ledger).stats.clone()
        }
    }

    /// Waits until the counts satisfy the condition; false after a timeout.
    pub(super) async fn wait_until(
        &self,
        wish: impl Fn(&Stats) -> bool,
        longest: Duration,
    ) -> bool {
        let waiting = async {
            loop {
                let mut change = std::pin::pin!(self.changed.notified());
                // Subscribes before it checks, so that no change is missed.
                change.as_mut().enable();
                if wish(&self.stats()) {
                    return;
                }

                change.await;
            }
        };
        tokio::time::timeout(longest, waiting).await.is_ok()
    }
}

impl Ledger {
    fn settle(&mut self, number: u64, outcome: Outcome) {
        self.stats.in_flight = self.stats.in_flight.saturating_sub(1);
        if number <= self.cleared {
            return;
        }

        match outcome {
            Outcome::Answered(status) => {
                self.stats.answered += 1;
                *self.stats.by_status.entry(status).or_default() += 1;
            }
            Outcome::Abandoned => self.stats.abandoned += 1,
            Outcome::Broken => self.stats.broken += 1,
            Outcome::Pending => {}
        }

        // Numbers have no gaps, so the distance to the first is the index.
        let first = self.entries.front().map_or(0, |entry| entry.seen.number);
        let place = number
            .checked_sub(first)
            .and_then(|place| usize::try_from(place).ok());
        if let Some(entry) = place.and_then(|place| self.entries.get_mut(place)) {
            entry.outcome = outcome;
        }
    }
}

/// A request in progress. If it is dropped before its outcome is recorded, it was abandoned: the
/// server drops the handler or the body if the client disconnects.
pub(super) struct InFlight {
    state: Arc<State>,
    number: u64,
    open: bool,
}

impl InFlight {
    pub(super) fn settle(&mut self, outcome: Outcome) {
        if std::mem::take(&mut self.open) {
            self.state.settle(self.number, outcome);
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let ended_here = self.state.stop.is_cancelled();
        self.settle(if ended_here {
            Outcome::Broken
        } else {
            Outcome::Abandoned
        });
    }
}
