//! `[jobs]`: how background jobs are shared, retried and kept.

use std::time::Duration;

use serde::Deserialize;

use super::Violations;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jobs {
    pub workers: u64,
    pub lease_seconds: u64,
    pub max_attempts: u64,
    pub max_losses: u64,
    pub backoff_ms: u64,
    pub backoff_cap_ms: u64,
    pub patience: u64,
    pub max_queued: u64,
    pub keep_days: u64,
}

impl Jobs {
    pub fn validate(&self, violations: &mut Violations) {
        violations.check_range("jobs.workers", self.workers, 0..=1000, 2);
        violations.check_range("jobs.lease_seconds", self.lease_seconds, 1..=3600, 60);
        violations.check_range("jobs.max_attempts", self.max_attempts, 1..=1000, 3);
        violations.check_range("jobs.max_losses", self.max_losses, 1..=1000, 20);
        violations.check_range("jobs.backoff_ms", self.backoff_ms, 1..=3_600_000, 1000);
        violations.check_range(
            "jobs.backoff_cap_ms",
            self.backoff_cap_ms,
            1..=3_600_000,
            60_000,
        );

        violations.check_range("jobs.patience", self.patience, 0..=30 * 24 * 3600, 3600);
        violations.check_range("jobs.max_queued", self.max_queued, 1..=10_000_000, 10_000);
        violations.check_range("jobs.keep_days", self.keep_days, 1..=36_500, 30);
    }

    pub fn lease(&self) -> Duration {
        Duration::from_secs(self.lease_seconds)
    }

    /// How long an outage of a provider may last before it uses up an attempt of a job.
    pub fn patience(&self) -> Duration {
        Duration::from_secs(self.patience)
    }

    /// The wait after the given attempt, which starts at 1, before jitter.
    pub fn pause(&self, attempt: i64) -> Duration {
        let doublings = u32::try_from(attempt.saturating_sub(1))
            .unwrap_or(0)
            .min(20);
        let doubled = self.backoff_ms.saturating_mul(1 << doublings);
        Duration::from_millis(doubled.min(self.backoff_cap_ms))
    }
}
