//! Pauses a provider that rejects its key, its account or a model name, because otherwise every job
//! would fail. At growing intervals one call is allowed as a probe; the first success ends the
//! pause.
//!
//! A rejection that may concern a single model (403, 404) pauses only that model. It may even
//! concern a single text: after such a pause has ended because another call succeeded, the next
//! rejections fail only their own call.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::LlmError;
use super::provider_error::{ProviderError, Refusal};
use crate::base::clock::Timestamp;

/// Time from the rejection to the first probe; doubled with each rejected probe.
const FIRST_INTERVAL: Duration = Duration::from_secs(5);
const LONGEST_INTERVAL: Duration = Duration::from_mins(5);
/// Time reserved for a running probe, whose duration is unknown.
const PROBE_UNDER_WAY: Duration = Duration::from_secs(1);

/// How long a model is trusted after its pause has ended, and for how many consecutive rejections.
const TRUSTED_FOR: Duration = Duration::from_mins(10);
const TRUSTED_REFUSALS: u32 = 2;

/// The pauses of one provider: for all its models (`None`) or for single models.
pub struct Pauses {
    provider: String,
    held: Mutex<BTreeMap<Option<String>, Pause>>,
    trusted: Mutex<BTreeMap<String, Trust>>,
}

/// Trust in a model that has responded after a rejection: a further rejection probably concerns a
/// single text.
struct Trust {
    until: Instant,
    /// Consecutive rejections since its last response.
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
    /// The error that a call receives now, with its remedy.
    pub error: LlmError,
    pub since: Timestamp,
    pub next_probe_in: Duration,
}

/// Permission for one call; its holder reports the outcome. If it is dropped without a report, it
/// has no effect.
pub struct Pass<'a> {
    pauses: &'a Pauses,
    model: &'a str,
    /// Whether the call is a probe, which may end the pause.
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

    /// The error for a call to this model now, unless a probe is due.
    pub fn refusal(&self, model: &str) -> Option<LlmError> {
        self.find_closed(&self.held(), model)
    }

    /// Whether a call to this model is allowed; when a probe is due, one caller is admitted.
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

    /// Permission regardless of pauses, for a probe that a user requests.
    pub fn admit_probe<'a>(&'a self, model: &'a str) -> Pass<'a> {
        let is_probe = scopes(model)
            .iter()
            .any(|scope| self.held().contains_key(scope));
        Pass {
            pauses: self,
            model,
            is_probe,
        }
    }

    /// Time until the next probe of this model, if it is paused.
    pub fn next_probe_in(&self, model: &str) -> Option<Duration> {
        let held = self.held();
        scopes(model)
            .iter()
            .filter_map(|scope| held.get(scope).map(Pause::left))
            .max()
    }

    /// All pauses; first the one of the whole provider.
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

    /// Records that the model responded; `resumed`: this ended its pause.
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

    /// Whether this rejection probably concerns a single text, so that it starts no pause.
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
    /// The model responded; returns whether this ended a pause.
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

    /// The call failed. A rejected key, account or model starts or extends a pause; other errors do
    /// not affect it. `named`: the request named the model, so an unknown name concerns only that
    /// request.
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
            // Other calls were in flight when the pause began; only a probe gives new information.
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

        let error = self.pauses.error(self.model, &pause);
        // Without the provider's message, which may quote a text.
        tracing::warn!(
            provider = self.pauses.provider,
            model = scope,
            code = error.code(),
            remedy = error.remediation(),
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

/// Why a provider is paused, as shown to all callers: without the provider's message, which may
/// quote the text of one caller.
fn reason_of(error: &ProviderError) -> String {
    match error {
        ProviderError::Status { status, .. } => format!("status {status}"),
        _ => "it did not respond".to_owned(),
    }
}

/// The pauses that apply to a call to this model.
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
        assert!(pauses.admit_probe("m").succeeded() && pauses.list().is_empty());
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
                .admit_probe("m")
                .failed(&status(403), false, Timestamp::from_micros(0));
        };

        assert!(pauses.admit_probe("m").succeeded());
        for _ in 0..5 {
            refuse();
            assert!(pauses.list().is_empty());
            pauses.admit_probe("m").succeeded();
        }

        // Consecutive rejections do not concern a single text.
        for pauses_now in [0, 0, 1] {
            refuse();
            assert_eq!(pauses.list().len(), pauses_now);
        }

        assert!(pauses.admit_probe("m").succeeded());
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
