//! The entry point: one task in, one checked output out, however many attempts that takes.
//!
//! The layers, innermost first: transport retries (`send`), a repair round with the list of errors,
//! a round for the invalid items, smaller rounds for an output that was cut off, and the fallback
//! model once.

use serde_json::Value;

use super::answer::{self, MAX_FAULTS, Verdict};
use super::attempt::Sent;
use super::listener::Listener;
use super::provider::{Finish, Mode};
use super::record::Attempts;
use super::send::{Target, TaskRequest};
use super::task::{Fault, Task};
use super::{Llm, LlmError, Session, measure};
use crate::model::llm_call::{CallOutcome, LlmCall};

/// A checked answer and the calls that led to it.
#[derive(Debug)]
pub struct Answered<O> {
    pub value: O,
    /// Every attempt, in the order in which they began.
    pub calls: Vec<LlmCall>,
}

/// The result of a task with several items, of which some may have no answer.
#[derive(Debug)]
pub struct Partly<O> {
    /// The checked items, if there are any.
    pub value: Option<O>,
    /// Every attempt, in the order in which they began.
    pub calls: Vec<LlmCall>,
    /// Why the other items have no answer.
    pub error: Option<LlmError>,
}

impl<O> Answered<O> {
    /// The model that answered, as `provider:model`.
    pub fn model(&self) -> String {
        last_model(&self.calls)
    }

    /// Whether the embedded model answered, which quotes sentences and writes none.
    pub fn quotes(&self) -> bool {
        let embedded = Mode::Embedded.into_str();
        self.calls.last().is_some_and(|call| call.mode == embedded)
    }
}

impl<O> Partly<O> {
    /// The model that answered, as `provider:model`.
    pub fn model(&self) -> String {
        last_model(&self.calls)
    }
}

fn last_model(calls: &[LlmCall]) -> String {
    let last = calls.last();
    last.map_or_else(String::new, |call| {
        format!("{}:{}", call.provider, call.model)
    })
}

/// The next request for a task.
struct Round<T> {
    task: T,
    /// The errors of the previous answer.
    faults: Vec<String>,
    /// How often the whole answer, and single items, may still be requested again.
    repairs: u64,
    item_repairs: u64,
    /// Sent to the fallback model, because the first model failed.
    on_fallback: bool,
    /// The schema is part of the prompt, because the model wrote text instead of calling a tool.
    in_words: bool,
}

/// The result of a round.
struct Step<T: Task> {
    done: Option<T::Output>,
    next: Vec<Round<T>>,
    /// Items that failed, and the reason.
    left: Option<(Round<T>, LlmError)>,
}

impl<T: Task> Step<T> {
    fn done(output: T::Output) -> Self {
        Self {
            done: Some(output),
            next: Vec::new(),
            left: None,
        }
    }

    fn next(rounds: Vec<Round<T>>) -> Self {
        Self {
            done: None,
            next: rounds,
            left: None,
        }
    }
}

impl Llm {
    /// Calls the model, checks the answer, and repeats the request where that helps. Every attempt
    /// is recorded.
    ///
    /// # Errors
    /// The model is unreachable, declines or returns no valid output, or a cap is reached.
    /// An unchecked value is never returned.
    pub async fn ask<T: Task>(
        &self,
        session: &Session,
        task: T,
    ) -> Result<Answered<T::Output>, LlmError> {
        self.ask_streaming(session, task, None).await
    }

    /// Calls the model as [`Llm::ask`] does, and passes the text of the answer on while it is
    /// written.
    ///
    /// # Errors
    /// As [`Llm::ask`].
    pub async fn ask_streaming<T: Task>(
        &self,
        session: &Session,
        task: T,
        listener: Option<&dyn Listener>,
    ) -> Result<Answered<T::Output>, LlmError> {
        let Partly {
            value,
            calls,
            error,
        } = self.ask_with_listener(session, task, listener).await?;
        match (value, error) {
            (Some(value), None) => Ok(Answered { value, calls }),
            (_, Some(error)) => Err(error),
            (None, None) => Err(LlmError::InvalidOutput {
                model: self.settings().model_for(T::STAGE).to_owned(),
                stage: T::STAGE,
                faults: vec!["there was nothing to send to the model".to_owned()],
                items: Vec::new(),
            }),
        }
    }

    /// Calls the model as [`Llm::ask`] does, but keeps the answered items if others have no answer.
    ///
    /// # Errors
    /// The model is unknown; any other error is in [`Partly::error`].
    pub async fn ask_partly<T: Task>(
        &self,
        session: &Session,
        task: T,
    ) -> Result<Partly<T::Output>, LlmError> {
        self.ask_with_listener(session, task, None).await
    }

