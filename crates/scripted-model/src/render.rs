//! Renders the model's output in each protocol: messages, tool calls, finish reasons, token counts
//! and errors. Every field that a client may read has the provider's own name and type.

use serde_json::{Value, json};

use super::script::Answer;
use super::types::{OutputMode, Protocol, Seen, Usage};

/// A plausible time that is the same in every run.
const CREATED: u64 = 1_750_000_000;

/// The output of the model.
#[derive(Debug)]
pub(super) enum Said {
    Text(String),
    /// A call of the requested tool.
    Call(Answer),
    /// An empty message.
    Nothing,
    Refusal {
        text: String,
        blocked_prompt: bool,
    },
}

impl Said {
    /// The answer in the requested output mode.
    pub(super) fn asked(seen: &Seen, answer: Answer) -> Self {
        match seen.mode {
            OutputMode::Tool => Self::Call(answer),
            OutputMode::Native | OutputMode::Prompted => Self::Text(answer.into_text()),
        }
    }

    pub(super) fn chars(&self) -> usize {
        match self {
            Self::Text(text) | Self::Call(Answer::Text(text)) | Self::Refusal { text, .. } => {
                text.chars().count()
            }
            Self::Call(Answer::Json(value)) => value.to_string().chars().count(),
            Self::Nothing => 0,
        }
    }
}

/// One answer, ready to be rendered in a protocol.
#[derive(Debug)]
pub(super) struct Spoken {
    pub(super) said: Said,
    /// The token limit cut the answer short.
    pub(super) cut: bool,
    pub(super) usage: Option<Usage>,
}

pub(super) fn message(seen: &Seen, spoken: Spoken) -> Value {
    match seen.protocol {
        Protocol::Anthropic => anthropic(seen, spoken),
        Protocol::Gemini => gemini(seen, spoken),
        Protocol::OpenAi | Protocol::Embeddings => openai(seen, spoken),
    }
}

fn openai(seen: &Seen, spoken: Spoken) -> Value {
    // A forced tool call has the finish reason of any other message; only a free choice has its
    // own.
    let free = !seen.body.get("tool_choice").is_some_and(Value::is_object);
    let finish = match spoken.said {
        _ if spoken.cut => "length",
        Said::Call(_) if free => "tool_calls",
        _ => "stop",
    };

    let mut message = json!({"role": "assistant", "content": null, "refusal": null});
    match spoken.said {
        Said::Text(text) => message["content"] = text.into(),
        Said::Nothing => message["content"] = "".into(),
        Said::Refusal { text, .. } => message["refusal"] = text.into(),
        Said::Call(arguments) => {
            let function = json!({"name": seen.tool_name(), "arguments": arguments.into_text()});
            let id = format!("call_{}", seen.number);
            message["tool_calls"] = json!([{"id": id, "type": "function", "function": function}]);
        }
    }

    let mut body = json!({
        "id": format!("chatcmpl-{}", seen.number),
        "object": "chat.completion",
        "created": CREATED,
        "model": seen.model,
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish}],
        "system_fingerprint": "fp_scripted",
    });

    if let Some(usage) = spoken.usage {
        body["usage"] = json!({
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
            "completion_tokens_details": {"reasoning_tokens": 0},
        });
    }

    body
}

fn anthropic(seen: &Seen, spoken: Spoken) -> Value {
    let reason = match spoken.said {
        _ if spoken.cut => "max_tokens",
        Said::Call(_) => "tool_use",
        Said::Refusal { .. } => "refusal",
        _ => "end_turn",
    };

    let content = match spoken.said {
        Said::Text(text) => json!([{"type": "text", "text": text}]),
        Said::Refusal { text, .. } if !text.is_empty() => json!([{"type": "text", "text": text}]),
        Said::Nothing | Said::Refusal { .. } => json!([]),
        Said::Call(arguments) => {
            let id = format!("toolu_{}", seen.number);
            json!([{"type": "tool_use", "id": id, "name": seen.tool_name(), "input": parsed(arguments)}])
        }
    };

    let mut body = json!({
        "id": format!("msg_{}", seen.number),
        "type": "message",
        "role": "assistant",
        "model": seen.model,
        "content": content,
        "stop_reason": reason,
        "stop_sequence": null,
    });

    if let Some(usage) = spoken.usage {
        body["usage"] = json!({
            "input_tokens": usage.prompt_tokens - usage.cached_tokens.min(usage.prompt_tokens),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": usage.cached_tokens,
            "output_tokens": usage.completion_tokens,
        });
    }

    body
}

