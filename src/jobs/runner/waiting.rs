//! Jobs whose provider does not answer: how long they wait, when that uses up an attempt, and when
//! they are woken.

use std::time::Duration;

use super::Shared;
use crate::base::backoff::with_jitter;
use crate::base::ids::random_fraction;
use crate::config;
use crate::jobs::error::{Failure, Wait};
use crate::jobs::{JobError, Outcome};
use crate::model::job::Job;

/// Maximum pause before an unreachable provider is tried again, before jitter, so that its recovery
/// is noticed soon.
const LONGEST_PAUSE: Duration = Duration::from_secs(25);
/// Maximum single pause of a job, whatever the provider asks for. Returning costs no call.
const LONGEST_WAIT: Duration = Duration::from_mins(1);
/// A wait after which every check is less likely to find a change.
const LONG: Duration = Duration::from_hours(1);
/// Maximum single pause after a wait that is so long.
const LONGEST_WAIT_LATER: Duration = Duration::from_mins(5);
/// Minimum interval between two wake-ups, for providers that fail and recover in turns.
const BETWEEN_WAKES: Duration = Duration::from_secs(1);

/// How long a job has waited for a provider, this run included.
pub struct Waited {
    /// The code of the error that it waited for, if it has made no progress since.
    code: Option<String>,
    waits: i64,
    time: Duration,
}

impl Waited {
    /// `before`: until this run began. `progressed`: whether the run has made progress.
    pub fn before(
        job: &Job,
        before: Option<Duration>,
        running: Duration,
        progressed: bool,
    ) -> Self {
        match before {
            Some(before) if !progressed => Self {
                code: job
                    .error
                    .as_ref()
                    .and_then(|error| error["code"].as_str())
                    .map(str::to_owned),

                waits: job.waits,
                time: before + running,
            },
            _ => Self {
                code: None,
                waits: 0,
                time: Duration::ZERO,
            },
        }
    }

    /// Whether the job has waited for the same reason before.
    pub fn goes_on(&self, failure: &Failure) -> bool {
        self.code.as_deref() == Some(failure.kind.code)
    }

    /// An outage longer than `jobs.patience` uses up an attempt.
    pub fn judge(
        &self,
        outcome: Result<Outcome, JobError>,
        settings: &config::Jobs,
    ) -> Result<Outcome, JobError> {
        match outcome {
            Err(JobError::Wait(failure, Wait::Outage(_) | Wait::Storage))
                if self.time(&failure) >= settings.patience() =>
            {
                Err(JobError::Retry(failure))
            }
            outcome => outcome,
        }
    }

    /// How long to pause the job now.
    pub fn pause(&self, wait: Wait, failure: &Failure, settings: &config::Jobs) -> Duration {
        match wait {
            Wait::Outage(named) => {
                let own = self.own_pause(failure, settings);
                named.map_or(own, |named| {
                    own.max(a_little_later(named.min(LONGEST_WAIT)))
                })
            }
            Wait::Storage | Wait::Queue => self.own_pause(failure, settings),
            Wait::Paused(left) => {
                let longest = if self.time(failure) < LONG {
                    LONGEST_WAIT
                } else {
                    LONGEST_WAIT_LATER
                };
                a_little_later(left.min(longest))
            }
        }
    }

    /// Grows with every wait for the same reason.
    fn own_pause(&self, failure: &Failure, settings: &config::Jobs) -> Duration {
        let waits = if self.goes_on(failure) {
            self.waits + 1
        } else {
            1
        };
        with_jitter(settings.pause(waits).min(LONGEST_PAUSE))
    }

    fn time(&self, failure: &Failure) -> Duration {
        if self.goes_on(failure) {
            self.time
        } else {
            Duration::ZERO
        }
    }
}

impl Shared {
    /// Makes waiting jobs runnable: at start, because the settings may have changed, and whenever a
    /// provider recovers.
    pub(super) async fn wake_waiting(&self) {
        let mut recovered = self.recovered.clone();
        loop {
            match self.store().wake_waiting_jobs().await {
                Ok(0) => {}
                Ok(count) => {
                    tracing::info!(count, "retrying jobs that waited for a provider");
                    self.jobs.announce();
                }
                Err(error) => tracing::debug!(%error, "cannot wake waiting jobs"),
            }

            tokio::time::sleep(BETWEEN_WAKES).await;
            if recovered.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

/// Never earlier than the given time, and not all at once.
fn a_little_later(pause: Duration) -> Duration {
    pause.mul_f64(1.0 + random_fraction() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::problems;

    fn settings(patience: u64) -> config::Jobs {
        config::Jobs {
            workers: 2,
            lease_seconds: 60,
            max_attempts: 3,
            backoff_ms: 1000,
            backoff_cap_ms: 60_000,
            patience,
            max_losses: 20,
            max_queued: 1,
            keep_days: 1,
        }
    }

    fn waited(waits: i64, seconds: u64) -> Waited {
        Waited {
            code: Some("llm_unavailable".to_owned()),
            waits,
            time: Duration::from_secs(seconds),
        }
    }

    fn away() -> Failure {
        Failure::new(problems::LLM_UNAVAILABLE, "away")
    }

    #[test]
    fn waits_grow_to_half_a_minute_or_follow_the_provider() {
        for (waits, named, least, most) in [
            (0, None, 750, 1250),
            (2, None, 3000, 5000),
            (9, None, 18_750, 31_250),
            (0, Some(20), 20_000, 22_000),
            (9, Some(2), 18_750, 31_250),
            (0, Some(3600), 60_000, 66_000),
        ] {
            let pause = waited(waits, 0).pause(
                Wait::Outage(named.map(Duration::from_secs)),
                &away(),
                &settings(1),
            );
            assert!(
                (least..=most).contains(&pause.as_millis()),
                "{waits} {named:?}: {pause:?}"
            );
        }

        let paused = |left, seconds| {
            waited(5, seconds)
                .pause(
                    Wait::Paused(Duration::from_secs(left)),
                    &away(),
                    &settings(1),
                )
                .as_secs()
        };

        assert_eq!(
            (paused(10, 0), paused(300, 0) / 10, paused(300, 3600) / 100),
            (10, 6, 3)
        );
    }

    #[test]
    fn an_outage_longer_than_patience_uses_up_an_attempt() {
        let judged = |waited: &Waited, wait, patience| {
            let outcome = waited.judge(
                Err(JobError::Wait(Box::new(away()), wait)),
                &settings(patience),
            );
            matches!(outcome, Err(JobError::Retry(_)))
        };

        assert!(!judged(&waited(100, 3599), Wait::Outage(None), 3600));
        assert!(judged(&waited(100, 3600), Wait::Outage(None), 3600));
        assert!(
            judged(&waited(0, 0), Wait::Outage(None), 0),
            "no patience at all"
        );

        for wait in [Wait::Paused(Duration::ZERO), Wait::Queue] {
            assert!(!judged(&waited(100, 99_999), wait, 3600), "no limit");
        }

        let other = Waited {
            code: Some("provider_auth".to_owned()),
            ..waited(100, 99_999)
        };

        assert!(
            !judged(&other, Wait::Outage(None), 3600),
            "it waited for something else"
        );
    }
}
