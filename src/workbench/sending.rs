//! Sends a prompt that its author may have edited. The reply goes to the caller and, on request,
//! into a thread; the prompt itself is not stored.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use memoir_text::field_error::FieldError;
use memoir_text::text::char_count;
use memoir_text::tokens::TokenCounter;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::ceiling::{PromptEstimate, SEND};
use super::compose::PromptTimings;
use super::runs::PromptRun;
use super::workspace::{Ceilings, CeilingsInput};
use super::{Workbench, WorkbenchError};
use crate::base::clock::milliseconds_since;
use crate::conversation::ConversationError;
use crate::conversation::messages::{
    Appended, MAX_CHARS, NewMessage, PreparedMessages, ThreadRef, Wanted,
};
use crate::llm::tasks::send::SendPrompt;
use crate::llm::{Llm, Session, TextListener, Written};
use crate::model::call::CallContext;
use crate::store::AsStoreError as _;

/// Maximum characters of a prompt and of an instruction.
const MAX_PROMPT_CHARS: usize = 4_000_000;
const MAX_SYSTEM_CHARS: usize = 100_000;

/// A prompt whose cost is to be estimated.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(as = EstimatePromptRequest, example = json!({"prompt": "Name three lighthouses.", "model": "local:embedded"}))]
pub struct EstimateInput {
    /// The prompt, as it would be sent.
    #[schema(required, min_length = 1, max_length = 4_000_000, pattern = "\\S")]
    pub prompt: String,
    /// An instruction that is sent as a system message.
    #[schema(max_length = 100_000)]
    pub system: Option<String>,
    /// The model, as `provider:model`; the model of the stage `send` if omitted.
    pub model: Option<String>,
    /// Ceilings that are lower than those of the workspace; higher ones have no effect.
    #[serde(deserialize_with = "crate::base::json_object::object_or_null")]
    pub ceilings: Option<CeilingsInput>,
}

/// A prompt to send.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(as = SendPromptRequest, example = json!({"prompt": "Name three lighthouses.", "model": "local:embedded"}))]
pub struct SendInput {
    /// The prompt. It is sent as it is; nothing is added to it. Required unless `external_reply` is
    /// given.
    #[schema(min_length = 1, max_length = 4_000_000, pattern = "\\S")]
    pub prompt: Option<String>,
    /// An instruction that is sent as a system message.
    #[schema(max_length = 100_000)]
    pub system: Option<String>,
    /// The model, as `provider:model`; the model of the stage `send` if omitted.
    pub model: Option<String>,
    /// Ceilings that are lower than those of the workspace; higher ones have no effect.
    #[serde(deserialize_with = "crate::base::json_object::object_or_null")]
    pub ceilings: Option<CeilingsInput>,
    /// The thread that the reply is appended to, as a message of the assistant.
    pub thread_id: Option<String>,
    /// The owner of the thread; checked if given.
    pub user_id: Option<String>,
    /// What the user asked; appended to the thread before the reply.
    #[schema(min_length = 1, max_length = 200_000, pattern = "\\S")]
    pub user_message: Option<String>,
    /// A reply from another program. No model is called; the reply is appended to the thread with
    /// `source: external`, and only once, even if you send it again.
    #[schema(min_length = 1, max_length = 200_000, pattern = "\\S")]
    pub external_reply: Option<String>,
    /// Whether the reply is sent as server-sent events, as with `Accept: text/event-stream`.
    pub stream: bool,
    /// A UUID of your own for this run, with which you can cancel it before its response arrives.
    pub run_id: Option<String>,
}

/// A reply.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct SentPrompt {
    pub run_id: String,
    /// The reply, or the external reply.
    pub reply: String,
    /// Whether the reply came from another program, so that no model was called.
    pub external: bool,
    /// Whether the reply may have been cut off, because it reached `llm.max_output_tokens`.
    pub truncated: bool,
    /// The estimate from before the call; null for an external reply.
    pub estimate: Option<PromptEstimate>,
    /// The messages that were appended to the thread.
    pub messages: Vec<SentMessage>,
    /// Milliseconds from the request to the first piece of a streamed reply; null for others.
    pub first_token_ms: Option<f64>,
    pub timings: PromptTimings,
    /// Problems that did not stop the prompt, such as a reply that could not be stored.
    pub warnings: Vec<String>,
}

/// A message that was appended to a thread.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct SentMessage {
    pub id: String,
    pub role: String,
    /// `chat` or `external`.
    pub source: String,
    /// Whether it had been stored before.
    pub duplicate: bool,
}

/// A prompt that was checked and may be sent.
pub struct ReadyPrompt {
    input: SendInput,
    estimate: Option<PromptEstimate>,
    begun: Instant,
}

impl ReadyPrompt {
    /// The estimate; `None` for an external reply.
    pub fn estimate(&self) -> Option<&PromptEstimate> {
        self.estimate.as_ref()
    }
}

/// Gets a reply while it is written.
pub type Tell<'a> = &'a (dyn Fn(Written) + Send + Sync);

