//! Pauses a provider that refuses our key, our account or a model's name: asking it on behalf of
//! every job would fail all of them. One call is let through at a growing interval; the first
//! success ends the pause.
//!
//! A refusal that may concern one model alone (403, 404) pauses that model only. It may even
//! concern one text alone: after such a pause has ended because another call succeeded, the next
//! refusals fail only the call that met them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::LlmError;
use super::provider::{ProviderError, Refusal};
use crate::base::clock::Timestamp;

/// From the refusal to the first probe; doubled with each probe that is refused as well.
const FIRST_INTERVAL: Duration = Duration::from_secs(5);
const LONGEST_INTERVAL: Duration = Duration::from_mins(5);
/// While a probe is under way nobody knows how long it takes.
const PROBE_UNDER_WAY: Duration = Duration::from_secs(1);

/// A model whose pause has ended is trusted this long, and through this many refusals in a row.
const TRUSTED_FOR: Duration = Duration::from_mins(10);
const TRUSTED_REFUSALS: u32 = 2;

/// The pauses of one provider: of all its models (`None`), or of single ones.
pub struct Pauses {
    provider: String,
    held: Mutex<BTreeMap<Option<String>, Pause>>,
    trusted: Mutex<BTreeMap<String, Trust>>,
}

/// In a model that has answered after it refused: a single refusal says nothing about it.
struct Trust {
    until: Instant,
    /// In a row, since it last answered.
    refusals: u32,
}

struct Pause {
    refusal: Refusal,
    reason: String,
    since: Timestamp,
    interval: Duration,
    next_probe: Instant,
    probing: bool,
}

/// A pause as callers see it.
#[derive(Debug)]
pub struct Paused {
    /// `None`: all models of the provider.
    pub model: Option<String>,
    /// What a call now is answered with; it also says what to do.
    pub error: LlmError,
    pub since: Timestamp,
    pub next_probe_in: Duration,
}

/// Leave to ask once; its holder says how it went. Dropped without a word, it counts for nothing.
pub struct Pass<'a> {
    pauses: &'a Pauses,
    model: &'a str,
    /// Sent to find out whether a pause can end.
    is_probe: bool,
}

impl Pauses {
    pub fn new(provider: &str) -> Self {
        Self {
            provider: provider.to_owned(),
            held: Mutex::default(),
            trusted: Mutex::default(),
        }
    }

    /// The pause that a call to this model meets now, if it is not time for a probe.
    pub fn refusal(&self, model: &str) -> Option<LlmError> {
        self.find_closed(&self.held(), model)
    }

    /// Whether one may ask this model; at the time of a probe, one caller may.
    pub fn admit<'a>(&'a self, model: &'a str) -> Result<Pass<'a>, LlmError> {
        let mut held = self.held();
        if let Some(error) = self.find_closed(&held, model) {
            return Err(error);
        }

        let mut is_probe = false;
        for scope in scopes(model) {
            if let Some(pause) = held.get_mut(&scope) {
                pause.probing = true;
                is_probe = true;
            }
        }

        Ok(Pass {
            pauses: self,
            model,
            is_probe,
        })
    }

    /// Leave to ask whatever happened before: somebody wants to know.
    pub fn knock<'a>(&'a self, model: &'a str) -> Pass<'a> {
        let is_probe = scopes(model)
            .iter()
            .any(|scope| self.held().contains_key(scope));
        Pass {
            pauses: self,
            model,
            is_probe,
        }
    }

    /// How long until this model is probed, if it is paused.
    pub fn next_probe_in(&self, model: &str) -> Option<Duration> {
        let held = self.held();
        scopes(model)
            .iter()
            .filter_map(|scope| held.get(scope).map(Pause::left))
            .max()
    }

    /// All pauses, that of the whole provider first.
    pub fn list(&self) -> Vec<Paused> {
        let held = self.held();
        let seen = held.iter().map(|(scope, pause)| Paused {
            model: scope.clone(),
            error: self.error(scope.as_deref().unwrap_or_default(), pause),
            since: pause.since,
            next_probe_in: pause.left(),
        });

        seen.collect()
    }