fn gemini(seen: &Seen, spoken: Spoken) -> Value {
    let mut body = match spoken.said {
        Said::Refusal {
            text,
            blocked_prompt: true,
        } => {
            json!({"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": text}})
        }
        said => json!({"candidates": [candidate(seen, said, spoken.cut)]}),
    };

    if let Some(usage) = spoken.usage {
        let mut counts = json!({
            "promptTokenCount": usage.prompt_tokens,
            "candidatesTokenCount": usage.completion_tokens,
            "totalTokenCount": usage.prompt_tokens + usage.completion_tokens,
        });

        // The field is omitted if nothing was cached.
        if usage.cached_tokens > 0 {
            counts["cachedContentTokenCount"] = usage.cached_tokens.into();
        }

        body["usageMetadata"] = counts;
    }

    body["modelVersion"] = seen.model.as_str().into();
    body["responseId"] = format!("response-{}", seen.number).into();
    body
}

fn candidate(seen: &Seen, said: Said, cut: bool) -> Value {
    let reason = match said {
        _ if cut => "MAX_TOKENS",
        Said::Refusal { .. } => "SAFETY",
        _ => "STOP",
    };

    let part = match said {
        Said::Text(text) => json!({ "text": text }),
        Said::Call(arguments) => {
            json!({"functionCall": {"name": seen.tool_name(), "args": parsed(arguments)}})
        }
        Said::Nothing => {
            return json!({"content": {"role": "model"}, "finishReason": reason, "index": 0});
        }
        Said::Refusal { text, .. } => {
            let ratings = json!([{"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "probability": "HIGH", "blocked": true}]);
            return json!({"finishReason": reason, "finishMessage": text, "index": 0, "safetyRatings": ratings});
        }
    };

    json!({"content": {"parts": [part], "role": "model"}, "finishReason": reason, "index": 0})
}

/// Arguments for protocols that send them as a value: text that is not JSON stays a string.
fn parsed(arguments: Answer) -> Value {
    match arguments {
        Answer::Json(value) => value,
        Answer::Text(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
    }
}

/// An error in the protocol's own format.
pub(super) fn error(protocol: Protocol, status: u16, message: &str) -> Value {
    let [openai, anthropic, gemini] = error_names(status);
    match protocol {
        Protocol::OpenAi | Protocol::Embeddings => {
            json!({"error": {"message": message, "type": openai, "param": null, "code": null}})
        }
        Protocol::Anthropic => {
            json!({"type": "error", "error": {"type": anthropic, "message": message}})
        }
        Protocol::Gemini => {
            json!({"error": {"code": status, "message": message, "status": gemini}})
        }
    }
}

const fn error_names(status: u16) -> [&'static str; 3] {
    match status {
        401 => [
            "authentication_error",
            "authentication_error",
            "UNAUTHENTICATED",
        ],
        403 => ["permission_error", "permission_error", "PERMISSION_DENIED"],
        404 => ["invalid_request_error", "not_found_error", "NOT_FOUND"],
        413 => [
            "invalid_request_error",
            "request_too_large",
            "INVALID_ARGUMENT",
        ],
        429 => ["rate_limit_error", "rate_limit_error", "RESOURCE_EXHAUSTED"],
        400..500 => [
            "invalid_request_error",
            "invalid_request_error",
            "INVALID_ARGUMENT",
        ],
        503 | 529 => ["server_error", "overloaded_error", "UNAVAILABLE"],
        504 => ["server_error", "timeout_error", "DEADLINE_EXCEEDED"],
        _ => ["server_error", "api_error", "INTERNAL"],
    }
}

/// The error for a parameter that the provider rejects.
pub(super) fn unsupported(protocol: Protocol, name: &str) -> Value {
    match protocol {
        Protocol::OpenAi | Protocol::Embeddings => {
            let text = format!("Unsupported parameter: '{name}' is not supported with this model.");
            let code = "unsupported_parameter";
            json!({"error": {"message": text, "type": "invalid_request_error", "param": name, "code": code}})
        }
        Protocol::Anthropic => error(
            protocol,
            400,
            &format!("{name}: Extra inputs are not permitted"),
        ),
        Protocol::Gemini => {
            let text = format!(
                "Invalid JSON payload received. Unknown name \"{name}\": Cannot find field."
            );
            error(protocol, 400, &text)
        }
    }
}