/// The session that sends, and its run.
pub struct Sender<'a> {
    pub session: &'a Session,
    pub run: &'a PromptRun,
}

impl Workbench {
    /// Estimates a prompt; nothing is sent.
    ///
    /// # Errors
    /// [`WorkbenchError::Invalid`], an unknown model, or the store's.
    pub async fn estimate_prompt(
        &self,
        call: &CallContext,
        input: &EstimateInput,
    ) -> Result<PromptEstimate, WorkbenchError> {
        let system = input.system.as_deref().unwrap_or_default();
        let mut errors = Vec::new();
        check_prompt(Some(&input.prompt), system, &mut errors);
        refuse(errors)?;

        let model = input.model.as_deref();
        let ceilings = self.ceilings(call, input.ceilings.clone()).await?;
        estimate(&self.llm, model, (system, &input.prompt), &ceilings)
    }

    /// Checks a prompt before it is sent: its form, its thread and its ceilings.
    ///
    /// # Errors
    /// [`WorkbenchError::Invalid`], [`WorkbenchError::OverCeiling`], a thread that is not found, an
    /// unknown model, or the store's.
    pub async fn prepare_send(
        &self,
        call: &CallContext,
        input: SendInput,
    ) -> Result<ReadyPrompt, WorkbenchError> {
        let begun = Instant::now();
        refuse(input.faults())?;
        if let Some(thread) = &input.thread_id {
            self.conversation
                .thread(call, thread, input.user_id.as_deref())
                .await?;
        }

        let estimate = match &input.prompt {
            Some(prompt) => {
                let ceilings = self.ceilings(call, input.ceilings.clone()).await?;
                let texts = (input.system.as_deref().unwrap_or_default(), prompt.as_str());
                let model = input.model.as_deref();
                Some(estimate(&self.llm, model, texts, &ceilings)?.check()?)
            }
            None => None,
        };

        Ok(ReadyPrompt {
            input,
            estimate,
            begun,
        })
    }

    /// Sends a prompt and passes the reply on while it is written, unless the run is cancelled.
    ///
    /// # Errors
    /// [`WorkbenchError::Cancelled`], the model's, a cap, or the store's.
    pub async fn send(
        &self,
        sender: &Sender<'_>,
        ready: ReadyPrompt,
        tell: Option<Tell<'_>>,
    ) -> Result<SentPrompt, WorkbenchError> {
        let ReadyPrompt {
            input,
            estimate,
            begun,
        } = ready;
        let first = Mutex::new(None);
        let external = input.external_reply.is_some();
        let reply = if let Some(reply) = &input.external_reply {
            reply.clone()
        } else {
            let asking = self.ask(sender.session, &input, tell, (begun, &first));
            sender.run.unless_cancelled(asking).await?
        };

        let mut warnings = Vec::new();
        let messages = match self.keep(sender, &input, &reply).await {
            Ok(messages) => messages,
            // An external reply costs nothing, so nothing is lost.
            Err(error) if external => return Err(error.into()),
            Err(error) => {
                if let Some(error) = error.as_store_error() {
                    tracing::error!(%error, "the reply to a prompt was not stored");
                }

                warnings.push(format!("the reply was not stored: {}", error.reason()));
                Vec::new()
            }
        };

        let calls = sender.session.calls();
        let most = i64::try_from(self.llm.max_output_tokens()).unwrap_or(i64::MAX);
        let provider_ms = calls.iter().map(|call| call.latency_ms).sum();
        let total_ms = milliseconds_since(begun);
        Ok(SentPrompt {
            run_id: sender.run.id.to_string(),
            reply,
            external,
            truncated: calls
                .last()
                .is_some_and(|call| call.tokens_completion >= most),
            estimate,
            messages,
            first_token_ms: first.into_inner().unwrap_or_else(PoisonError::into_inner),
            timings: PromptTimings {
                total_ms,
                provider_ms,
                own_ms: (total_ms - provider_ms).max(0.0),
            },
            warnings,
        })
    }

    async fn ask(
        &self,
        session: &Session,
        input: &SendInput,
        tell: Option<Tell<'_>>,
        (begun, first): (Instant, &Mutex<Option<f64>>),
    ) -> Result<String, WorkbenchError> {
        let task = SendPrompt {
            system: input.system.as_deref().unwrap_or_default().into(),
            prompt: input.prompt.as_deref().unwrap_or_default().into(),
        };

        let Some(tell) = tell else {
            return Ok(self.llm.ask(session, task).await?.value.text);
        };
        let listener = TextListener::new(|written| {
            let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert_with(|| milliseconds_since(begun));
            drop(first);
            tell(written);
        });

        let answered = self
            .llm
            .ask_streaming(session, task, Some(&listener))
            .await?;
        Ok(answered.value.text)
    }

