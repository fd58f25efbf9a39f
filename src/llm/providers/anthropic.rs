//! Anthropic's protocol: the Messages API.

use serde_json::{Value, json};

use super::super::provider::{Finish, Mode, Request, Usage};
use super::super::provider_error::ProviderError;
use super::protocol::{Parts, Protocol};

/// The version of the protocol that is spoken here.
pub(super) const VERSION: &str = "2023-06-01";

/// The limit of a request that names none, because this protocol requires one.
const DEFAULT_MAX_TOKENS: u64 = 4096;

pub(super) struct Anthropic;

impl Protocol for Anthropic {
    fn path(&self, _: &Request<'_>, _: bool) -> String {
        "/messages".to_owned()
    }

    fn body(&self, request: &Request<'_>, streamed: bool) -> Value {
        let mut body = json!({"model": request.model, "stream": streamed});
        if !request.system.is_empty() {
            body["system"] = request.system.into();
        }

        if request.mode == Mode::Tool {
            body["tools"] = json!([{
                "name": request.tool,
                "input_schema": request.schema,
                "description": request.description,
            }]);
            body["tool_choice"] = json!({"type": "tool", "name": request.tool});
        }

        body["messages"] = json!([{"role": "user", "content": request.user}]);
        if request.mode == Mode::Native {
            body["output_config"] =
                json!({"format": {"type": "json_schema", "schema": request.schema}});
        }

        let parameters = request.parameters;
        if let Some(temperature) = parameters.temperature {
            body["temperature"] = temperature.into();
        }

        body["max_tokens"] = parameters
            .max_output_tokens
            .unwrap_or(DEFAULT_MAX_TOKENS)
            .into();
        body
    }

    fn read(&self, answer: &Value, request: &Request<'_>) -> Result<Parts, ProviderError> {
        let blocks = answer["content"]
            .as_array()
            .ok_or_else(|| ProviderError::Unreadable("it has no content".to_owned()))?;

        let mut parts = Parts::default();
        for block in blocks {
            match block["type"].as_str() {
                Some("text") => parts
                    .text
                    .push_str(block["text"].as_str().unwrap_or_default()),
                Some("tool_use") if parts.arguments.is_none() && block["name"] == request.tool => {
                    parts.arguments = Some(match &block["input"] {
                        Value::String(text) => text.clone(),
                        other => other.to_string(),
                    });
                }
                _ => {}
            }
        }

        parts.finish = finish(&answer["stop_reason"]);
        parts.add_usage(&answer["usage"]);
        parts.identify(&answer["model"], &answer["id"]);
        Ok(parts)
    }

    fn add(&self, parts: &mut Parts, event: &Value, request: &Request<'_>) -> String {
        match event["type"].as_str() {
            Some("message_start") => {
                let message = &event["message"];
                parts.add_usage(&message["usage"]);
                parts.identify(&message["model"], &message["id"]);
            }
            Some("content_block_start") => {
                let block = &event["content_block"];
                let is_call = block["type"] == "tool_use" && block["name"] == request.tool;
                if is_call && parts.call.is_none() {
                    parts.call = event["index"].as_i64();
                    parts.arguments = Some(String::new());
                }
            }
            Some("content_block_delta") => return add_delta(parts, event, request),
            Some("message_delta") => {
                // An event that only counts tokens gives no reason.
                parts.finish = finish(&event["delta"]["stop_reason"]).or(parts.finish.take());
                parts.add_usage(&event["usage"]);
            }
            Some("message_stop") => parts.over = true,
            _ => {}
        }

        String::new()
    }

    fn usage(&self, usage: &Value) -> Option<Usage> {
        let count = |name: &str| usage[name].as_i64().unwrap_or(0);
        let cached = count("cache_read_input_tokens");
        let sent = usage["input_tokens"].as_i64()?;

        Some(Usage {
            prompt: sent + count("cache_creation_input_tokens") + cached,
            completion: count("output_tokens"),
            cached,
        })
    }
}

/// Adds a piece of a text or of the arguments of a call.
fn add_delta(parts: &mut Parts, event: &Value, request: &Request<'_>) -> String {
    let delta = &event["delta"];
    if let Some(piece) = delta["text"].as_str() {
        parts.text.push_str(piece);
        if request.mode == Mode::Tool {
            return String::new();
        }

        return piece.to_owned();
    }

    let piece = delta["partial_json"].as_str().unwrap_or_default();
    let of_the_call = parts.call.is_some() && parts.call == event["index"].as_i64();
    match &mut parts.arguments {
        Some(arguments) if of_the_call => {
            arguments.push_str(piece);
            piece.to_owned()
        }
        _ => String::new(),
    }
}

fn finish(reason: &Value) -> Option<Finish> {
    Some(match reason.as_str()? {
        "max_tokens" | "model_context_window_exceeded" => Finish::CutOff,
        "refusal" => Finish::Refused("refusal".to_owned()),
        _ => Finish::Complete,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::provider::Parameters;
    use super::*;

    #[test]
    fn counts_that_are_no_object_and_events_without_a_reason_change_nothing() {
        let mut parts = Parts::default();
        let request = Request {
            model: "m",
            tool: "answer",
            description: "",
            system: "",
            user: "",
            mode: Mode::Text,
            schema: &Value::Null,
            parameters: Parameters::default(),
            task: &|| unreachable!("only computed answers need the task"),
        };
        for event in [
            json!({"type": "message_start", "message": {"usage": 7}}),
            json!({"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 3}}),
            json!({"type": "message_delta", "delta": {}, "usage": {"input_tokens": 5, "output_tokens": null}}),
            json!({"type": "message_delta", "delta": {}, "usage": [1]}),
        ] {
            Anthropic.add(&mut parts, &event, &request);
        }

        assert!(matches!(parts.finish, Some(Finish::CutOff)));
        let usage = Anthropic.usage(&parts.usage).unwrap();
        assert_eq!((usage.prompt, usage.completion), (5, 3));
    }
}
