//! OpenAI's protocol, with memory: a request is forwarded with what is remembered, the reply passes
//! through while it arrives, and both are stored.
//!
//! `request` reads and writes the body, `block` marks what is added to it, and `exchange` forwards it
//! and stores the turn. A thread has to be named: without one, nothing is added and nothing stored.

pub mod block;
mod exchange;
mod request;

use std::sync::Arc;

use tokio::sync::mpsc::Receiver;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::request::OpenAiRequest;
pub use self::request::RequestFault;
use crate::base::ids::context_id;
use crate::config::llm::Caps;
use crate::conversation::turns::{Before, Recollection, Turn};
use crate::conversation::{Conversation, ConversationError, NewThread};
use crate::llm::forward::{Form, ForwardError, Part};
use crate::llm::{Llm, LlmError, Session};
use crate::model::call::CallContext;
use crate::model::llm_call::Payer;

/// Entry point of OpenAI's protocol; cheap to clone.
#[derive(Clone)]
pub struct OpenAi {
    conversation: Conversation,
    llm: Llm,
    /// Exchanges in progress.
    running: TaskTracker,
    /// Ends them.
    stop: CancellationToken,
}

/// Where a request says whose it is; the body may say it too.
#[derive(Debug, Clone, Default)]
pub struct Named {
    /// In headers: before the body.
    pub header: Names,
    /// In the path: after the body.
    pub path: Names,
}

/// A thread, an end user, and whether a context is added.
#[derive(Debug, Clone, Default)]
pub struct Names {
    pub thread: Option<String>,
    pub user: Option<String>,
    pub context: Option<String>,
}

/// A request that was read.
pub struct Exchange {
    form: Form,
    body: Arc<[u8]>,
    streamed: bool,
    wants_usage: bool,
    expected_tokens: i64,
    /// As the client names it.
    given_model: String,
    /// As `provider:model`.
    pub model: String,
    /// The thread with its user; none if nothing is remembered.
    thread: Option<NewThread>,
    adds_context: bool,
    said: Option<request::Said>,
}

/// A reply that has begun.
pub struct Answer {
    pub content_type: String,
    pub parts: Receiver<Part>,
    pub memory: Option<AnswerMemory>,
}

/// What memory added to a request.
pub struct AnswerMemory {
    pub thread_id: String,
    pub context_tokens: i64,
    pub memories: Vec<String>,
}

/// A request was not answered.
#[derive(Debug)]
pub enum OpenAiError {
    Request(RequestFault),
    Conversation(ConversationError),
    Forward(ForwardError),
    /// The service is stopping.
    Ended,
}

impl From<ConversationError> for OpenAiError {
    fn from(error: ConversationError) -> Self {
        Self::Conversation(error)
    }
}

impl From<LlmError> for OpenAiError {
    fn from(error: LlmError) -> Self {
        Self::Forward(error.into())
    }
}

impl From<RequestFault> for OpenAiError {
    fn from(fault: RequestFault) -> Self {
        Self::Request(fault)
    }
}

impl OpenAi {
    #[must_use]
    pub fn new(conversation: Conversation, llm: Llm) -> Self {
        Self {
            conversation,
            llm,
            running: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }

    /// Reads a request.
    ///
    /// # Errors
    /// It is malformed, or its model cannot be used.
    pub fn read(&self, form: Form, body: &[u8], named: Named) -> Result<Exchange, OpenAiError> {
        let request = OpenAiRequest::read(form, body)?;
        let model = self.llm.forward_name(form, &request.model)?;
        let memory = request.memory.clone();
        let thread = named.header.thread.or(memory.thread).or(named.path.thread);
        let user_id = named.header.user.or(memory.user).or(named.path.user);
        let context = named.header.context.or(memory.context);
        let adds_context = match context.as_deref() {
            None | Some("auto") => true,
            Some("off") => false,
            Some(_) => {
                let rule = "context must be auto or off";
                return Err(RequestFault::Malformed(rule.to_owned()).into());
            }
        };

        let thread = thread.filter(|_| form != Form::Embeddings);
        Ok(Exchange {
            form,
            body: body.into(),
            streamed: request.streamed,
            wants_usage: request.wants_usage,
            expected_tokens: request.expected_tokens(),
            said: request.said().cloned(),
            given_model: request.model,
            model,
            thread: thread.map(|thread| NewThread {
                external_id: Some(thread),
                user_id: user_id.map(|user_id| user_id.trim().to_owned()),
                ..NewThread::default()
            }),
            adds_context,
        })
    }

    /// Forwards a request; returns once the reply begins. If the answer is dropped, the call ends.
    ///
    /// # Errors
    /// The thread is another user's, the provider does not answer, or a cap is reached.
    pub async fn send(
        &self,
        call: &CallContext,
        exchange: Exchange,
    ) -> Result<Answer, OpenAiError> {
        let call = CallContext {
            redact_secrets: true,
            ..call.clone()
        };
        let turn = self.turn(&call, &exchange).await?;
        let recollection = match &turn {
            Some(turn) if exchange.adds_context => self.recollect(&call, turn).await,
            _ => Recollection::default(),
        };

        let memory = turn.as_ref().map(|turn| AnswerMemory {
            thread_id: turn.thread.id.to_string(),
            context_tokens: recollection.tokens,
            memories: recollection
                .memories
                .0
                .iter()
                .map(|one| one.id.clone())
                .collect(),
        });
        let (content_type, parts) = self.run(call, exchange, turn, recollection).await?;
        Ok(Answer {
            content_type,
            parts,
            memory,
        })
    }

    /// Ends the exchanges in progress, and waits until what came of them is stored.
    pub async fn close(&self) {
        self.stop.cancel();
        self.running.close();
        self.running.wait().await;
    }

    async fn turn(
        &self,
        call: &CallContext,
        exchange: &Exchange,
    ) -> Result<Option<Turn>, ConversationError> {
        let (Some(thread), Some(said)) = (&exchange.thread, &exchange.said) else {
            return Ok(None);
        };
        if said.text.trim().is_empty() {
            return Ok(None);
        }

        let before = Before {
            reply: said.reply_before.as_ref(),
            repeats: said.repeats,
        };
        let turn = self
            .conversation
            .turn(call, thread.clone(), said.text.clone(), before);
        turn.await.map(Some)
    }

    /// What is remembered. If that fails, the conversation goes on without it.
    async fn recollect(&self, call: &CallContext, turn: &Turn) -> Recollection {
        let payer = Payer::Context(context_id(&turn.thread.user_id));
        let session = Session::of(call.clone(), payer, Caps::default());
        let recollected = self.conversation.recollect(&session, turn).await;
        recollected.unwrap_or_else(|error| {
            tracing::warn!(
                error = error.reason(),
                "a request is forwarded without a context"
            );
            Recollection::default()
        })
    }
}
