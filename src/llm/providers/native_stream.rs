//! Streams in the protocols of Anthropic and Gemini.

use futures_util::StreamExt as _;
use genai::chat::{ChatStreamEvent, StreamEnd, ToolCall};
use genai::{Client, ModelSpec};
use serde_json::Value;

use super::super::listener::Listener;
use super::super::provider::{Mode, Reply, Request};
use super::super::provider_error::ProviderError;
use super::native::{finish_of, from_crate, question, usage_of};
use super::openai::MAX_BYTES;

/// Sends a request and reads its events.
pub async fn stream(
    client: &Client,
    target: ModelSpec,
    request: &Request<'_>,
    listener: &dyn Listener,
) -> Result<Reply, ProviderError> {
    let (question, options) = question(request);
    let mut events = match client
        .exec_chat_stream(target, question, Some(&options))
        .await
    {
        Ok(response) => response.stream,
        Err(error) => return from_crate(error),
    };

    let mut partial = PartialReply::default();
    while let Some(event) = events.next().await {
        match event {
            Ok(ChatStreamEvent::Chunk(chunk)) => {
                partial.text.push_str(&chunk.content);
                if request.mode != Mode::Tool {
                    listener.piece(&chunk.content);
                }
            }
            Ok(ChatStreamEvent::ToolCallChunk(chunk))
                if chunk.tool_call.fn_name == request.tool =>
            {
                let piece = partial.add_call(chunk.tool_call);
                listener.piece(&piece);
            }
            Ok(ChatStreamEvent::End(end)) => return partial.reply(end, request),
            Ok(_) => {}
            Err(error) => return from_crate(error),
        }

        if partial.text.len() > MAX_BYTES {
            return Err(ProviderError::Unreadable("it is too large".to_owned()));
        }
    }

    Err(broken())
}

/// What the events said so far.
#[derive(Default)]
struct PartialReply {
    text: String,
    arguments: Option<String>,
}

impl PartialReply {
    /// Adds the arguments of a call, which are repeated from their beginning, and returns what is
    /// new.
    fn add_call(&mut self, call: ToolCall) -> String {
        let so_far = match call.fn_arguments {
            Value::String(text) => text,
            other => other.to_string(),
        };

        let known = self.arguments.get_or_insert_default();
        let piece = so_far
            .strip_prefix(known.as_str())
            .unwrap_or_default()
            .to_owned();
        known.push_str(&piece);
        piece
    }

    fn reply(self, end: StreamEnd, request: &Request<'_>) -> Result<Reply, ProviderError> {
        let empty = self.text.is_empty() && self.arguments.is_none();
        if empty && end.captured_stop_reason.is_none() {
            return Err(broken());
        }

        let ignored_tool = request.mode == Mode::Tool && self.arguments.is_none();
        let text = self.arguments.unwrap_or(self.text);
        Ok(Reply {
            ignored_tool: ignored_tool && !text.is_empty(),
            text,
            finish: finish_of(end.captured_stop_reason.as_ref()),
            usage: end.captured_usage.as_ref().and_then(usage_of),
            counted: false,
            model: Some(request.model.to_owned()),
            id: end.captured_response_id,
        })
    }
}

fn broken() -> ProviderError {
    ProviderError::Broken("the connection broke before the response was complete".to_owned())
}