    async fn ask_with_listener<T: Task>(
        &self,
        session: &Session,
        task: T,
        listener: Option<&dyn Listener>,
    ) -> Result<Partly<T::Output>, LlmError> {
        let (target, fallback) = self.targets(session, &task)?;
        let attempts = Attempts::new(self, session).heard_by(listener);
        let retries = self.settings().validation_retries;
        let item_repairs = task.item_retries().unwrap_or(retries);
        let mut pending = vec![Round {
            task,
            faults: Vec::new(),
            repairs: retries,
            item_repairs,
            on_fallback: false,
            in_words: false,
        }];

        let mut given_up = None;
        let mut parts = Vec::new();
        let mut failure = None;

        while let Some(round) = pending.pop() {
            let asked = if round.on_fallback {
                fallback.as_ref().unwrap_or(&target)
            } else {
                &target
            };

            let (round, error) = match self.round(&attempts, asked, &round).await {
                Ok(step) => {
                    parts.extend(step.done);
                    pending.extend(step.next);
                    let Some(left) = step.left else { continue };
                    left
                }
                Err(error) => (round, error),
            };

            if fallback.is_some() && !round.on_fallback && error.another_may_help() {
                // Only the code, because messages of a provider or a model may quote a text.
                tracing::warn!(
                    code = error.code(),
                    stage = T::STAGE,
                    "using the fallback model"
                );

                measure::fell_back(T::STAGE);
                given_up = Some(error);
                pending.push(round.for_fallback());
                continue;
            }

            // A pause of a provider is logged once, when it begins.
            if error.next_probe_in().is_none() {
                tracing::warn!(
                    code = error.code(),
                    stage = T::STAGE,
                    model = asked.name(),
                    "model call failed"
                );
            }

            // If both models failed, the error of the first is returned; but a reached cap must be
            // reported.
            failure = Some(
                given_up
                    .filter(|_| error.another_may_help())
                    .unwrap_or(error),
            );

            break;
        }

        Ok(Partly {
            value: T::merge(parts),
            calls: attempts.into_calls(),
            error: failure,
        })
    }

    /// The model to call, and the fallback model.
    fn targets<T: Task>(
        &self,
        session: &Session,
        task: &T,
    ) -> Result<(Target, Option<Target>), LlmError> {
        if session.is_recorded() {
            // No model is called, and the recorded one may no longer be configured.
            let nobody = || self.target(crate::config::llm::LOCAL);
            return Ok((nobody()?, Some(nobody()?)));
        }

        let target = self.target(
            session
                .model
                .as_deref()
                .unwrap_or_else(|| self.settings().model_for(T::STAGE)),
        )?;

        let fallback = match self.settings().fallback_model.as_str() {
            "" => None,
            _ if session.probing || task.is_for_one_model() => None,
            model => Some(self.target(model)?).filter(|fallback| fallback.name() != target.name()),
        };

        Ok((target, fallback))
    }

    /// Sends the request once and decides what to do with the answer.
    async fn round<T: Task>(
        &self,
        attempts: &Attempts<'_>,
        target: &Target,
        round: &Round<T>,
    ) -> Result<Step<T>, LlmError> {
        if let Some(recalled) = attempts.recall(T::STAGE)? {
            let (verdict, _) = answer::judge(
                &round.task,
                &self.forms_of(&round.task).validator,
                &recalled.text,
            );
            return round.follow(
                outcome_of(&verdict, &recalled.finish),
                verdict,
                recalled.finish,
                target,
            );
        }

        let Sent { reply, call } = self.send(attempts, target, round.question()).await?;
        let (verdict, read) = answer::judge(
            &round.task,
            &self.forms_of(&round.task).validator,
            &reply.text,
        );
        let outcome = outcome_of(&verdict, &reply.finish);
        let is_short = read
            .as_ref()
            .is_some_and(|value| omits_items(&round.task, value));
        call.finish(outcome, read);
        if round.in_words && outcome == CallOutcome::Ok {
            target.profile.learn_to_prompt(&target.model);
        }

        if outcome == CallOutcome::Truncated || is_short {
            target.profile.learn_to_bound(&target.model);
        }

        let mut step = round.follow(outcome, verdict, reply.finish, target)?;
        for next in step.next.iter_mut().filter(|_| reply.ignored_tool) {
            next.in_words = true;
        }

        Ok(step)
    }
}

