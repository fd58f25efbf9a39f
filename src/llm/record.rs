//! The record of one attempt: begun before anything is sent, and ended exactly once, even if the
//! caller is dropped.

use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use tokio::time::Instant;

use super::daily_caps::Reservation;
use super::listener::{Counting, Listener};
use super::provider::{Mode, Reply, Usage};
use super::provider_error::ProviderError;
use super::recorded_answers::Recalled;
use super::send::Target;
use super::task::Task as _;
use super::tasks::helper::Helper;
use super::{Llm, LlmError, Session, measure};
use crate::base::ids::new_uuid;
use crate::model::llm_call::{CallOutcome, LlmCall, Payer, Spent};

/// More tokens than any call can have.
const MAX_TOKENS: i64 = 100_000_000;
/// Maximum bytes of an answer that are stored with its record.
const MAX_OUTPUT_BYTES: usize = 256 * 1024;

/// What came of a reply that is passed on while it arrives.
#[derive(Debug, Clone, Copy, Default)]
pub struct Received {
    /// As far as the provider has reported it.
    pub usage: Option<Usage>,
    /// Characters that the model wrote.
    pub chars: usize,
}

/// The attempts of one task.
pub struct Attempts<'a> {
    pub llm: &'a Llm,
    pub session: &'a Session,
    /// Gets the replies while they are written.
    pub listener: Option<Counting<'a>>,
    calls: Mutex<Vec<LlmCall>>,
    /// Set once a success status arrived, if the reply is passed on.
    received: Mutex<Option<Received>>,
}

impl<'a> Attempts<'a> {
    pub fn new(llm: &'a Llm, session: &'a Session) -> Self {
        Self {
            llm,
            session,
            listener: None,
            calls: Mutex::default(),
            received: Mutex::default(),
        }
    }

    /// Notes what came so far of a reply that is passed on.
    pub fn receive(&self, received: Received) {
        *self.received.lock().unwrap_or_else(PoisonError::into_inner) = Some(received);
    }

    /// What came of the current reply; none if nothing did.
    fn received(&self) -> Option<Received> {
        let received = *self.received.lock().unwrap_or_else(PoisonError::into_inner);
        let chars = self.listener.as_ref().map_or(0, Counting::chars);
        received.or((chars > 0).then_some(Received { usage: None, chars }))
    }

    /// Passes replies on while they are written.
    pub fn heard_by(mut self, listener: Option<&'a dyn Listener>) -> Self {
        self.listener = listener.map(Counting::new);
        self
    }

    pub fn into_calls(self) -> Vec<LlmCall> {
        self.calls
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The next recorded reply for a stage; none if a model must be called.
    pub fn recall(&self, stage: &'static str) -> Result<Option<Recalled>, LlmError> {
        let (taken, outcome) = self.session.recall(stage);
        self.calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(taken);

        outcome
    }

    fn count(&self) -> i64 {
        i64::try_from(
            self.calls
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .len(),
        )
        .unwrap_or(i64::MAX)
    }
}

/// What is known about an attempt before it is made.
pub struct Plan {
    pub stage: &'static str,
    pub level: Option<i64>,
    pub mode: Mode,
    pub params: Value,
    /// Estimated number of tokens to send, at four characters per token.
    pub expected_tokens: i64,
    pub temperature: Option<f64>,
    pub max_output_tokens: Option<u64>,
}

/// An attempt in progress.
pub struct Call<'a> {
    attempts: &'a Attempts<'a>,
    target: &'a Target,
    plan: Plan,
    expected: Spent,
    begun: Instant,
    record: Option<LlmCall>,
    reply: Option<(Option<String>, Option<String>)>,
    /// Released after the record was passed to the journal, never before.
    reservation: Option<Reservation>,
}

impl<'a> Call<'a> {
    /// Begins an attempt, unless a cap is reached.
    pub async fn begin(
        attempts: &'a Attempts<'a>,
        target: &'a Target,
        plan: Plan,
    ) -> Result<Self, LlmError> {
        let usage = Usage {
            prompt: plan.expected_tokens,
            ..Usage::default()
        };

        let usd = target.profile.cost(&target.model, usage).unwrap_or(0.0);
        let expected = Spent {
            calls: 1,
            tokens: plan.expected_tokens,
            usd,
        };

        let reservation = attempts
            .llm
            .reserve_today(attempts.session, expected)
            .await?;

        let seq = attempts.session.begin(expected)?;
        let record = LlmCall {
            call_id: new_uuid(),
            seq,
            stage: plan.stage.to_owned(),
            level: plan.level,
            attempt: attempts.count() + 1,
            outcome: CallOutcome::Cancelled.into_str().to_owned(),
            llm_output: None,
            timestamp: attempts.llm.now(),
            latency_ms: 0.0,
            provider: target.profile.settings.name.clone(),
            model: target.model.clone(),
            mode: plan.mode.into_str().to_owned(),
            tokens_prompt: 0,
            tokens_completion: 0,
            tokens_cached: 0,
            cost_usd: target.profile.cost(&target.model, Usage::default()),
            provider_params: plan.params.clone(),
            key_id: attempts
                .session
                .call
                .budget
                .as_ref()
                .map(|budget| budget.key_id.clone()),
        };

        let begun = Instant::now();
        Ok(Self {
            attempts,
            target,
            plan,
            expected,
            begun,
            record: Some(record),
            reply: None,
            reservation,
        })
    }

