//! Answers out of the record instead of a model: a question that was asked before is walked through
//! again.
//!
//! What the record holds goes through the same checks as what a model says, so the same rounds
//! follow from it. Nothing that is recalled is recorded, counted or paid a second time.

use std::collections::VecDeque;

use super::LlmError;
use super::provider::Finish;
use crate::model::llm_call::{CallOutcome, LlmCall};

/// What earlier calls said, in their order.
#[derive(Default)]
pub struct Record {
    calls: VecDeque<LlmCall>,
    /// Nobody is asked when it ends.
    alone: bool,
}

/// A reply as it came then.
pub struct Recalled {
    pub text: String,
    pub finish: Finish,
}

impl Record {
    /// All that will be said.
    pub fn alone(calls: Vec<LlmCall>) -> Self {
        Self {
            calls: calls.into(),
            alone: true,
        }
    }

    /// What was said before somebody had to stop; models go on from there. Attempts that led to
    /// nothing come back: what they were about is asked anew.
    pub fn begun(mut calls: Vec<LlmCall>) -> (Self, Vec<LlmCall>) {
        let last = calls
            .iter()
            .rposition(|call| call.outcome == CallOutcome::Ok.as_str());
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

    /// The next reply to a stage, with the attempts that it took; none where a model is to be
    /// asked.
    pub fn next(
        &mut self,
        stage: &'static str,
    ) -> (Vec<LlmCall>, Result<Option<Recalled>, LlmError>) {
        let mut taken: Vec<LlmCall> = Vec::new();
        loop {
            // Attempts that brought no reply are followed by those that did, whoever was asked
            // then: nothing else can follow.
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

    /// What it means that no reply is left.
    fn missing(
        &mut self,
        stage: &'static str,
        last: Option<&LlmCall>,
    ) -> Result<Option<Recalled>, LlmError> {
        if !self.alone {
            // Whatever else is there answers questions that are not put any more.
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
            },
            None => LlmError::NotRecorded { stage },
        })
    }
}

/// The reply of a call, if there was one.
fn recalled(call: &LlmCall) -> Option<Recalled> {
    let is = |outcome: CallOutcome| call.outcome == outcome.as_str();
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
