//! How long one computation may take. Nothing else of the policy depends on time: with any limit
//! that is not reached, the result is the same.

use std::time::{Duration, Instant};

/// A time limit that has begun.
#[derive(Debug, Clone, Copy)]
pub struct TimeLimit(Instant);

impl TimeLimit {
    /// A limit that begins now.
    pub fn of(duration: Duration) -> Self {
        Self(Instant::now() + duration)
    }

    pub fn check(self) -> Result<(), TimeOver> {
        if Instant::now() < self.0 {
            Ok(())
        } else {
            Err(TimeOver)
        }
    }
}

/// The time limit was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeOver;