    /// Records the reply; the verdict follows with [`Call::finish`].
    pub fn replied(&mut self, reply: &Reply) {
        let Some(record) = &mut self.record else {
            return;
        };
        record.latency_ms = milliseconds(self.begun);
        if reply.counted {
            record.provider_params["usage"] = "counted".into();
        }

        let usage = reply.usage.unwrap_or_else(|| {
            record.provider_params["usage"] = "estimated".into();
            // The text is not all that was written if the reply was passed on.
            let received = self.attempts.received().unwrap_or_default();
            let chars = memoir_text::text::char_count(&reply.text).max(received.chars);
            estimate(self.plan.expected_tokens, chars)
        });

        charge(record, self.target, usage);
        self.reply = Some((reply.id.clone(), reply.model.clone()));
    }

    /// Ends an attempt that returned an answer.
    pub fn finish(mut self, outcome: CallOutcome, output: Option<Value>) {
        if let Some(mut record) = self.record.take() {
            // The embedded model's helper is stored with its source, and it would write the same
            // again.
            let is_stored = self.target.capabilities().in_process && record.stage == Helper::STAGE;
            record.llm_output = output.filter(|_| !is_stored).map(bounded);
            self.write(record, outcome, None);
        }
    }

    /// Ends an attempt that returned no answer.
    pub fn fail(mut self, error: &ProviderError) {
        if let Some(mut record) = self.record.take() {
            record.latency_ms = milliseconds(self.begun);
            if matches!(error, ProviderError::TimedOut) || self.attempts.received().is_some() {
                self.charge_unanswered(&mut record);
            }

            // Only the status, because the provider's message may quote the prompt.
            record.provider_params["error"] = match error {
                ProviderError::Status { status, .. } => format!("status {status}").into(),
                other => other.reason().into(),
            };

            self.write(record, CallOutcome::TransportError, Some(error.reason()));
        }
    }

    /// The provider may have done the work without a response, so what it has reported is counted,
    /// or else the sent tokens, and what arrived of a stream.
    fn charge_unanswered(&self, record: &mut LlmCall) {
        let received = self.attempts.received().unwrap_or_default();
        let usage = received.usage.unwrap_or_else(|| {
            record.provider_params["usage"] = "estimated".into();
            estimate(self.plan.expected_tokens, received.chars)
        });

        charge(record, self.target, usage);
    }

    fn write(&self, mut record: LlmCall, outcome: CallOutcome, error: Option<&'static str>) {
        outcome.into_str().clone_into(&mut record.outcome);
        let (llm, session) = (self.attempts.llm, self.attempts.session);
        measure::count(&record);
        let (id, answered_by) = self.reply.clone().unwrap_or_default();
        llm.spans().record(&super::spans::Finished {
            call: &record,
            kind: self.target.profile.settings.kind,
            temperature: self.plan.temperature,
            max_output_tokens: self.plan.max_output_tokens,
            response_id: id,
            response_model: answered_by,
            error: error.or_else(|| (outcome != CallOutcome::Ok).then(|| outcome.into_str())),
            traceparent: session.call.traceparent.as_deref(),
            payer: &session.payer,
        });

        session.end(record.clone(), self.expected);
        self.attempts
            .calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(record.clone());

        // Only jobs and queries show the answers of their calls. Nobody else could find an answer
        // that quotes a text when that text is deleted.
        if !matches!(session.payer, Payer::Job(_) | Payer::Query(_)) {
            record.llm_output = None;
        }

        // Where calls are capped by the day, they are counted at once.
        let may_keep = self.target.capabilities().in_process && self.reservation.is_none();
        session.list(llm.journal(), record, may_keep);
    }
}

impl Drop for Call<'_> {
    /// The caller was dropped; the provider may have done the work anyway.
    fn drop(&mut self) {
        if let Some(mut record) = self.record.take() {
            record.latency_ms = milliseconds(self.begun);
            self.charge_unanswered(&mut record);
            self.write(record, CallOutcome::Cancelled, None);
        }
    }
}

/// At four characters per token.
fn estimate(prompt: i64, chars: usize) -> Usage {
    Usage {
        prompt,
        completion: i64::try_from(chars.div_ceil(4)).unwrap_or(i64::MAX),
        cached: 0,
    }
}

/// Counts are limited to a plausible range, because providers report them.
fn charge(record: &mut LlmCall, target: &Target, usage: Usage) {
    let prompt = usage.prompt.clamp(0, MAX_TOKENS);
    let usage = Usage {
        prompt,
        completion: usage.completion.clamp(0, MAX_TOKENS),
        cached: usage.cached.clamp(0, prompt),
    };

    record.tokens_prompt = usage.prompt;
    record.tokens_completion = usage.completion;
    record.tokens_cached = usage.cached;
    record.cost_usd = target.profile.cost(&target.model, usage);
}

/// The answer, or its size if it is too large.
fn bounded(output: Value) -> Value {
    let bytes = output.to_string().len();
    if bytes > MAX_OUTPUT_BYTES {
        serde_json::json!({"truncated": true, "bytes": bytes})
    } else {
        output
    }
}

/// Rounded to microseconds.
fn milliseconds(since: Instant) -> f64 {
    (since.elapsed().as_secs_f64() * 1e6).round() / 1000.0
}
