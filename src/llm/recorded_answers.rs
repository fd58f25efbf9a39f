//! Answers from the record instead of a model, to replay a query or to resume one.
//!
//! Recorded outputs pass the same checks as those of a model, so the same rounds follow. A recalled
//! output is not recorded, counted or paid for again.

use std::collections::VecDeque;

use super::LlmError;
use super::provider::Finish;
use crate::model::llm_call::{CallOutcome, LlmCall};

/// The outputs of earlier calls, in order.
#[derive(Default)]
pub struct Record {
    calls: VecDeque<LlmCall>,
    /// No model is called when the record ends.
    alone: bool,
}

/// A recorded reply.
pub struct Recalled {
    pub text: String,
    pub finish: Finish,
}

impl Record {
    /// A record without further calls to models.
    pub fn alone(calls: Vec<LlmCall>) -> Self {
        Self {
            calls: calls.into(),
            alone: true,
        }
    }

    /// The outputs before an interruption; models are called for the rest. Also returns the
    /// attempts without a result, whose requests are sent again.
    pub fn begun(mut calls: Vec<LlmCall>) -> (Self, Vec<LlmCall>) {
        let last = calls
            .iter()
            .rposition(|call| call.outcome == CallOutcome::Ok.into_str());
        let useless = calls.split_off(last.map_or(0, |last| last + 1));
        (
            Self {
                calls: calls.into(),
                alone: false,
            },
            useless,
        )
    }

    pub fn is_alone(&self) -> bool {
        self.alone
    }

    /// The next reply for a stage, with the attempts that led to it; none if a model must be
    /// called.
    pub fn next(
        &mut self,
        stage: &'static str,
    ) -> (Vec<LlmCall>, Result<Option<Recalled>, LlmError>) {
        let mut taken: Vec<LlmCall> = Vec::new();
        loop {
            // Attempts without a reply are followed by those with one, whichever model was called;
            // nothing else can follow.
            let Some(call) = self.calls.front().filter(|call| call.stage == stage) else {
                let outcome = self.missing(stage, taken.last());
                return (taken, outcome);
            };

            let reply = recalled(call);
            taken.extend(self.calls.pop_front());
            if reply.is_some() {
                return (taken, Ok(reply));
            }
        }
    }

    /// The result if no reply is left.
    fn missing(
        &mut self,
        stage: &'static str,
        last: Option<&LlmCall>,
    ) -> Result<Option<Recalled>, LlmError> {
        if !self.alone {
            // The remaining outputs belong to requests that are no longer made.
            self.calls.clear();
            return Ok(None);
        }
        Err(match last {
            Some(call) => LlmError::Unavailable {
                model: format!("{}:{}", call.provider, call.model),
                reason: call.provider_params["error"]
                    .as_str()
                    .unwrap_or("no answer")
                    .to_owned(),
                wait: None,
                timed_out: false,
            },
            None => LlmError::NotRecorded { stage },
        })
    }
}

/// The reply of a call, if there was one.
fn recalled(call: &LlmCall) -> Option<Recalled> {
    let is = |outcome: CallOutcome| call.outcome == outcome.into_str();
    if is(CallOutcome::TransportError) || is(CallOutcome::Cancelled) {
        return None;
    }

    let text = call
        .llm_output
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default();

    let finish = if is(CallOutcome::Truncated) {
        Finish::CutOff
    } else if is(CallOutcome::Refused) {
        Finish::Refused("as recorded".to_owned())
    } else {
        Finish::Complete
    };

    Some(Recalled { text, finish })
}
