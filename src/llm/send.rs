//! Gets a reply from a provider: finds the output mode and the parameters that it accepts, and
//! retries when it is busy.

use std::sync::Arc;

use memoir_text::tokens::{TokenCounter, quarter_estimate};

use super::attempt::Sent;
use super::explain::explain;
use super::listener::Listener;
use super::objection::{Objection, objection};
use super::profile::{Learnt, Profile};
use super::provider::{Capabilities, Mode, Provider, Reply, Request, Usage};
use super::provider_error::ProviderError;
use super::record::{Attempts, Plan};
use super::request_form::{repair_note, repair_note_within, suited, system_in, written};
use super::task::Task;
use super::{Llm, LlmError, measure};

/// A provider and one of its models.
pub struct Target {
    pub profile: Arc<Profile>,
    pub model: String,
}

impl Target {
    /// `provider:model`.
    pub fn name(&self) -> String {
        format!("{}:{}", self.profile.settings.name, self.model)
    }

    pub fn capabilities(&self) -> Capabilities {
        self.profile.capabilities
    }
}

/// A task, and how to send it.
pub struct TaskRequest<'t, T> {
    pub task: &'t T,
    /// The errors of the previous answer.
    pub faults: &'t [String],
    /// Whether to send it without retries.
    pub once: bool,
    /// Whether to put the schema into the prompt, whatever the model supports.
    pub in_words: bool,
}

/// The parts of a request that do not depend on the output mode.
struct Message<'t, T> {
    task: &'t T,
    user: String,
    deterministic: bool,
    once: bool,
}

impl Llm {
    /// Sends a request until there is a reply: omits what the model rejects, and waits when it is
    /// busy.
    pub(super) async fn send<'a, T: Task>(
        &self,
        attempts: &'a Attempts<'a>,
        target: &'a Target,
        question: TaskRequest<'_, T>,
    ) -> Result<Sent<'a>, LlmError> {
        let TaskRequest {
            task,
            faults,
            once,
            in_words,
        } = question;

        let mut user = task.frame();
        if !faults.is_empty() {
            let counter = TokenCounter::for_model(Some(&target.model));
            user.push_str(&match task.note_room() {
                Some(room) => repair_note_within(faults, counter, room),
                None => repair_note(faults),
            });
        }

        let message = Message {
            task,
            user,
            deterministic: attempts.session.deterministic,
            once,
        };

        let mut before = target.profile.learnt(&target.model);
        if in_words {
            before.mode = Some(Mode::Prompted);
        }

        let mut learnt = before.clone();
        let mut tried = 0;
        loop {
            let mode = suited::<T>(target.profile.mode(&learnt));
            match self
                .send_as(attempts, target, (&message, tried), mode, &learnt)
                .await
            {
                Ok(sent) => {
                    // Remembered only now: if the next mode is rejected too, the mode was not the
                    // reason.
                    if T::TOOL.is_some() || T::FREE_TEXT {
                        // That it takes no tools says nothing about its best mode.
                        learnt.mode = before.mode;
                    }

                    if learnt != before {
                        target.profile.learn(&target.model, learnt);
                    }
                    return Ok(sent);
                }
                Err(SendError::Endless { tried: count }) => {
                    learnt.bounded = true;
                    tried = count;
                }
                Err(error) => learnt = downgrade(target, error, mode, learnt)?,
            }
        }
    }

    /// Sends in one mode, with retries.
    async fn send_as<'a, T: Task>(
        &self,
        attempts: &'a Attempts<'a>,
        target: &'a Target,
        (message, sent_before): (&Message<'_, T>, u64),
        mode: Mode,
        learnt: &Learnt,
    ) -> Result<Sent<'a>, SendError> {
        let schema = self.schema_for(message.task, learnt);
        let system = match message.task.own_system() {
            Some(own) => own,
            None => system_in(message.task.instruction(), mode, &schema),
        };
        let (parameters, params) = self.parameters(message.deterministic, learnt);
        let task = || message.task.clone().into();
        let request = Request {
            model: &target.model,
            tool: T::TOOL.unwrap_or(T::STAGE),
            description: T::DESCRIPTION,
            system: &system,
            user: &message.user,
            mode,
            schema: &schema,
            parameters,
            task: &task,
        };

        let expected = quarter_estimate(&system)
            + quarter_estimate(&message.user)
            + quarter_estimate(&written(request.members()));
        let plan = || Plan {
            stage: T::STAGE,
            level: message.task.level(),
            mode,
            params: params.clone(),
            expected_tokens: i64::try_from(expected).unwrap_or(i64::MAX),
            temperature: parameters.temperature,
            max_output_tokens: parameters.max_output_tokens,
        };

        let tries = if message.once {
            1
        } else {
            self.settings().transport.tries
        };

        let mut count = sent_before + 1;
        loop {
            let client = target.profile.client();
            let asking = async {
                match &attempts.listener {
                    Some(listener) => streamed(client, &request, listener).await,
                    None => client.complete(&request).await,
                }
            };

            let error = match self.attempt(attempts, target, asking, plan()).await? {
                Ok(sent) => return Ok(sent),
                Err(error) => error,
            };

            if matches!(error, ProviderError::TimedOut) && !learnt.bounded {
                target.profile.learn_to_bound(&target.model);
                if !T::DIVISIBLE && target.profile.can_be_bounded() && count < tries {
                    // A repeated request would take as long.
                    measure::retried(&target.profile.settings.name, error.reason());
                    return Err(SendError::Endless { tried: count });
                }
            }

            let divided = T::DIVISIBLE && matches!(error, ProviderError::TimedOut);
            let Some(wait) = self
                .wait_before_next(&error, count)
                .filter(|_| count < tries && !divided)
            else {
                return Err(SendError::Provider(error));
            };

            measure::retried(&target.profile.settings.name, error.reason());
            count += 1;
            tokio::time::sleep(wait).await;
        }
    }
}

