//! How far the texts of a batch have come, so that a call waits for those that may still join it and
//! for no others.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// The stage of a text that has not asked for anything yet.
const PREPARING: usize = 0;
/// How long a call waits for texts at an earlier stage, and how many calls longer: they may need
/// several calls each before they arrive.
const MOMENT: Duration = Duration::from_secs(2);
const CALLS: u32 = 10;

/// The stages of all texts in a batch.
#[derive(Default)]
pub struct Stages {
    state: Mutex<State>,
    /// The earliest stage has changed.
    moved: Notify,
    /// Until when texts that come one by one may come in.
    open_until: Option<Instant>,
    /// How long those wait for each other; the texts of one request wait as long as it takes.
    linger: Option<Duration>,
}

#[derive(Default)]
struct State {
    /// How many texts are at each stage.
    members: BTreeMap<usize, usize>,
    slowest_call: Duration,
}

/// The place of one text; left when it is dropped.
pub struct Member<'s> {
    stages: &'s Stages,
    stage: AtomicUsize,
}

impl Stages {
    /// For texts of one request, or for those that come while the first of them lingers.
    pub fn new(linger: Option<Duration>) -> Self {
        Self {
            open_until: linger.map(|linger| Instant::now() + linger),
            linger,
            ..Self::default()
        }
    }

    /// Whether its texts came one by one.
    pub fn lingers(&self) -> bool {
        self.open_until.is_some()
    }

    /// Whether another text may come in.
    pub fn is_open(&self) -> bool {
        self.open_until.is_none_or(|until| Instant::now() < until)
    }

    /// Until when a call may wait for other texts, if it has been waiting since a time.
    pub fn wait_until(&self, stage: usize, since: Instant) -> Option<Instant> {
        let others = self.are_some_before(stage).then(|| since + self.patience());
        others.max(self.open_until)
    }

    /// A text comes in.
    pub fn join(&self) -> Member<'_> {
        *self.state().members.entry(PREPARING).or_default() += 1;
        Member {
            stages: self,
            stage: AtomicUsize::new(PREPARING),
        }
    }

    /// Whether a text may still arrive at a stage.
    pub fn are_some_before(&self, stage: usize) -> bool {
        self.state().earliest() < stage
    }

    /// How long a text may wait for others.
    pub fn patience(&self) -> Duration {
        let as_long_as_it_takes = || MOMENT + self.state().slowest_call * CALLS;
        self.linger.unwrap_or_else(as_long_as_it_takes)
    }

    /// Notes how long a call took.
    pub fn note_call(&self, took: Duration) {
        let mut state = self.state();
        state.slowest_call = state.slowest_call.max(took);
    }

    /// Completes when the earliest stage changes.
    pub fn moved(&self) -> tokio::sync::futures::Notified<'_> {
        self.moved.notified()
    }

    /// Moves a text from one stage to another, or out.
    fn change(&self, from: usize, to: Option<usize>) {
        let mut state = self.state();
        let before = state.earliest();
        if let Some(count) = state.members.get_mut(&from) {
            *count -= 1;
            if *count == 0 {
                state.members.remove(&from);
            }
        }

        if let Some(to) = to {
            *state.members.entry(to).or_default() += 1;
        }

        let has_moved = state.earliest() != before;
        drop(state);
        if has_moved {
            self.moved.notify_waiters();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn earliest(&self) -> usize {
        self.members.keys().next().copied().unwrap_or(usize::MAX)
    }
}

impl Member<'_> {
    /// The text has arrived at a stage. It never goes back.
    pub fn reach(&self, stage: usize) {
        let before = self.stage.fetch_max(stage, Ordering::Relaxed);
        if before < stage {
            self.stages.change(before, Some(stage));
        }
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        self.stages.change(self.stage.load(Ordering::Relaxed), None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_leaves_or_arrives_is_no_longer_waited_for() {
        let stages = Stages::default();
        assert!(!stages.are_some_before(1));

        let (one, other) = (stages.join(), stages.join());
        one.reach(2);
        assert!(stages.are_some_before(1) && stages.are_some_before(2));

        other.reach(1);
        assert!(!stages.are_some_before(1) && stages.are_some_before(2));

        drop(other);
        assert!(!stages.are_some_before(2));
        one.reach(1);
        assert!(!stages.are_some_before(2), "nothing goes back");
    }

    #[test]
    fn slow_calls_are_waited_for_longer() {
        let stages = Stages::default();
        let before = stages.patience();
        stages.note_call(Duration::from_secs(2));
        stages.note_call(Duration::from_millis(50));
        assert_eq!(stages.patience(), before + Duration::from_secs(20));
    }

    #[test]
    fn texts_that_come_one_by_one_wait_no_longer_than_they_may() {
        let linger = Duration::from_millis(150);
        let stages = Stages::new(Some(linger));
        stages.note_call(Duration::from_mins(1));
        assert_eq!(stages.patience(), linger);
    }
}
