//! What memoir reads of a forwarded reply while it passes through: the text, the usage, and whether
//! it is complete.

use serde_json::Value;

use crate::llm::provider::{Finish, Usage};
use crate::llm::record::Received;

/// Maximum bytes of the text: as much as is ever stored, which is 200 000 characters.
const MAX_TEXT_BYTES: usize = 4 * 200_000;
/// Members of a message that the model does not write, or that repeat what it writes.
const NOT_WRITTEN: [&str; 8] = [
    "call_id",
    "encrypted_content",
    "extra_content",
    "id",
    "reasoning_details",
    "role",
    "status",
    "type",
];

/// The form of a forwarded request and its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Chat,
    Responses,
    Embeddings,
}

impl Form {
    /// The path below the provider's address.
    pub fn path(self) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Responses => "/responses",
            Self::Embeddings => "/embeddings",
        }
    }

    /// The stage of its calls in the ledger.
    pub fn stage(self) -> &'static str {
        match self {
            Self::Chat => "openai_chat",
            Self::Responses => "openai_responses",
            Self::Embeddings => "openai_embeddings",
        }
    }
}

/// What was read of a reply so far.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// The text of the first choice, as far as it is stored.
    pub text: String,
    /// Characters of everything that the model wrote: all choices, arguments of tools, reasoning.
    chars: usize,
    /// Whether the model called tools instead of replying, or as well.
    pub calls_tools: bool,
    pub usage: Option<Usage>,
    pub finish: Option<Finish>,
    /// Whether the last event of a stream arrived.
    pub is_over: bool,
    pub model: Option<String>,
    pub id: Option<String>,
    /// The error that the provider reported in the middle of a stream.
    pub failure: Option<String>,
}

/// What to do with an event of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    On,
    /// The client did not ask for it.
    Hide,
    /// The last one: passed on once the reply is stored.
    Last,
}

impl Reading {
    /// Whether the reply is complete.
    pub fn is_complete(&self) -> bool {
        self.failure.is_none() && (self.is_over || self.finish.is_some())
    }

    /// What is known of its tokens.
    pub fn received(&self) -> Received {
        Received {
            usage: self.usage,
            chars: self.chars,
        }
    }

    /// Reads a whole reply.
    pub fn read_whole(&mut self, form: Form, body: &Value) {
        self.identify(body);
        self.usage = usage_of(&body["usage"]).or(self.usage);
        match form {
            Form::Chat => {
                let choice = first_choice(&body["choices"]);
                let message = &choice["message"];
                self.append(&text_of(&message["content"]));
                self.calls_tools = has_calls(message);
                self.finish = Some(finish_of(&choice["finish_reason"]).unwrap_or(Finish::Complete));
                let choices = body["choices"].as_array().into_iter().flatten();
                self.chars = choices.map(|choice| written(&choice["message"])).sum();
            }
            Form::Responses => {
                self.read_response(body);
                self.chars = written(&body["output"]);
            }
            Form::Embeddings => self.finish = Some(Finish::Complete),
        }
        self.is_over = true;
    }

    /// Reads the data of one event of a stream.
    pub fn read_event(&mut self, form: Form, data: &str, hides_usage: bool) -> Pass {
        if data.trim() == "[DONE]" {
            self.is_over = true;
            return Pass::Last;
        }

        let Ok(event) = serde_json::from_str::<Value>(data) else {
            return Pass::On;
        };
        if form == Form::Responses {
            return self.read_response_event(&event);
        }

        if !event["error"].is_null() {
            self.failure = Some(
                event["error"]["message"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
            );
            return Pass::On;
        }

        self.identify(&event);
        self.usage = usage_of(&event["usage"]).or(self.usage);
        let choices = event["choices"].as_array();
        for choice in choices.into_iter().flatten() {
            self.chars += written(&choice["delta"]);
            if choice["index"].as_i64().unwrap_or(0) == 0 {
                let delta = &choice["delta"];
                self.append(delta["content"].as_str().unwrap_or_default());
                self.calls_tools |= has_calls(delta);
                self.finish = finish_of(&choice["finish_reason"]).or(self.finish.take());
            }
        }

        let is_usage = choices.is_some_and(Vec::is_empty) && event["usage"].is_object();
        if hides_usage && is_usage {
            Pass::Hide
        } else {
            Pass::On
        }
    }

    fn read_response_event(&mut self, event: &Value) -> Pass {
        self.chars += written(&event["delta"]);
        match event["type"].as_str().unwrap_or_default() {
            "response.output_text.delta" => {
                self.append(event["delta"].as_str().unwrap_or_default());
                Pass::On
            }
            "response.completed" | "response.incomplete" => {
                self.text.clear();
                self.identify(&event["response"]);
                self.usage = usage_of(&event["response"]["usage"]);
                self.read_response(&event["response"]);
                self.is_over = true;
                Pass::Last
            }
            "response.failed" | "error" => {
                self.usage = usage_of(&event["response"]["usage"]).or(self.usage);
                self.failure = Some("the response failed".to_owned());
                Pass::On
            }
            _ => Pass::On,
        }
    }

    fn read_response(&mut self, response: &Value) {
        for item in response["output"].as_array().into_iter().flatten() {
            let kind = item["type"].as_str().unwrap_or_default();
            if kind == "message" {
                self.append(&text_of(&item["content"]));
            }
            self.calls_tools |= kind.ends_with("_call");
        }
        self.finish = Some(match response["status"].as_str() {
            Some("incomplete") => Finish::CutOff,
            _ => Finish::Complete,
        });
    }

    /// Adds to the text what has room.
    fn append(&mut self, text: &str) {
        let room = MAX_TEXT_BYTES.saturating_sub(self.text.len());
        self.text.push_str(&text[..text.floor_char_boundary(room)]);
    }

    fn identify(&mut self, body: &Value) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        self.model = text(&body["model"]).or(self.model.take());
        self.id = text(&body["id"]).or(self.id.take());
    }
}

