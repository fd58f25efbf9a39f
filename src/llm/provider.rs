//! The interface of all providers, whatever their protocol: one request in, one reply or one error
//! out.
//!
//! Providers neither retry nor validate; their caller does.

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::LlmError;
use super::listener::Listener;
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

    /// Sends one request for the vectors of texts; only some protocols support this.
    fn embed<'a>(
        &'a self,
        _model: &'a str,
        _texts: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Vectors, ProviderError>> {
        let message =
            "this kind of provider has no embeddings; use one with the OpenAI protocol".to_owned();
        let refused = ProviderError::Status {
            status: 400,
            message,
            codes: Vec::new(),
            retry_after: None,
            should_retry: Some(false),
        };

        Box::pin(std::future::ready(Err(refused)))
    }
}

/// Additional capabilities of a provider's models, known without a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Answers and vectors are computed in this process: nothing is sent or spent.
    pub in_process: bool,
    /// They use samples of the chunks in each category.
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
    pub stage: &'static str,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Tool => "tool",
            Self::Prompted => "prompted",
            Self::Text => "text",
            Self::Embedded => "embedded",
        }
    }

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

/// Why there is no reply.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ProviderError {
    #[error("status {status}: {message}")]
    Status {
        status: u16,
        message: String,
        /// The error codes in the body, as opposed to the message, which may quote a text.
        codes: Vec<String>,
        /// How long the provider asks us to wait.
        retry_after: Option<Duration>,
        /// The value of `x-should-retry`.
        should_retry: Option<bool>,
    },
    #[error("no response in time")]
    TimedOut,
    #[error("{0}")]
    Broken(String),
    /// A success status whose body does not match the protocol.
    #[error("unreadable response: {0}")]
    Unreadable(String),
}

impl ProviderError {
    /// An error of the HTTP client without the URL, which may contain a key.
    pub fn from_client(error: reqwest::Error) -> Self {
        if error.is_timeout() {
            return Self::TimedOut;
        }

        let error = error.without_url();
        if error.is_decode() {
            return Self::Broken(
                "the connection broke before the response was complete".to_owned(),
            );
        }

        let mut reason = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            reason = cause.to_string();
            source = cause.source();
        }

        if reason.contains("InvalidContentType") {
            "it does not support TLS; should the address start with http://?"
                .clone_into(&mut reason);
        }

        Self::Broken(reason)
    }

    /// Whether the same request may succeed shortly.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Status {
                should_retry: Some(said),
                status,
                ..
            } if *status >= 400 => *said,
            Self::Status { status, codes, .. } => {
                let spent = *status == 429 && named(codes, OUT_OF_QUOTA);
                !spent && matches!(status, 408 | 409 | 429 | 500..=599)
            }
            Self::TimedOut | Self::Broken(_) | Self::Unreadable(_) => true,
        }
    }

    /// Whether the provider is failing, as opposed to limiting our requests.
    pub fn is_trouble(&self) -> bool {
        match self {
            Self::Status { status, .. } => *status >= 500,
            Self::TimedOut | Self::Broken(_) | Self::Unreadable(_) => true,
        }
    }

    /// What the provider rejects until somebody acts, and whether this may concern a single model.
    pub fn refusal(&self) -> Option<(Refusal, bool)> {
        let Self::Status {
            status,
            message,
            codes,
            ..
        } = self
        else {
            return None;
        };
        match status {
            401 => Some((Refusal::Key, false)),
            // Google's error for an invalid key. A message that quotes a text does not begin with
            // these words.
            400 if named(codes, "API_KEY_INVALID") || message.starts_with("API key ") => {
                Some((Refusal::Key, false))
            }
            402 => Some((Refusal::Quota, false)),
            429 if named(codes, OUT_OF_QUOTA) => Some((Refusal::Quota, false)),
            // A text that a filter blocked says nothing about the key.
            403 if named(codes, MODERATED) => None,
            403 => Some((Refusal::Key, true)),
            404 => Some((Refusal::Model, true)),
            _ => None,
        }
    }

    /// The reason in one word, for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Status { status: 429, .. } => "rate_limited",
            Self::Status {
                status: 500..=599, ..
            } => "server_error",
            Self::Status { .. } => "status",
            Self::TimedOut => "timeout",
            Self::Broken(_) => "connection",
            Self::Unreadable(_) => "unreadable",
        }
    }
}

/// A rejection that concerns all callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    Key,
    Quota,
    Model,
}

impl Refusal {
    /// The error for the caller. `next_probe_in`: the provider is paused until then.
    pub fn error(
        self,
        provider: &str,
        model: &str,
        reason: String,
        next_probe_in: Option<Duration>,
    ) -> LlmError {
        let provider = provider.to_owned();
        match self {
            Self::Key => LlmError::Auth {
                provider,
                reason,
                next_probe_in,
            },
            Self::Quota => LlmError::Quota {
                provider,
                reason,
                next_probe_in,
            },
            Self::Model => LlmError::ModelNotFound {
                model: format!("{provider}:{model}"),
                reason,
                next_probe_in,
            },
        }
    }
}

