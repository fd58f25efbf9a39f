//! Streams in OpenAI's chat protocol: deltas of the text or of a tool's arguments, the tokens in a
//! last chunk, and servers that answer as a whole although a stream was requested.

use reqwest::header::CONTENT_TYPE;
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};

use super::super::error_body::{codes_of, message_of};
use super::super::listener::Listener;
use super::super::provider::{Mode, Reply, Request};
use super::super::provider_error::ProviderError;
use super::openai::{MAX_BYTES, body, read, refusal};

/// The data of the last event.
const END: &str = "[DONE]";

/// Sends a request and reads its events.
pub async fn stream(
    post: RequestBuilder,
    request: &Request<'_>,
    listener: &dyn Listener,
) -> Result<Reply, ProviderError> {
    let mut body = body(request);
    body["stream"] = true.into();
    if request.parameters.stream_usage {
        body["stream_options"] = json!({"include_usage": true});
    }

    let response = post
        .json(&body)
        .send()
        .await
        .map_err(ProviderError::from_client)?;

    let status = response.status();
    let kind = response.headers().get(CONTENT_TYPE).cloned();
    let is_stream = kind
        .as_ref()
        .and_then(|kind| kind.to_str().ok())
        .is_some_and(|kind| kind.starts_with("text/event-stream"));

    if status.is_success() && is_stream {
        return read_events(response, request, listener).await;
    }

    let headers = response.headers().clone();
    let whole = read_whole(response).await?;
    if !status.is_success() {
        return Err(refusal(status, &headers, &whole));
    }

    let answer: Value = serde_json::from_slice(&whole)
        .map_err(|_| ProviderError::Unreadable("it is not JSON".to_owned()))?;
    let reply = read(&answer, request)?;
    listener.piece(&reply.text);
    Ok(reply)
}

async fn read_whole(mut response: Response) -> Result<Vec<u8>, ProviderError> {
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await.map_err(ProviderError::from_client)? {
        body.extend_from_slice(&bytes);
        check_size(body.len())?;
    }

    Ok(body)
}

fn check_size(bytes: usize) -> Result<(), ProviderError> {
    if bytes > MAX_BYTES {
        return Err(ProviderError::Unreadable("it is too large".to_owned()));
    }

    Ok(())
}

async fn read_events(
    mut response: Response,
    request: &Request<'_>,
    listener: &dyn Listener,
) -> Result<Reply, ProviderError> {
    let (mut lines, mut size) = (Vec::new(), 0);
    let mut partial = PartialReply::default();
    while !partial.over {
        let Some(bytes) = response.chunk().await.map_err(ProviderError::from_client)? else {
            break;
        };

        size += bytes.len();
        check_size(size)?;
        lines.extend_from_slice(&bytes);

        while let Some(end) = lines.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = lines.drain(..=end).collect();
            partial.add_line(&line, request, listener)?;
        }
    }

    partial.add_line(&lines, request, listener)?;
    if !partial.over && partial.finish.is_null() {
        return Err(ProviderError::Broken(
            "the connection broke before the response was complete".to_owned(),
        ));
    }

    read(&partial.answer(request), request)
}

/// What the events said so far.
#[derive(Default)]
struct PartialReply {
    text: String,
    arguments: Option<String>,
    refusal: String,
    finish: Value,
    usage: Value,
    model: Value,
    id: Value,
    over: bool,
}

impl PartialReply {
    fn add_line(
        &mut self,
        line: &[u8],
        request: &Request<'_>,
        listener: &dyn Listener,
    ) -> Result<(), ProviderError> {
        let line = String::from_utf8_lossy(line);
        let Some(data) = line.trim().strip_prefix("data:").map(str::trim) else {
            return Ok(());
        };

        if data == END {
            self.over = true;
            return Ok(());
        }

        let chunk: Value = serde_json::from_str(data)
            .map_err(|_| ProviderError::Unreadable("an event is not JSON".to_owned()))?;
        if !chunk["error"].is_null() {
            return Err(failure(&chunk, data));
        }

        self.add(&chunk, request, listener);
        Ok(())
    }

    fn add(&mut self, chunk: &Value, request: &Request<'_>, listener: &dyn Listener) {
        for (kept, name) in [
            (&mut self.usage, "usage"),
            (&mut self.model, "model"),
            (&mut self.id, "id"),
        ] {
            if !chunk[name].is_null() {
                kept.clone_from(&chunk[name]);
            }
        }

        let choice = &chunk["choices"][0];
        if !choice["finish_reason"].is_null() {
            self.finish.clone_from(&choice["finish_reason"]);
        }

        let delta = &choice["delta"];
        self.refusal
            .push_str(delta["refusal"].as_str().unwrap_or_default());
        let piece = delta["content"].as_str().unwrap_or_default();
        self.text.push_str(piece);
        if request.mode != Mode::Tool {
            listener.piece(piece);
        }

        // Only one tool is offered, so every call is a call of it.
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            if call["index"].as_i64().unwrap_or(0) > 0 {
                continue;
            }

            let piece = call["function"]["arguments"].as_str().unwrap_or_default();
            self.arguments.get_or_insert_default().push_str(piece);
            listener.piece(piece);
        }
    }

    /// What the events said, in the format of a response that is not streamed.
    fn answer(self, request: &Request<'_>) -> Value {
        let mut message = json!({"role": "assistant", "content": self.text});
        if !self.refusal.is_empty() {
            message["refusal"] = self.refusal.into();
        }

        if let Some(arguments) = self.arguments {
            let function = json!({"name": request.tool, "arguments": arguments});
            message["tool_calls"] = json!([{"type": "function", "function": function}]);
        }

        json!({
            "id": self.id, "model": self.model, "usage": self.usage,
            "choices": [{"message": message, "finish_reason": self.finish}],
        })
    }
}

/// An error in the middle of a stream, whose status was a success.
fn failure(chunk: &Value, data: &str) -> ProviderError {
    let code = chunk["error"]["code"]
        .as_u64()
        .and_then(|code| u16::try_from(code).ok())
        .filter(|code| (400..600).contains(code));

    ProviderError::Status {
        status: code.unwrap_or(500),
        message: message_of(data),
        codes: codes_of(data),
        retry_after: None,
        should_retry: None,
    }
}
