//! Waiting before the next try.

use std::time::Duration;

use super::ids;

/// The pause, give or take a quarter, so that those who failed together do not come back together.
#[must_use]
pub fn with_jitter(pause: Duration) -> Duration {
    pause.mul_f64(0.75 + ids::random_fraction() / 2.0)
}