/// OpenAI's code for an account without credit.
const OUT_OF_QUOTA: &str = "insufficient_quota";
/// Our own code for an error that lists why a text was blocked (`OpenRouter`).
const MODERATED: &str = "moderated";

fn named(codes: &[String], name: &str) -> bool {
    codes.iter().any(|code| code == name)
}

/// The codes in an error body: code, type, status, reasons.
pub fn codes_of(body: &str) -> Vec<String> {
    let value: Value = serde_json::from_str(body).unwrap_or_default();
    let error = if value.is_array() {
        &value[0]["error"]
    } else {
        &value["error"]
    };

    let reasons = error["details"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|detail| &detail["reason"]);

    let members = ["code", "type", "status"]
        .into_iter()
        .map(|member| &error[member])
        .chain(reasons);

    let mut codes: Vec<String> = members
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();

    if error["metadata"]["reasons"].is_array() || error["metadata"]["flagged_input"].is_string() {
        codes.push(MODERATED.to_owned());
    }

    codes
}

/// Maximum characters of an error message that are kept.
const MOST_MESSAGE: usize = 500;

/// The message in an error body: `error.message`, `error`, `detail`, `message`, or plain text.
/// Other JSON is omitted, because servers quote the request in it, including the prompt.
pub fn message_of(body: &str) -> String {
    let message = match serde_json::from_str::<Value>(body) {
        // Gemini's streams wrap errors in a list.
        Ok(Value::Array(list)) => list.first().map(told).unwrap_or_default(),
        Ok(value) => told(&value),
        Err(_) => body.trim().to_owned(),
    };
    message
        .chars()
        .filter(|c| !c.is_control())
        .take(MOST_MESSAGE)
        .collect()
}

fn told(value: &Value) -> String {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let error = &value["error"];
    let code = text(&error["code"])
        .or_else(|| text(&error["status"]))
        .or_else(|| text(&error["type"]));

    // FastAPI lists its errors, each with a quotation of the input.
    let listed = || {
        let list = value["detail"].as_array()?.iter();
        Some(
            list.map(|item| {
                format!(
                    "{} at {}",
                    item["msg"].as_str().unwrap_or("wrong"),
                    item["loc"]
                )
            })
            .collect::<Vec<_>>(),
        )
    };

    let message = text(&error["message"])
        .or_else(|| text(error))
        .or_else(|| text(&value["detail"]));
    let message = message
        .or_else(|| text(&value["message"]))
        .or_else(|| Some(listed()?.join("; ")));
    match (message, code) {
        (Some(message), Some(code)) => format!("{message} ({code})"),
        (message, code) => message.or(code).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejections_are_recognised_by_their_error_code() {
        let refusal = |status, body: &str| {
            let (message, codes) = (message_of(body), codes_of(body));
            ProviderError::Status {
                status,
                message,
                codes,
                retry_after: None,
                should_retry: None,
            }
            .refusal()
        };

        let google = r#"[{"error":{"message":"no","details":[{"reason":"API_KEY_INVALID"}]}}]"#;
        for (status, body, wanted) in [
            (400, google, Some((Refusal::Key, false))),
            (
                400,
                r#"{"error":{"message":"API key not valid. Pass one."}}"#,
                Some((Refusal::Key, false)),
            ),
            (
                400,
                r#"{"error":{"message":"bad text: 'API key not valid'"}}"#,
                None,
            ),
            (
                429,
                r#"{"error":{"message":"no","type":"insufficient_quota"}}"#,
                Some((Refusal::Quota, false)),
            ),
            (
                429,
                r#"{"error":{"message":"slow down: 'insufficient_quota'"}}"#,
                None,
            ),
            (
                403,
                r#"{"error":{"message":"no","metadata":{"reasons":["violence"]}}}"#,
                None,
            ),
            (
                403,
                r#"{"error":{"message":"your key was flagged"}}"#,
                Some((Refusal::Key, true)),
            ),
        ] {
            assert_eq!(refusal(status, body), wanted, "{status} {body}");
        }
    }

    #[test]
    fn finds_the_message_in_every_error_format() {
        for (body, wanted) in [
            (r#"{"error":{"message":"no","code":"bad"}}"#, "no (bad)"),
            (
                r#"{"error":{"message":"no","type":"overloaded_error"}}"#,
                "no (overloaded_error)",
            ),
            (
                r#"[{"error":{"message":"no","status":"INVALID_ARGUMENT"}}]"#,
                "no (INVALID_ARGUMENT)",
            ),
            (r#"{"error":"text"}"#, "text"),
            (r#"{"detail":"nope"}"#, "nope"),
            (r#"{"message":"nope"}"#, "nope"),
            (
                r#"{"detail":[{"msg":"bad","loc":["body",1],"input":"the prompt"}]}"#,
                r#"bad at ["body",1]"#,
            ),
            (r#"{"weird":"the prompt"}"#, ""),
            ("busy\n", "busy"),
            ("", ""),
        ] {
            assert_eq!(message_of(body), wanted, "{body}");
        }
        assert_eq!(message_of(&"x".repeat(10_000)).len(), MOST_MESSAGE);
    }
}
