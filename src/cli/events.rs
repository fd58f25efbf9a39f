//! Reads a response that is sent as server-sent events.

use anyhow::{Context as _, bail};
use reqwest::Method;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use serde_json::Value;

use super::client::{Client, Refused};

/// Posts a request, hands every event to `step`, and returns the data of the last one, `result`.
pub async fn follow(
    client: &Client,
    path: &str,
    body: &Value,
    mut step: impl FnMut(&str, &Value),
) -> anyhow::Result<Value> {
    let request = client
        .request(Method::POST, path)
        .header(ACCEPT, "text/event-stream, application/json")
        .json(body);
    let mut reply = client.begin(request).await?;
    let kind = reply.headers().get(CONTENT_TYPE);
    let is_stream = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    if !is_stream || !reply.status().is_success() {
        return client.read(reply).await;
    }

    let (mut rest, mut name) = (Vec::new(), String::new());
    while let Some(bytes) = reply.chunk().await.context("the response ended early")? {
        rest.extend_from_slice(&bytes);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end();
            if let Some(given) = line.strip_prefix("event:") {
                given.trim().clone_into(&mut name);
            }

            let Some(data) = line.strip_prefix("data:") else {
                continue;
            };
            let data: Value = serde_json::from_str(data.trim()).unwrap_or_default();
            match name.as_str() {
                "result" => return Ok(data),
                "problem" => match Refused::of(data) {
                    Some(refused) => return Err(refused.into()),
                    None => bail!("the service failed without a problem document"),
                },
                name => step(name, &data),
            }
        }
    }

    bail!("the response ended early; the service may have been stopped")
}
