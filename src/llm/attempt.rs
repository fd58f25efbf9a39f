//! Sends a single request: past the provider's pauses, gate and breaker, with a record of the call.
//! Also decides how long to wait before the next attempt.

use std::time::Duration;

use super::gate::NoEntry;
use super::provider::Reply;
use super::provider_error::ProviderError;
use super::record::{Attempts, Call, Plan};
use super::send::Target;
use super::{Llm, LlmError, embed};
use crate::base::backoff::with_jitter;
use crate::base::ids::random_fraction;

/// A reply whose record is still open.
pub struct Sent<'a> {
    pub reply: Reply,
    pub call: Call<'a>,
}

impl Llm {
    /// Sends a single request.
    pub(super) async fn attempt<'a>(
        &self,
        attempts: &'a Attempts<'a>,
        target: &'a Target,
        asking: impl Future<Output = Result<Reply, ProviderError>>,
        plan: Plan,
    ) -> Result<Result<Sent<'a>, ProviderError>, LlmError> {
        let profile = &target.profile;
        let away = |reason: String, wait| LlmError::Unavailable {
            model: target.name(),
            reason,
            wait,
            timed_out: false,
        };

        let tokens = u64::try_from(plan.expected_tokens).unwrap_or(0);
        let shut = |no_entry| match no_entry {
            NoEntry::Stopping => away("the service is stopping".to_owned(), None),
            NoEntry::Shut(left) => away(
                format!("it asked callers to wait for another {} s", left.as_secs()),
                Some(left),
            ),
        };

        let resting = |left: Duration| {
            let reason = format!(
                "it failed too often in a row, so memoir sends it no requests for another {} s",
                left.as_secs()
            );
            away(reason, Some(left))
        };

        let (_turn, probe, pass) = if attempts.session.probing {
            let turn = profile.gate.admit_probe(tokens).await.map_err(shut)?;
            (
                turn,
                profile.pauses.admit_probe(&target.model),
                profile.breaker.admit_probe(),
            )
        } else {
            // Checked twice: a call that will be rejected takes no turn, and a pause may begin
            // while the call waits for its turn.
            if let Some(error) = profile.pauses.refusal(&target.model) {
                return Err(error);
            }

            let turn = profile.gate.enter(tokens).await.map_err(shut)?;
            (
                turn,
                profile.pauses.admit(&target.model)?,
                profile.breaker.admit().map_err(resting)?,
            )
        };

        // The embedding model is never named by a request.
        let named = attempts.session.model.is_some() && plan.stage != embed::STAGE;
        let mut call = Call::begin(attempts, target, plan).await?;
        let total = Duration::from_secs(self.settings().transport.total_timeout);
        let answered = tokio::time::timeout(total, asking).await;

        match answered.unwrap_or(Err(ProviderError::TimedOut)) {
            Ok(reply) => {
                let reopened = attempts.session.probing && profile.gate.reopen();
                let (back, resumed) = (pass.succeeded(), probe.succeeded());
                if back || resumed || reopened {
                    self.announce_recovery();
                }

                call.replied(&reply);
                Ok(Ok(Sent { reply, call }))
            }
            Err(error) => {
                if error.is_trouble() && !target.capabilities().in_process {
                    pass.failed();
                } else {
                    pass.succeeded();
                }

                if let ProviderError::Status {
                    status: 429 | 503,
                    retry_after: Some(wait),
                    ..
                } = &error
                {
                    if *wait <= self.longest_wait() {
                        profile.gate.hold_for(*wait);
                    } else {
                        profile.gate.shut_for(*wait);
                    }
                }

                call.fail(&error);
                let error = profile.redacted(error);
                probe.failed(&error, named, self.now());
                Ok(Err(error))
            }
        }
    }

    /// How long to wait before the next try, if a retry may help.
    pub(super) fn wait_before_next(&self, error: &ProviderError, tried: u64) -> Option<Duration> {
        if !error.may_pass() {
            return None;
        }

        if let ProviderError::Status {
            retry_after: Some(requested),
            ..
        } = error
        {
            // Slightly longer than requested, so that not all callers return at once.
            return (*requested <= self.longest_wait())
                .then(|| requested.mul_f64(1.0 + random_fraction() / 10.0));
        }

        Some(with_jitter(self.settings().transport.pause(tried)))
    }

    fn longest_wait(&self) -> Duration {
        Duration::from_secs(self.settings().transport.retry_after_cap)
    }
}
