//! Waiting before the next try.

use std::time::Duration;

use super::ids;

/// The pause, ±25 %, so that callers that failed together do not retry together.
#[must_use]
pub fn with_jitter(pause: Duration) -> Duration {
    pause.mul_f64(0.75 + ids::random_fraction() / 2.0)
}
