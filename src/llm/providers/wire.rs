//! How requests and replies go over the wire in every protocol: the status is read before the body,
//! the body has a limit, and a stream is read event by event.

use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::Value;

use super::super::error_body::{codes_of, message_of};
use super::super::provider::Rejection;
use super::super::provider_error::ProviderError;
use super::super::retry_after::retry_after;
use crate::base::clock::{Clock as _, SystemClock};

/// Maximum bytes of a reply.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// The data of the last event, in OpenAI's protocol and its relatives.
const END: &str = "[DONE]";

/// Sends a request, and reads its reply as a whole.
pub(super) async fn send(post: RequestBuilder, body: &Value) -> Result<Value, ProviderError> {
    read_whole(respond(post, body).await?).await
}

/// What a server sends when a stream was requested.
pub(super) enum Streamed {
    Events(Events),
    Whole(Value),
}

/// Sends a request for a stream.
pub(super) async fn open(post: RequestBuilder, body: &Value) -> Result<Streamed, ProviderError> {
    let response = respond(post, body).await?;
    let is_stream = response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .is_some_and(|kind| kind.starts_with("text/event-stream"));

    if is_stream {
        return Ok(Streamed::Events(Events::of(response)));
    }

    read_whole(response).await.map(Streamed::Whole)
}

/// The response, if its status is a success.
async fn respond(post: RequestBuilder, body: &Value) -> Result<Response, ProviderError> {
    let mut response = post
        .json(body)
        .send()
        .await
        .map_err(ProviderError::from_client)?;

    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }

    let headers = std::mem::take(response.headers_mut());
    let body = read_bytes(response).await?;
    Err(refusal(status, &headers, &body))
}

/// Sends a body as it is; the response, if its status is a success.
pub(super) async fn forward(post: RequestBuilder, body: Vec<u8>) -> Result<Response, Rejection> {
    let unanswered = |error| Rejection { error, body: None };
    let sent = post
        .header(CONTENT_TYPE, "application/json")
        .body(body)
        .send();
    let sent = sent.await.map_err(ProviderError::from_client);
    let mut response = sent.map_err(unanswered)?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }

    let headers = std::mem::take(response.headers_mut());
    let body = read_bytes(response).await.map_err(unanswered)?;
    Err(Rejection {
        error: refusal(status, &headers, &body),
        body: String::from_utf8(body).ok(),
    })
}

async fn read_whole(response: Response) -> Result<Value, ProviderError> {
    let body = read_bytes(response).await?;

    // The parser's error quotes the body, which may quote the prompt.
    serde_json::from_slice(&body)
        .map_err(|_| ProviderError::Unreadable("it is not JSON".to_owned()))
}

async fn read_bytes(mut response: Response) -> Result<Vec<u8>, ProviderError> {
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

/// The events of a stream.
pub(super) struct Events {
    response: Response,
    /// What arrived and was not read yet.
    bytes: Vec<u8>,
    /// How much of it is known to contain no line break.
    searched: usize,
    received: usize,
    closed: bool,
    over: bool,
}

impl Events {
    fn of(response: Response) -> Self {
        Self {
            response,
            bytes: Vec::new(),
            searched: 0,
            received: 0,
            closed: false,
            over: false,
        }
    }

    /// Whether the stream said that nothing follows.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// The data of the next event; `None` after the last one.
    pub async fn next(&mut self) -> Result<Option<Value>, ProviderError> {
        while let Some(line) = self.next_line().await? {
            let line = String::from_utf8_lossy(&line);
            let Some(data) = line.trim().strip_prefix("data:").map(str::trim) else {
                continue;
            };

            if data == END {
                self.over = true;
                return Ok(None);
            }

            let event: Value = serde_json::from_str(data)
                .map_err(|_| ProviderError::Unreadable("an event is not JSON".to_owned()))?;
            if !event["error"].is_null() {
                return Err(failure(&event, data));
            }

            return Ok(Some(event));
        }

        Ok(None)
    }

    async fn next_line(&mut self) -> Result<Option<Vec<u8>>, ProviderError> {
        loop {
            let unsearched = &self.bytes[self.searched..];
            if let Some(found) = unsearched.iter().position(|byte| *byte == b'\n') {
                let end = self.searched + found;
                self.searched = 0;
                return Ok(Some(self.bytes.drain(..=end).collect()));
            }

            self.searched = self.bytes.len();
            if self.closed {
                self.searched = 0;
                let rest = std::mem::take(&mut self.bytes);
                return Ok((!rest.is_empty()).then_some(rest));
            }

            match self
                .response
                .chunk()
                .await
                .map_err(ProviderError::from_client)?
            {
                Some(bytes) => {
                    self.received += bytes.len();
                    check_size(self.received)?;
                    self.bytes.extend_from_slice(&bytes);
                }
                None => self.closed = true,
            }
        }
    }
}

/// The error in a response whose status is no success.
fn refusal(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> ProviderError {
    let text = String::from_utf8_lossy(body);
    let should_retry = headers
        .get("x-should-retry")
        .map(|value| value.as_bytes() == b"true");

    ProviderError::Status {
        status: status.as_u16(),
        message: message_of(&text),
        codes: codes_of(&text),
        retry_after: retry_after(headers, &text, SystemClock.now()),
        should_retry,
    }
}

/// An error in the middle of a stream, whose status was a success.
fn failure(event: &Value, data: &str) -> ProviderError {
    let code = event["error"]["code"]
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

/// A stream that ended too early.
pub(super) fn broken() -> ProviderError {
    ProviderError::Broken("the connection broke before the response was complete".to_owned())
}
