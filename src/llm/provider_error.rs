//! Why a provider gave no reply: whether a retry may help, and whether it rejects all callers.

use std::time::Duration;

use super::LlmError;
use super::error_body::MODERATED;

/// OpenAI's code for an account without credit.
const OUT_OF_QUOTA: &str = "insufficient_quota";

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

fn named(codes: &[String], name: &str) -> bool {
    codes.iter().any(|code| code == name)
}

#[cfg(test)]
mod tests {
    use super::super::error_body::{codes_of, message_of};
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
}
