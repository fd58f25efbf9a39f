//! The interface of all providers, whatever their protocol: one request in, one reply or one error
//! out.
//!
//! Providers neither retry nor validate; their caller does.

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use strum::IntoStaticStr;

use super::listener::Listener;
use super::provider_error::ProviderError;
use super::request_form::members;
use super::tasks::AnyTask;

/// A provider of models.
pub trait Provider: Send + Sync {
    /// Sends one request. Dropping the future aborts it.
    fn complete<'a>(
        &'a self,
        request: &'a Request<'a>,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>>;

    /// Sends one request and passes on the text while it is written. Protocols without streams pass
    /// it on as a whole.
    fn stream<'a>(
        &'a self,
        request: &'a Request<'a>,
        listener: &'a dyn Listener,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        Box::pin(async move {
            let reply = self.complete(request).await?;
            listener.piece(&reply.text);
            Ok(reply)
        })
    }

    /// Sends a body to this path as it is; only OpenAI's protocol supports this.
    fn forward<'a>(
        &'a self,
        _path: &'a str,
        _body: Vec<u8>,
    ) -> BoxFuture<'a, Result<reqwest::Response, Rejection>> {
        let error = ProviderError::Unreadable("it does not speak OpenAI's protocol".to_owned());
        Box::pin(std::future::ready(Err(Rejection { error, body: None })))
    }

    /// Sends one request for the vectors of texts; only some protocols support this.
    fn embed<'a>(
        &'a self,
        _model: &'a str,
        _texts: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Vectors, ProviderError>> {
        Box::pin(std::future::ready(Err(no_embeddings())))
    }
}

/// Why a forwarded request was not answered.
#[derive(Debug)]
pub struct Rejection {
    pub error: ProviderError,
    /// What the provider itself said.
    pub body: Option<String>,
}

/// The error of a protocol without embeddings.
pub(super) fn no_embeddings() -> ProviderError {
    ProviderError::Status {
        status: 400,
        message: "this kind of provider has no embeddings; use one with the OpenAI protocol"
            .to_owned(),
        codes: Vec::new(),
        retry_after: None,
        should_retry: Some(false),
    }
}

/// Additional capabilities of a provider's models, known without a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Answers and vectors are computed in this process: nothing is sent or spent.
    pub in_process: bool,
    /// They use what is known of the contents of categories, such as samples of their chunks.
    pub samples: bool,
    /// They can re-examine whether a chunk is in the best category, at negligible cost.
    pub second_look: bool,
}

/// The vectors of texts, in order.
#[derive(Debug, Clone)]
pub struct Vectors {
    pub found: Vec<Vec<f32>>,
    pub usage: Option<Usage>,
    /// The model that responded, as reported by the provider.
    pub model: Option<String>,
}

/// One request.
pub struct Request<'a> {
    pub model: &'a str,
    /// The name of the tool, in the mode that uses one.
    pub tool: &'static str,
    pub description: &'static str,
    pub system: &'a str,
    pub user: &'a str,
    pub mode: Mode,
    pub schema: &'a Value,
    pub parameters: Parameters,
    /// The task itself, for a provider that computes its answer.
    pub task: &'a (dyn Fn() -> AnyTask + Send + Sync),
}

impl Request<'_> {
    /// What the output mode adds beside the messages, in OpenAI's form.
    pub fn members(&self) -> Map<String, Value> {
        members(self.mode, self.tool, self.description, self.schema)
    }
}

/// Parameters of the request; `None` is not sent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Parameters {
    pub temperature: Option<f64>,
    pub seed: Option<u64>,
    pub max_output_tokens: Option<u64>,
    /// OpenAI renamed the last one; its newer models accept only the new name, most others only the
    /// old one.
    pub new_name_for_max: bool,
    /// Whether a stream is asked to report its tokens.
    pub stream_usage: bool,
}

/// How the schema of an answer is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Mode {
    Native,
    Tool,
    Prompted,
    /// Free text, without a schema.
    Text,
    /// Computed in this process, so it always matches the schema.
    Embedded,
}

impl Mode {
    /// The next mode to try if a provider rejects this one.
    pub fn lower(self) -> Option<Self> {
        match self {
            Self::Native => Some(Self::Tool),
            Self::Tool => Some(Self::Prompted),
            Self::Prompted | Self::Text | Self::Embedded => None,
        }
    }
}

/// A reply.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The message, or the arguments of the tool call.
    pub text: String,
    /// Whether the model wrote text instead of calling the tool.
    pub ignored_tool: bool,
    pub finish: Finish,
    /// `None` if the provider did not report it.
    pub usage: Option<Usage>,
    /// Whether memoir has counted the tokens, because the provider reported none.
    pub counted: bool,
    /// The model that responded, as reported by the provider.
    pub model: Option<String>,
    pub id: Option<String>,
}

/// Why the model stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    Complete,
    /// The token limit was reached.
    CutOff,
    /// The model or a filter declined.
    Refused(String),
}

/// Tokens of one call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// All tokens sent, cached or not.
    pub prompt: i64,
    pub completion: i64,
    /// The part of `prompt` that the provider served from its cache.
    pub cached: i64,
}