/// Sends a request whose text is passed on while it is written. If the provider does not report the
/// tokens, they are counted.
async fn streamed(
    client: &dyn Provider,
    request: &Request<'_>,
    listener: &dyn Listener,
) -> Result<Reply, ProviderError> {
    listener.begin();
    let mut reply = client.stream(request, listener).await?;
    if reply.usage.is_none() {
        let counter = TokenCounter::for_model(Some(request.model));
        let count = |text: &str| i64::try_from(counter.count(text)).unwrap_or(i64::MAX);
        reply.counted = true;
        reply.usage = Some(Usage {
            prompt: count(request.system)
                + count(request.user)
                + count(&written(request.members())),
            completion: count(&reply.text),
            cached: 0,
        });
    }

    Ok(reply)
}

/// A send that ended without a reply.
pub enum SendError {
    Provider(ProviderError),
    Gone(LlmError),
    /// The model took too long, perhaps because it writes endlessly: its schema gets limits.
    Endless {
        tried: u64,
    },
}

impl From<LlmError> for SendError {
    fn from(error: LlmError) -> Self {
        Self::Gone(error)
    }
}

/// Omits what the provider rejected, if the rejection was about the form of the request.
fn downgrade(
    target: &Target,
    error: SendError,
    mode: Mode,
    mut learnt: Learnt,
) -> Result<Learnt, LlmError> {
    let error = match error {
        SendError::Gone(error) => return Err(error),
        SendError::Provider(error) => error,
        SendError::Endless { .. } => ProviderError::TimedOut,
    };

    let ProviderError::Status {
        status: status @ (400 | 422),
        message,
        ..
    } = &error
    else {
        return Err(explain(target, &error));
    };

    let changed = match objection(message, mode) {
        Some(Objection::Parameter(parameter)) => learnt.refused.insert(parameter),
        Some(Objection::Schema) if !learnt.plain_schema => {
            learnt.plain_schema = true;
            true
        }
        Some(Objection::Schema | Objection::Mode) => match mode.lower() {
            Some(lower) => {
                learnt.mode = Some(lower);
                true
            }
            None => false,
        },
        None => false,
    };

    if !changed {
        return Err(explain(target, &error));
    }

    tracing::info!(
        model = target.name(),
        status,
        mode = mode.into_str(),
        "the model rejected this form of request; trying another"
    );

    Ok(learnt)
}
