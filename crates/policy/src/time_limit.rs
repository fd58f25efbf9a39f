//! How long one computation may take. Nothing else of the policy depends on time: with any limit
//! that is not reached, the result is the same.

use std::time::{Duration, Instant};

/// A time limit that has begun.
#[derive(Debug, Clone, Copy)]
pub struct TimeLimit(Option<Instant>);

impl TimeLimit {
    /// For what takes linear time.
    pub const NONE: Self = Self(None);

    /// A limit that begins now.
    pub fn of(duration: Duration) -> Self {
        Self(Some(Instant::now() + duration))
    }

    pub fn check(self) -> Result<(), TimeOver> {
        match self.0 {
            Some(end) if Instant::now() >= end => Err(TimeOver),
            _ => Ok(()),
        }
    }
}

/// The time limit was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeOver;
