//! Reads server-sent events.

use std::time::Duration;

use reqwest::{RequestBuilder, Response};
use serde_json::Value;

/// An event: its name and its data.
pub type SentEvent = (String, Value);

/// A stream of events.
pub struct EventReader {
    response: Response,
    rest: String,
}

impl EventReader {
    /// Sends the request; the response must be a stream.
    pub async fn open(request: RequestBuilder) -> Self {
        let request = request.header("accept", "text/event-stream");
        let response = request.send().await.unwrap();
        let kind = response.headers()["content-type"]
            .to_str()
            .unwrap()
            .to_owned();
        let status = response.status();
        assert!(kind.starts_with("text/event-stream"), "{status} {kind}");

        Self {
            response,
            rest: String::new(),
        }
    }

    /// The next event; none at the end.
    pub async fn next(&mut self) -> Option<SentEvent> {
        loop {
            if let Some((event, rest)) = self.rest.split_once("\n\n") {
                let field = |name: &str| {
                    let line = event.lines().find_map(|line| line.strip_prefix(name));
                    line.map(str::trim).unwrap_or_default().to_owned()
                };
                let (name, data) = (field("event:"), field("data:"));
                let read = self.rest.len() - rest.len();
                self.rest.drain(..read);
                if name.is_empty() {
                    continue;
                }
                return Some((name, serde_json::from_str(&data).unwrap()));
            }

            let next = tokio::time::timeout(Duration::from_mins(1), self.response.chunk());
            let bytes = next.await.unwrap().unwrap()?;
            self.rest.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }

    /// All events up to the end.
    pub async fn all(mut self) -> Vec<SentEvent> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }

        events
    }
}

/// The data of the events with this name.
pub fn named<'a>(events: &'a [SentEvent], name: &str) -> Vec<&'a Value> {
    events
        .iter()
        .filter(|(given, _)| given == name)
        .map(|(_, data)| data)
        .collect()
}

/// The texts of the events with this name, joined.
pub fn text_of(events: &[SentEvent], name: &str) -> String {
    let texts = named(events, name);
    texts
        .iter()
        .map(|data| data["text"].as_str().unwrap())
        .collect()
}