    /// Appends the reply to its thread, after what the user asked.
    async fn keep(
        &self,
        sender: &Sender<'_>,
        input: &SendInput,
        reply: &str,
    ) -> Result<Vec<SentMessage>, ConversationError> {
        let Some(thread) = &input.thread_id else {
            return Ok(Vec::new());
        };

        let asked = input.user_message.as_ref().map(|content| NewMessage {
            content: content.clone(),
            ..NewMessage::default()
        });
        let source = if input.external_reply.is_some() {
            "external"
        } else {
            "chat"
        };
        let replied = NewMessage {
            role: Some("assistant".to_owned()),
            content: reply.to_owned(),
            source: Some(source.to_owned()),
            ..NewMessage::default()
        };

        let new = asked.into_iter().chain([replied]).collect();
        let (call, user_id) = (sender.session.call(), input.user_id.as_deref());
        let wanted = Wanted {
            enrich: true,
            extract: false,
        };
        let prepared = self
            .conversation
            .prepare_messages(call, ThreadRef::Id(thread), user_id, new, wanted)
            .await?;
        let appended = self
            .store
            .retry_as("send_prompt", || self.append(sender, &prepared))
            .await?;
        self.conversation.announce();
        Ok(appended.iter().map(SentMessage::of).collect())
    }

    async fn append(
        &self,
        sender: &Sender<'_>,
        prepared: &PreparedMessages,
    ) -> Result<Vec<Appended>, ConversationError> {
        let mut tx = self.store.begin().await?;
        let appended = self
            .conversation
            .append(&mut tx, sender.session.call(), prepared)
            .await?;
        tx.commit().await?;
        Ok(appended)
    }

    /// The ceilings of the workspace, or lower ones.
    async fn ceilings(
        &self,
        call: &CallContext,
        given: Option<CeilingsInput>,
    ) -> Result<Ceilings, WorkbenchError> {
        let workspace = self.workspaces.current(call).await?.workspace;
        let most = workspace.ceilings.clone();
        let wanted = most.clone().with(given);
        let mut errors = Vec::new();
        if !(1..=10_000_000).contains(&wanted.tokens) {
            let rule = "must be from 1 to 10000000";
            errors.push(FieldError::new("ceilings.tokens", rule));
        }
        if !(0.0..=1_000_000.0).contains(&wanted.cost_usd) {
            let rule = "must be from 0 to 1000000";
            errors.push(FieldError::new("ceilings.cost_usd", rule));
        }
        refuse(errors)?;

        Ok(Ceilings {
            tokens: wanted.tokens.min(most.tokens),
            cost_usd: wanted.cost_usd.min(most.cost_usd),
        })
    }
}

impl SendInput {
    fn faults(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let mut fault = |field: &str, rule: &str| errors.push(FieldError::new(field, rule));
        match (&self.prompt, &self.external_reply) {
            (Some(_), Some(_)) => fault("external_reply", "must not be given with a prompt"),
            (None, None) => fault("prompt", "is required unless external_reply is given"),
            _ => {}
        }

        if self.thread_id.is_none() {
            if self.external_reply.is_some() {
                fault("thread_id", "is required if external_reply is given");
            }
            if self.user_message.is_some() {
                fault("thread_id", "is required if user_message is given");
            }
        }

        for (field, text) in [
            ("user_message", &self.user_message),
            ("external_reply", &self.external_reply),
        ] {
            let Some(text) = text else { continue };
            if text.trim().is_empty() || char_count(text) > MAX_CHARS {
                let rule = format!("must have 1 to {MAX_CHARS} characters");
                errors.push(FieldError::new(field, rule));
            }
        }

        let system = self.system.as_deref().unwrap_or_default();
        check_prompt(self.prompt.as_deref(), system, &mut errors);
        errors
    }
}

impl SentMessage {
    fn of(appended: &Appended) -> Self {
        Self {
            id: appended.memory.id.to_string(),
            role: appended.memory.role.clone(),
            source: appended.memory.source.clone(),
            duplicate: appended.duplicate,
        }
    }
}

fn check_prompt(prompt: Option<&str>, system: &str, errors: &mut Vec<FieldError>) {
    let fits = |prompt: &str| !prompt.trim().is_empty() && char_count(prompt) <= MAX_PROMPT_CHARS;
    if prompt.is_some_and(|prompt| !fits(prompt)) {
        let rule = format!("must have 1 to {MAX_PROMPT_CHARS} characters");
        errors.push(FieldError::new("prompt", rule));
    }

    if char_count(system) > MAX_SYSTEM_CHARS {
        let rule = format!("must have at most {MAX_SYSTEM_CHARS} characters");
        errors.push(FieldError::new("system", rule));
    }
}

fn refuse(errors: Vec<FieldError>) -> Result<(), WorkbenchError> {
    if errors.is_empty() {
        Ok(())
    } else {
        Err(WorkbenchError::Invalid(errors))
    }
}

fn estimate(
    llm: &Llm,
    model: Option<&str>,
    (system, prompt): (&str, &str),
    ceilings: &Ceilings,
) -> Result<PromptEstimate, WorkbenchError> {
    let name = llm.target_name(SEND, model)?;
    let counter = TokenCounter::for_model(Some(&name));
    let tokens = counter.count(system) + counter.count(prompt);
    PromptEstimate::of(llm, model, (tokens, counter.is_exact()), ceilings)
}