impl<T: Task> Round<T> {
    fn question(&self) -> TaskRequest<'_, T> {
        TaskRequest {
            task: &self.task,
            faults: &self.faults,
            once: self.on_fallback,
            in_words: self.in_words,
        }
    }

    /// Decides what follows from a reply.
    fn follow(
        &self,
        outcome: CallOutcome,
        verdict: Verdict<T::Output>,
        finish: Finish,
        target: &Target,
    ) -> Result<Step<T>, LlmError> {
        match (outcome, finish) {
            (CallOutcome::Refused, Finish::Refused(reason)) => Err(LlmError::Refused {
                model: target.name(),
                stage: T::STAGE,
                reason: reason.replace('\0', ""),
            }),
            (CallOutcome::Truncated, _) => self.smaller(verdict, target),
            _ => self.judged(verdict, target),
        }
    }

    /// This round for the fallback model, which is called once.
    fn for_fallback(self) -> Self {
        Self {
            on_fallback: true,
            in_words: false,
            faults: Vec::new(),
            repairs: 0,
            item_repairs: 0,
            ..self
        }
    }

    /// Decides what follows from a complete answer.
    fn judged(&self, verdict: Verdict<T::Output>, target: &Target) -> Result<Step<T>, LlmError> {
        match verdict {
            Verdict::Good(output) => Ok(Step::done(output)),
            Verdict::Bad { faults, whole } => {
                if self.repairs > 0 {
                    let again = self.again(self.task.clone(), &faults);
                    return Ok(Step::next(vec![Round {
                        repairs: self.repairs - 1,
                        ..again
                    }]));
                }
                self.give_up(whole, &faults, self.task.ids(), target)
            }
            Verdict::Part {
                good,
                wrong,
                faults,
                whole,
            } => {
                if self.item_repairs > 0 {
                    let again = self.again(self.task.only(&wrong), &faults);
                    let next = vec![Round {
                        item_repairs: self.item_repairs - 1,
                        ..again
                    }];

                    return Ok(Step {
                        done: good,
                        next,
                        left: None,
                    });
                }

                let rest = self.again(self.task.only(&wrong), &faults);
                match self.give_up(whole, &faults, wrong, target) {
                    Err(error) => Ok(Step {
                        done: good,
                        next: Vec::new(),
                        left: Some((rest, error)),
                    }),
                    settled => settled,
                }
            }
        }
    }

    /// Decides what follows from a truncated answer: never the same request again.
    fn smaller(&self, verdict: Verdict<T::Output>, target: &Target) -> Result<Step<T>, LlmError> {
        let ids = self.task.ids();
        if ids.len() > 1 {
            let (first, second) = ids.split_at(ids.len() / 2);
            let half = |ids| self.again(self.task.only(ids), &[]);

            // The last one pushed is sent first.
            return Ok(Step::next(vec![half(second), half(first)]));
        }

        if self.repairs > 0 {
            let shorter = [Fault::whole(
                "it was cut off before its end: be much shorter",
            )];
            let again = self.again(self.task.clone(), &shorter);
            return Ok(Step::next(vec![Round {
                repairs: self.repairs - 1,
                ..again
            }]));
        }

        if let Verdict::Bad {
            whole: Some(output),
            ..
        }
        | Verdict::Part {
            whole: Some(output),
            ..
        } = verdict
            && let Some(output) = self.task.last_resort(output)
        {
            return Ok(Step::done(output));
        }
        Err(LlmError::Truncated {
            model: target.name(),
            stage: T::STAGE,
            items: ids,
        })
    }

    fn give_up(
        &self,
        whole: Option<T::Output>,
        faults: &[Fault],
        items: Vec<i64>,
        target: &Target,
    ) -> Result<Step<T>, LlmError> {
        if let Some(output) = whole.and_then(|output| self.task.last_resort(output)) {
            return Ok(Step::done(output));
        }
        Err(LlmError::InvalidOutput {
            model: target.name(),
            stage: T::STAGE,
            faults: messages(faults),
            items,
        })
    }

    fn again(&self, task: T, faults: &[Fault]) -> Self {
        Self {
            task,
            faults: messages(faults),
            repairs: self.repairs,
            item_repairs: self.item_repairs,
            on_fallback: self.on_fallback,
            in_words: self.in_words,
        }
    }
}

fn outcome_of<O>(verdict: &Verdict<O>, finish: &Finish) -> CallOutcome {
    match (verdict, finish) {
        (Verdict::Good(_), Finish::Complete | Finish::CutOff) => CallOutcome::Ok,
        (_, Finish::Refused(_)) => CallOutcome::Refused,
        (_, Finish::CutOff) => CallOutcome::Truncated,
        _ => CallOutcome::Invalid,
    }
}

/// Whether an answer has fewer items than were requested.
fn omits_items<T: Task>(task: &T, value: &Value) -> bool {
    let list = T::ITEMS.and_then(|items| value[items.list].as_array());
    list.is_some_and(|list| list.len() < task.ids().len())
}

fn messages(faults: &[Fault]) -> Vec<String> {
    faults
        .iter()
        .take(MAX_FAULTS)
        .map(|fault| fault.message.clone())
        .collect()
}
