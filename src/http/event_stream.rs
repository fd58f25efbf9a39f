//! Responses that are sent while their work is done, as server-sent events.
//!
//! The body of the response drives the work: if the client disconnects, the body is dropped, and
//! with it the work and its model calls.

use std::convert::Infallible;
use std::time::Duration;

use axum::http::{HeaderMap, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::future::BoxFuture;
use futures_util::stream;
use serde::Serialize;
use tokio::sync::mpsc::UnboundedReceiver;

use super::error::ApiError;

/// Periodic comments keep proxies from closing an idle connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Whether the client asks for events.
pub fn is_wanted(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|accept| accept.to_str().ok())
        .flat_map(|accept| accept.split(','))
        .any(|kind| kind.trim().starts_with("text/event-stream"))
}

/// An event with this name and this data.
pub fn event(name: &str, data: &impl Serialize) -> Event {
    let data = serde_json::to_string(data).unwrap_or_default();
    Event::default().event(name).data(data)
}

/// The last event of work that failed: the problem document that a response without events would
/// be.
pub fn problem(error: &ApiError, request_id: &str) -> Event {
    if let Some(cause) = error.cause.as_deref() {
        let code = error.kind.code;
        tracing::error!(request_id, code, cause, "request failed");
    }

    event("problem", &error.problem(request_id))
}

/// Work in progress.
struct Live<T> {
    first: Option<Event>,
    steps: UnboundedReceiver<T>,
    show: fn(T) -> Event,
    work: Option<BoxFuture<'static, Event>>,
    last: Option<Event>,
}

/// Sends the first event at once, every step of the work when it happens, and last what the work
/// returns.
pub fn respond<T: Send + 'static>(
    first: Option<Event>,
    steps: UnboundedReceiver<T>,
    show: fn(T) -> Event,
    work: BoxFuture<'static, Event>,
) -> Response {
    let live = Live {
        first,
        steps,
        show,
        work: Some(work),
        last: None,
    };

    let events = stream::unfold(live, |mut live| async move {
        let event = live.next().await?;
        Some((Ok::<_, Infallible>(event), live))
    });
    Sse::new(events)
        .keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
        .into_response()
}

impl<T> Live<T> {
    async fn next(&mut self) -> Option<Event> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }

        if let Some(work) = &mut self.work {
            let ended = tokio::select! {
                biased;
                Some(step) = self.steps.recv() => return Some((self.show)(step)),
                last = work => last,
            };
            self.work = None;
            self.last = Some(ended);
        }

        // The last steps were told while the work returned.
        match self.steps.try_recv() {
            Ok(step) => Some((self.show)(step)),
            Err(_) => self.last.take(),
        }
    }
}