/// The choice with the number 0.
fn first_choice(choices: &Value) -> &Value {
    let all = choices.as_array();
    let first = all
        .into_iter()
        .flatten()
        .find(|choice| choice["index"].as_i64().unwrap_or(0) == 0);
    first.unwrap_or(&Value::Null)
}

fn has_calls(message: &Value) -> bool {
    let calls = message["tool_calls"].as_array();
    calls.is_some_and(|calls| !calls.is_empty()) || message["function_call"].is_object()
}

fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect(),
        _ => String::new(),
    }
}

/// Characters that the model wrote in a message or a part of one.
fn written(value: &Value) -> usize {
    match value {
        Value::String(text) => text.chars().count(),
        Value::Array(parts) => parts.iter().map(written).sum(),
        Value::Object(members) => {
            let members = members.iter();
            let own = members.filter(|(name, _)| !NOT_WRITTEN.contains(&name.as_str()));
            own.map(|(_, value)| written(value)).sum()
        }
        _ => 0,
    }
}

fn finish_of(reason: &Value) -> Option<Finish> {
    Some(match reason.as_str()? {
        "content_filter" => Finish::Refused("a content filter stopped the answer".to_owned()),
        "length" => Finish::CutOff,
        _ => Finish::Complete,
    })
}

/// Tokens as any of the three forms reports them.
fn usage_of(usage: &Value) -> Option<Usage> {
    let number = |names: [&str; 2]| names.into_iter().find_map(|name| usage[name].as_i64());
    let details = [
        &usage["prompt_tokens_details"],
        &usage["input_tokens_details"],
    ];
    let cached = details
        .into_iter()
        .find_map(|details| details["cached_tokens"].as_i64());
    let prompt = number(["prompt_tokens", "input_tokens"]).filter(|prompt| *prompt > 0)?;
    Some(Usage {
        prompt,
        completion: number(["completion_tokens", "output_tokens"]).unwrap_or(0),
        cached: cached.unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_stream_is_read_event_by_event() {
        let mut reading = Reading::default();
        let mut read = |event: Value| reading.read_event(Form::Chat, &event.to_string(), true);
        let delta = |delta: Value, finish: Value| json!({"id": "c1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
        let other = json!({"choices": [{"index": 1, "delta": {"content": "no"}}]});
        assert_eq!(read(delta(json!({"content": "He"}), Value::Null)), Pass::On);
        assert_eq!(read(other), Pass::On);
        assert_eq!(
            read(delta(json!({"content": "llo"}), json!("stop"))),
            Pass::On
        );
        let usage = json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}});
        assert_eq!(read(usage), Pass::Hide);
        assert_eq!(reading.read_event(Form::Chat, "[DONE]", true), Pass::Last);
        assert_eq!(reading.text, "Hello");
        assert!(reading.is_complete() && !reading.calls_tools);
        assert_eq!(reading.usage.map(|usage| usage.prompt), Some(3));
    }

    #[test]
    fn everything_that_is_written_is_counted_and_the_text_is_bounded() {
        let mut reading = Reading::default();
        let call = json!({"index": 0, "id": "call_1", "type": "function", "function": {"name": "find", "arguments": "{}"}});
        for (index, delta) in [
            (0, json!({"role": "assistant", "content": "four"})),
            (1, json!({"content": "\u{e9}t\u{e9}"})),
            (0, json!({"reasoning_content": "why", "refusal": null})),
            (2, json!({"tool_calls": [call]})),
        ] {
            let event = json!({"choices": [{"index": index, "delta": delta}]});
            reading.read_event(Form::Chat, &event.to_string(), true);
        }
        assert_eq!((reading.chars, reading.text.as_str()), (16, "four"));

        let mut reading = Reading::default();
        let arguments = json!({"type": "response.function_call_arguments.delta", "delta": "{}"});
        reading.read_event(Form::Responses, &arguments.to_string(), false);
        assert_eq!(reading.chars, 2);

        let long = "\u{4e16}".repeat(100_000);
        let event = json!({"choices": [{"index": 0, "delta": {"content": long}}]}).to_string();
        for _ in 0..5 {
            reading.read_event(Form::Chat, &event, true);
        }
        assert!(reading.text.len() <= MAX_TEXT_BYTES && reading.text.chars().count() > 200_000);
        assert_eq!(reading.chars, 500_002);
    }

    #[test]
    fn a_response_is_read_from_its_last_event() {
        let mut reading = Reading::default();
        let delta = json!({"type": "response.output_text.delta", "delta": "Hel"});
        assert_eq!(
            reading.read_event(Form::Responses, &delta.to_string(), false),
            Pass::On
        );
        assert!(!reading.is_complete());
        let done = json!({"type": "response.completed", "response": {
            "id": "r1", "model": "m", "status": "completed",
            "output": [{"type": "message", "content": [{"type": "output_text", "text": "Hello"}]}],
            "usage": {"input_tokens": 5, "output_tokens": 1},
        }});
        assert_eq!(
            reading.read_event(Form::Responses, &done.to_string(), false),
            Pass::Last
        );
        assert_eq!(reading.text, "Hello");
        assert!(reading.is_complete() && !reading.calls_tools);
    }
}
