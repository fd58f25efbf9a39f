//! Converts a request of any protocol into a common view. Nothing is rejected here: missing fields
//! stay empty, and `lacks` names what a provider would require.

use std::borrow::Cow;

use serde_json::Value;

use super::frame::Frame;
use super::types::{OutputMode, Protocol};

/// The part of a `Seen` that is read from the body.
#[derive(Debug)]
pub(super) struct View {
    pub(super) model: String,
    pub(super) stage: String,
    pub(super) mode: OutputMode,
    pub(super) system: String,
    pub(super) user: String,
    pub(super) schema: Option<Value>,
    pub(super) temperature: Option<f64>,
    pub(super) max_tokens: Option<u64>,
}

/// How a protocol requests structured output.
struct OutputRequest<'a> {
    native: Option<&'a Value>,
    native_name: Option<&'a str>,
    tool: Option<&'a Value>,
    tool_name: Option<&'a str>,
}

/// `path_model` is the model that Gemini's protocol names in the path instead of the body.
pub(super) fn view(protocol: Protocol, body: &Value, path_model: Option<String>) -> View {
    let mut view = match protocol {
        Protocol::OpenAi => openai(body),
        Protocol::Anthropic => anthropic(body),
        Protocol::Gemini => gemini(body),
        Protocol::Embeddings => embeddings(body),
    };

    let named = || {
        body.get("model")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };

    view.model = path_model.unwrap_or_else(named);
    if view.stage.is_empty() {
        Frame::read(&view.user).stage().clone_into(&mut view.stage);
        // A prompt that is none of ours asks for free text.
        let wants_json = view.schema.is_some() || view.system.contains("JSON");
        if view.stage.is_empty() && !wants_json && protocol != Protocol::Embeddings {
            "send".clone_into(&mut view.stage);
        }
    }

    view
}

/// The first required field that the body does not have.
pub(super) fn lacks(protocol: Protocol, body: &Value) -> Option<&'static str> {
    let needed: &[&str] = match protocol {
        Protocol::OpenAi => &["model", "messages"],
        Protocol::Anthropic => &["model", "max_tokens", "messages"],
        Protocol::Gemini => &["contents"],
        Protocol::Embeddings => &["model", "input"],
    };
    needed
        .iter()
        .find(|name| body.get(**name).is_none())
        .copied()
}

fn openai(body: &Value) -> View {
    let of = |roles: &[&str]| join(body.get("messages"), roles);
    let format = body
        .get("response_format")
        .filter(|format| at(format, "/type") == Some("json_schema"));
    let tool = body.pointer("/tools/0");
    let request = OutputRequest {
        native: format.map(|format| {
            format
                .pointer("/json_schema/schema")
                .unwrap_or(&Value::Null)
        }),
        native_name: format.and_then(|format| at(format, "/json_schema/name")),
        tool: tool.map(|tool| tool.pointer("/function/parameters").unwrap_or(&Value::Null)),
        tool_name: tool.and_then(|tool| at(tool, "/function/name")),
    };

    let limit = body
        .get("max_completion_tokens")
        .or_else(|| body.get("max_tokens"));
    assemble(
        of(&["system", "developer"]),
        of(&["user"]),
        &request,
        body.get("temperature"),
        limit,
    )
}

fn anthropic(body: &Value) -> View {
    let user = join(body.get("messages"), &["user"]);
    let format = body
        .pointer("/output_config/format")
        .or_else(|| body.get("output_format"));
    let tool = body.pointer("/tools/0");
    let request = OutputRequest {
        native: format.map(|format| format.get("schema").unwrap_or(&Value::Null)),
        native_name: format.and_then(|format| at(format, "/name")),
        tool: tool.map(|tool| tool.get("input_schema").unwrap_or(&Value::Null)),
        tool_name: tool.and_then(|tool| at(tool, "/name")),
    };

    let system = body
        .get("system")
        .map(text)
        .unwrap_or_default()
        .into_owned();

    assemble(
        system,
        user,
        &request,
        body.get("temperature"),
        body.get("max_tokens"),
    )
}

fn gemini(body: &Value) -> View {
    // A content without a role is the user's.
    let contents = body
        .get("contents")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();

    let turns = contents.filter(|content| at(content, "/role").is_none_or(|role| role == "user"));
    let user: Vec<_> = turns
        .filter_map(|content| content.get("parts"))
        .map(text)
        .collect();

    let settings = body.get("generationConfig").unwrap_or(&Value::Null);
    let tool = body.pointer("/tools/0/functionDeclarations/0");
    let request = OutputRequest {
        native: settings
            .get("responseJsonSchema")
            .or_else(|| settings.get("responseSchema")),
        native_name: None,
        tool: tool.map(parameters),
        tool_name: tool.and_then(|tool| at(tool, "/name")),
    };

    let system = body
        .pointer("/systemInstruction/parts")
        .map(text)
        .unwrap_or_default()
        .into_owned();

    assemble(
        system,
        user.join("\n\n"),
        &request,
        settings.get("temperature"),
        settings.get("maxOutputTokens"),
    )
}

fn parameters(tool: &Value) -> &Value {
    tool.get("parametersJsonSchema")
        .or_else(|| tool.get("parameters"))
        .unwrap_or(&Value::Null)
}

fn embeddings(body: &Value) -> View {
    let none = OutputRequest {
        native: None,
        native_name: None,
        tool: None,
        tool_name: None,
    };

    let mut view = assemble(String::new(), inputs(body).join("\n\n"), &none, None, None);
    "embed".clone_into(&mut view.stage);
    view
}

/// The texts to embed; lists of token numbers are used as their JSON.
pub(super) fn inputs(body: &Value) -> Vec<String> {
    let as_text = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    match body.get("input") {
        Some(Value::Array(items)) if items.iter().any(|item| !item.is_number()) => {
            items.iter().map(as_text).collect()
        }
        Some(single) => vec![as_text(single)],
        None => Vec::new(),
    }
}

fn assemble(
    system: String,
    user: String,
    request: &OutputRequest<'_>,
    temperature: Option<&Value>,
    limit: Option<&Value>,
) -> View {
    let (mode, name, schema) = match (request.native, request.tool) {
        (Some(schema), _) => (OutputMode::Native, request.native_name, Some(schema)),
        (None, Some(schema)) => (OutputMode::Tool, request.tool_name, Some(schema)),
        (None, None) => (OutputMode::Prompted, None, None),
    };
    View {
        model: String::new(),
        stage: name.unwrap_or_default().to_owned(),
        mode,
        system,
        user,
        schema: schema.filter(|schema| !schema.is_null()).cloned(),
        temperature: temperature.and_then(Value::as_f64),
        max_tokens: limit.and_then(Value::as_u64),
    }
}

/// The texts of all messages in one of these roles, joined with blank lines.
fn join(messages: Option<&Value>, roles: &[&str]) -> String {
    let list = messages.and_then(Value::as_array).into_iter().flatten();
    let wanted =
        list.filter(|message| at(message, "/role").is_some_and(|role| roles.contains(&role)));
    let texts: Vec<_> = wanted
        .filter_map(|message| message.get("content"))
        .map(text)
        .collect();

    texts.join("\n\n")
}

/// A text that is either a string or a list of parts with a `text` each.
fn text(content: &Value) -> Cow<'_, str> {
    match content {
        Value::String(text) => text.into(),
        Value::Array(parts) => {
            let texts: Vec<_> = parts.iter().filter_map(|part| at(part, "/text")).collect();
            texts.join("\n\n").into()
        }
        _ => "".into(),
    }
}

fn at<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer)?.as_str()
}
