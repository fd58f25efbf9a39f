//! What every provider does, whatever protocol it speaks: one request in, one reply or one error
//! out.
//!
//! Providers neither retry nor validate: that is done once, above them.

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::LlmError;
use super::tasks::AnyTask;

/// Somebody who answers.
pub trait Provider: Send + Sync {
    /// Asks once. Dropping the future drops the request on the wire.
    fn complete<'a>(
        &'a self,
        request: &'a Request<'a>,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>>;

    /// Asks once for the vectors of texts; only some protocols have that.
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

/// What a provider's models can use or do beyond what all of them can. Known without asking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Answers and vectors are computed in this process: nothing is sent or spent.
    pub in_process: bool,
    /// They use samples of what each category holds.
    pub samples: bool,
    /// They can judge anew whether a chunk lies in the best category, at no cost worth counting.
    pub second_look: bool,
}

/// Vectors of texts, in their order.
#[derive(Debug, Clone)]
pub struct Vectors {
    pub found: Vec<Vec<f32>>,
    pub usage: Option<Usage>,
    /// The model that answered, by its own word.
    pub model: Option<String>,
}

/// One request.
pub struct Request<'a> {
    pub model: &'a str,
    pub stage: &'static str,
    pub description: &'static str,
    pub system: &'a str,
    pub user: &'a str,
    pub mode: Mode,
    pub schema: &'a Value,
    pub parameters: Parameters,
    /// The question itself, for a provider that computes its answer.
    pub task: &'a (dyn Fn() -> AnyTask + Send + Sync),
}

/// What is sent besides the texts; `None` is not sent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Parameters {
    pub temperature: Option<f64>,
    pub seed: Option<u64>,
    pub max_output_tokens: Option<u64>,
    /// OpenAI renamed the last one; its newer models take only the new name, most others only the
    /// old one.
    pub new_name_for_max: bool,
}

/// How an answer is made to keep its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    Native,
    Tool,
    Prompted,
    /// It cannot break its schema: a computation in this process.
    Embedded,
}

impl Mode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Tool => "tool",
            Self::Prompted => "prompted",
            Self::Embedded => "embedded",
        }
    }

    /// The next to try when a provider will not have this one.
    pub fn lower(self) -> Option<Self> {
        match self {
            Self::Native => Some(Self::Tool),
            Self::Tool => Some(Self::Prompted),
            Self::Prompted | Self::Embedded => None,
        }
    }
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The message, or the arguments of the tool call.
    pub text: String,
    /// Whether it answered with words where a tool was to be called.
    pub ignored_tool: bool,
    pub finish: Finish,
    /// `None` if the provider did not say.
    pub usage: Option<Usage>,
    /// The model that answered, by its own word.
    pub model: Option<String>,
    pub id: Option<String>,
}

/// Why the model stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    Complete,
    /// At the limit of tokens.
    CutOff,
    /// It declined, or a filter did.
    Refused(String),
}

/// Tokens of one call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// All that was sent, cached or not.
    pub prompt: i64,
    pub completion: i64,
    /// The part of `prompt` that the provider had seen before.
    pub cached: i64,
}

/// Why there is no reply.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ProviderError {
    #[error("status {status}: {message}")]
    Status {
        status: u16,
        message: String,
        /// What the error names itself, as opposed to what it says, which may quote a text.
        codes: Vec<String>,
        /// How long the provider asks us to wait.
        retry_after: Option<Duration>,
        /// What `x-should-retry` says.
        should_retry: Option<bool>,
    },
    #[error("no response in time")]
    TimedOut,
    #[error("{0}")]
    Broken(String),
    /// A success that is not in the provider's protocol.
    #[error("unreadable response: {0}")]
    Unreadable(String),
}

impl ProviderError {
    /// An error of the HTTP client, without its address, which may hold a key.
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

    /// Whether the same request may work in a moment.
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

    /// Whether it tells that the provider is in trouble, rather than that we ask too much of it.
    pub fn is_trouble(&self) -> bool {
        match self {
            Self::Status { status, .. } => *status >= 500,
            Self::TimedOut | Self::Broken(_) | Self::Unreadable(_) => true,
        }
    }

    /// What the provider will not have until somebody acts, and whether that may concern one model
    /// alone.
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
            // Google's way to say it. A message that quotes a text does not begin with these words.
            400 if named(codes, "API_KEY_INVALID") || message.starts_with("API key ") => {
                Some((Refusal::Key, false))
            }
            402 => Some((Refusal::Quota, false)),
            429 if named(codes, OUT_OF_QUOTA) => Some((Refusal::Quota, false)),
            // A text that a filter stopped says nothing about the key.
            403 if named(codes, MODERATED) => None,
            403 => Some((Refusal::Key, true)),
            404 => Some((Refusal::Model, true)),
            _ => None,
        }
    }

    /// Why, in one word, for metrics.
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

/// What a provider refuses whoever asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    Key,
    Quota,
    Model,
}

impl Refusal {
    /// The same for whoever asked. `next_probe_in`: the provider is paused until then.
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

/// The account has no money left; OpenAI's word for it.
const OUT_OF_QUOTA: &str = "insufficient_quota";
/// Our own word for an error that lists why a text was stopped (`OpenRouter`).
const MODERATED: &str = "moderated";

fn named(codes: &[String], name: &str) -> bool {
    codes.iter().any(|code| code == name)
}

/// What an error body names itself in the members that are made for that: code, type, status,
/// reasons.
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

/// The most of an error's text that is kept.
const MOST_MESSAGE: usize = 500;

/// The readable part of an error body: `error.message`, `error`, `detail`, `message`, or a plain
/// text. Other JSON is left out: servers quote the request in it, and with it the prompt.
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

    // FastAPI lists what it minds, each with the input that it quotes.
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
