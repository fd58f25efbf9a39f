//! Requests as memoir sends them, in every protocol and mode, and functions that read the
//! responses.

use std::time::Duration;

use memoir::scripted_model::{OutputMode, Protocol, ScriptedModel};
use serde_json::{Value, json};

pub const SELECT: &str = "contextual_helper: none\nquery: sea waves\nlevel: 1 of 3\nselect: at most 2\noptions:\n\
                          - Art\n- Sea / Waves\n- Land\n";
pub const MODES: [OutputMode; 3] = [OutputMode::Native, OutputMode::Tool, OutputMode::Prompted];
pub const PROTOCOLS: [Protocol; 3] = [Protocol::OpenAi, Protocol::Anthropic, Protocol::Gemini];
pub const SOON: Duration = Duration::from_secs(20);

pub fn right_answer() -> Value {
    json!({"selections": [
        {"category": "Sea / Waves", "ranked_relevance": 2},
        {"category": "Art", "ranked_relevance": 1},
    ]})
}

pub async fn model() -> ScriptedModel {
    ScriptedModel::local().await.unwrap()
}

pub fn path(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::OpenAi => "/v1/chat/completions",
        Protocol::Anthropic => "/v1/messages",
        Protocol::Gemini => "/v1beta/models/m-1:generateContent",
        Protocol::Embeddings => "/v1/embeddings",
    }
}

pub fn request(protocol: Protocol, mode: OutputMode, user: &str) -> Value {
    let schema = json!({"type": "object", "required": ["selections"], "properties": {"selections": {"type": "array"}}});
    let mut body = match protocol {
        Protocol::OpenAi => {
            json!({"model": "m-1", "temperature": 0.0, "max_completion_tokens": 500, "messages": [
            {"role": "system", "content": "Be brief."}, {"role": "user", "content": user}]})
        }
        Protocol::Anthropic => json!({"model": "m-1", "temperature": 0.0, "max_tokens": 500,
            "system": [{"type": "text", "text": "Be brief."}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": user}]}]}),
        Protocol::Gemini => json!({"systemInstruction": {"parts": [{"text": "Be brief."}]},
            "contents": [{"role": "user", "parts": [{"text": user}]}],
            "generationConfig": {"temperature": 0.0, "maxOutputTokens": 500}}),
        Protocol::Embeddings => json!({"model": "m-1", "input": [user, "other"]}),
    };

    match (protocol, mode) {
        (Protocol::OpenAi, OutputMode::Native) => {
            body["response_format"] = json!({"type": "json_schema", "json_schema": {"name": "select", "strict": true, "schema": schema}});
        }
        (Protocol::OpenAi, OutputMode::Tool) => {
            body["tools"] =
                json!([{"type": "function", "function": {"name": "select", "parameters": schema}}]);
        }
        (Protocol::Anthropic, OutputMode::Native) => {
            body["output_config"] = json!({"format": {"type": "json_schema", "schema": schema}});
        }
        (Protocol::Anthropic, OutputMode::Tool) => {
            body["tools"] = json!([{"name": "select", "input_schema": schema}]);
            body["tool_choice"] = json!({"type": "tool", "name": "select"});
        }
        (Protocol::Gemini, OutputMode::Native) => {
            body["generationConfig"]["responseJsonSchema"] = schema;
        }
        (Protocol::Gemini, OutputMode::Tool) => {
            body["tools"] =
                json!([{"functionDeclarations": [{"name": "select", "parameters": schema}]}]);
        }
        _ => {}
    }

    body
}

pub async fn post(
    model: &ScriptedModel,
    protocol: Protocol,
    body: &Value,
) -> reqwest::Result<reqwest::Response> {
    let url = format!("{}{}", model.url(), path(protocol));
    crate::support::client::client()
        .post(url)
        .header("x-note", "hello")
        .json(body)
        .send()
        .await
}

/// Requests a selection and returns the status and the body.
pub async fn ask(model: &ScriptedModel, protocol: Protocol, mode: OutputMode) -> (u16, Value) {
    let response = post(model, protocol, &request(protocol, mode, SELECT))
        .await
        .unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (
        status,
        serde_json::from_str(&text).unwrap_or(Value::String(text)),
    )
}

/// The model's text; none if the message has none.
pub fn text(protocol: Protocol, body: &Value) -> Option<&str> {
    let pointer = match protocol {
        Protocol::OpenAi => "/choices/0/message/content",
        Protocol::Anthropic => "/content/0/text",
        _ => "/candidates/0/content/parts/0/text",
    };
    body.pointer(pointer)?.as_str()
}

pub fn arguments(protocol: Protocol, body: &Value) -> Option<Value> {
    match protocol {
        Protocol::OpenAi => {
            let text = body
                .pointer("/choices/0/message/tool_calls/0/function/arguments")?
                .as_str()?;
            Some(serde_json::from_str(text).unwrap_or_else(|_| text.into()))
        }
        Protocol::Anthropic => body.pointer("/content/0/input").cloned(),
        _ => body
            .pointer("/candidates/0/content/parts/0/functionCall/args")
            .cloned(),
    }
}

/// The model's answer, wherever the mode puts it.
pub fn answer(protocol: Protocol, mode: OutputMode, body: &Value) -> Value {
    match mode {
        OutputMode::Tool => arguments(protocol, body).unwrap(),
        _ => serde_json::from_str(text(protocol, body).unwrap()).unwrap(),
    }
}

pub fn finish(protocol: Protocol, body: &Value) -> &str {
    let pointer = match protocol {
        Protocol::OpenAi => "/choices/0/finish_reason",
        Protocol::Anthropic => "/stop_reason",
        _ => "/candidates/0/finishReason",
    };
    body.pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