    fn find_closed(&self, held: &BTreeMap<Option<String>, Pause>, model: &str) -> Option<LlmError> {
        let now = Instant::now();
        let paused = scopes(model).into_iter().find_map(|scope| {
            let pause = held.get(&scope)?;
            (pause.probing || pause.next_probe > now).then_some(pause)
        });

        paused.map(|pause| self.error(model, pause))
    }

    fn error(&self, model: &str, pause: &Pause) -> LlmError {
        pause.refusal.error(
            &self.provider,
            model,
            pause.reason.clone(),
            Some(pause.left()),
        )
    }

    /// The model answered; `resumed`: this ended its pause.
    fn trust(&self, model: &str, resumed: bool) {
        let mut trusted = self.trusted.lock().unwrap_or_else(PoisonError::into_inner);
        if resumed {
            trusted.insert(
                model.to_owned(),
                Trust {
                    until: Instant::now() + TRUSTED_FOR,
                    refusals: 0,
                },
            );
        } else if let Some(trust) = trusted.get_mut(model) {
            trust.refusals = 0;
        }
    }

    /// Whether this refusal is the affair of the one who asked.
    fn is_about_one_text(&self, model: &str) -> bool {
        let mut trusted = self.trusted.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(trust) = trusted.get_mut(model) else {
            return false;
        };
        trust.refusals += 1;
        if trust.until < Instant::now() || trust.refusals > TRUSTED_REFUSALS {
            trusted.remove(model);
            return false;
        }

        true
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<Option<String>, Pause>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pause {
    fn left(&self) -> Duration {
        self.next_probe
            .saturating_duration_since(Instant::now())
            .max(PROBE_UNDER_WAY)
    }

    fn put_off(&mut self) {
        self.next_probe = Instant::now() + self.interval;
    }
}

impl Pass<'_> {
    /// The model answered; tells whether this ended a pause.
    pub fn succeeded(self) -> bool {
        let mut ended = false;
        for scope in scopes(self.model) {
            let resumed = self.pauses.held().remove(&scope).is_some();
            if scope.is_some() {
                self.pauses.trust(self.model, resumed);
            }

            if resumed {
                ended = true;
                let provider = self.pauses.provider.as_str();
                tracing::info!(
                    provider,
                    model = scope,
                    "provider responds again: its pause has ended"
                );
            }
        }

        ended
    }

    /// The call failed. A refused key, account or model begins or prolongs a pause; anything else
    /// tells nothing about it. `named`: the request named the model, so its name is the request's
    /// own affair.
    pub fn failed(self, error: &ProviderError, named: bool, now: Timestamp) {
        if self.is_probe {
            for scope in scopes(self.model) {
                if let Some(pause) = self.pauses.held().get_mut(&scope) {
                    pause.put_off();
                }
            }
        }

        let Some((refusal, concerns_one_model)) = error.refusal() else {
            return;
        };
        if concerns_one_model && (named || self.pauses.is_about_one_text(self.model)) {
            return;
        }

        self.pause(
            concerns_one_model.then(|| self.model.to_owned()),
            refusal,
            error,
            now,
        );
    }

    fn pause(
        &self,
        scope: Option<String>,
        refusal: Refusal,
        error: &ProviderError,
        now: Timestamp,
    ) {
        let mut held = self.pauses.held();
        if let Some(pause) = held.get_mut(&scope) {
            // Others were under way when the pause began; only a probe tells something new.
            if self.is_probe {
                pause.interval = (pause.interval * 2).min(LONGEST_INTERVAL);
                pause.put_off();
                (pause.refusal, pause.reason) = (refusal, reason_of(error));
            }
            return;
        }

        let interval = FIRST_INTERVAL;
        let (next_probe, reason) = (Instant::now() + interval, reason_of(error));
        let pause = Pause {
            refusal,
            reason,
            since: now,
            interval,
            next_probe,
            probing: false,
        };

        let told = self.pauses.error(self.model, &pause);
        // Without what the provider said, which may quote a text.
        tracing::warn!(
            provider = self.pauses.provider,
            model = scope,
            code = told.code(),
            remedy = told.remediation(),
            "provider paused: jobs wait, and memoir probes it at increasing intervals"
        );

        held.insert(scope, pause);
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if self.is_probe {
            for scope in scopes(self.model) {
                if let Some(pause) = self.pauses.held().get_mut(&scope) {
                    pause.probing = false;
                }
            }
        }
    }
}

/// Why a provider is paused, for everybody to see: without its own words, which may quote the text
/// of one caller.
fn reason_of(error: &ProviderError) -> String {
    match error {
        ProviderError::Status { status, .. } => format!("status {status}"),
        _ => "it did not respond".to_owned(),
    }
}

/// Where a call to this model may meet a pause.
fn scopes(model: &str) -> [Option<String>; 2] {
    [None, Some(model.to_owned())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16) -> ProviderError {
        ProviderError::Status {
            status,
            message: "no".to_owned(),
            codes: Vec::new(),
            retry_after: None,
            should_retry: None,
        }
    }

    fn paused(code: u16) -> Pauses {
        let pauses = Pauses::new("p");
        pauses
            .admit("m")
            .ok()
            .unwrap()
            .failed(&status(code), false, Timestamp::from_micros(0));

        pauses
    }

    #[tokio::test(start_paused = true)]
    async fn allows_one_probe_at_a_growing_interval() {
        let pauses = paused(401);
        for seconds in [5, 10, 20, 40, 80, 160, 300, 300] {
            tokio::time::advance(Duration::from_secs(seconds - 1)).await;
            assert_eq!(
                pauses.refusal("m").unwrap().code(),
                "provider_auth",
                "{seconds}"
            );

            tokio::time::advance(Duration::from_secs(1)).await;
            let probe = pauses.admit("m").ok().unwrap();
            assert!(
                pauses.admit("m").is_err(),
                "a second probe at the same time"
            );

            probe.failed(&status(401), false, Timestamp::from_micros(0));
        }

        assert_eq!(pauses.list().len(), 1);
        assert!(pauses.knock("m").succeeded() && pauses.list().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_with_another_outcome_is_repeated() {
        let pauses = paused(402);
        tokio::time::advance(FIRST_INTERVAL).await;
        pauses
            .admit("m")
            .ok()
            .unwrap()
            .failed(&status(500), false, Timestamp::from_micros(0));

        assert_eq!(pauses.refusal("m").unwrap().code(), "provider_quota");
        tokio::time::advance(FIRST_INTERVAL).await;
        drop(pauses.admit("m").ok().unwrap());
        assert!(pauses.admit("m").ok().unwrap().succeeded());
    }

    #[tokio::test(start_paused = true)]
    async fn a_rejected_text_does_not_pause_a_model_that_answers_others() {
        let pauses = paused(403);
        let refuse = || {
            pauses
                .knock("m")
                .failed(&status(403), false, Timestamp::from_micros(0));
        };

        assert!(pauses.knock("m").succeeded());
        for _ in 0..5 {
            refuse();
            assert!(pauses.list().is_empty());
            pauses.knock("m").succeeded();
        }

        // In a row they are not about one text.
        for pauses_now in [0, 0, 1] {
            refuse();
            assert_eq!(pauses.list().len(), pauses_now);
        }

        assert!(pauses.knock("m").succeeded());
        tokio::time::advance(TRUSTED_FOR * 2).await;
        refuse();
        assert_eq!(pauses.list().len(), 1, "that was long ago");
    }

    #[tokio::test(start_paused = true)]
    async fn a_rejection_of_one_model_pauses_only_that_model() {
        for (code, others_go_on) in [(401, false), (402, false), (403, true), (404, true)] {
            let pauses = paused(code);
            assert!(pauses.refusal("m").is_some(), "{code}");
            assert_eq!(pauses.refusal("other").is_none(), others_go_on, "{code}");
        }

        assert!(paused(500).refusal("m").is_none());
        let pauses = Pauses::new("p");
        pauses
            .admit("typo")
            .ok()
            .unwrap()
            .failed(&status(404), true, Timestamp::from_micros(0));

        assert!(
            pauses.list().is_empty(),
            "a name out of a request is the request's own affair"
        );
    }
}
