//! A clock that stands still until a test moves it.

use std::sync::atomic::{AtomicI64, Ordering};

use memoir::base::clock::{Clock, Timestamp};

/// 2026-01-31T12:00:00Z.
const START: i64 = 1_769_860_800_000_000;

pub struct ManualClock(AtomicI64);

impl Default for ManualClock {
    fn default() -> Self {
        Self(AtomicI64::new(START))
    }
}

impl ManualClock {
    pub fn advance_seconds(&self, seconds: i64) {
        self.0.fetch_add(seconds * 1_000_000, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}
