//! OpenAI's protocol with memory: what is forwarded, what passes back, and what is stored.

mod errors;
mod forwarding;
mod kills;
mod remembering;
mod storing;
mod streaming;

use memoir::scripted_model::{Fault, Reply as ModelReply, Seen};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::conversation::Desk;
use crate::support::app::{Reply, send};
use crate::support::database::TestDatabase;

/// What memoir itself asks goes to the embedded model, so the scripted one sees only what is
/// forwarded.
const SETTINGS: [(&str, &str); 1] = [("LLM__MODEL", "local:embedded")];
const MODEL: &str = "stub:gpt-4o-mini";

struct Talk {
    desk: Desk,
}

impl Talk {
    async fn open() -> Self {
        Self::on(TestDatabase::sqlite(), &[]).await
    }

    async fn on(database: TestDatabase, settings: &[(&str, &str)]) -> Self {
        let settings = [&SETTINGS, settings].concat();
        let desk = Desk::on(database, &settings).await;
        desk.model.set_rule(reply);
        Self { desk }
    }

    fn post(&self, path: &str, thread: &str, body: &Value) -> RequestBuilder {
        let request = self.desk.app.request(Method::POST, path).json(body);
        let request = request.header("authorization", "Bearer a-key-of-the-client");
        if thread.is_empty() {
            return request;
        }
        request
            .header("X-Memoir-Thread", thread)
            .header("X-Memoir-User", "ann")
    }

    async fn chat(&self, thread: &str, messages: &[Value]) -> Reply {
        let body = json!({"model": MODEL, "messages": messages});
        let reply = send(self.post("/openai/v1/chat/completions", thread, &body)).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply
    }

    /// The messages that the last forwarded request had.
    fn forwarded(&self) -> Vec<Value> {
        let all = self.desk.model.requests();
        all.last().unwrap().body["messages"]
            .as_array()
            .unwrap()
            .clone()
    }

    /// The messages that are stored in a thread of a user, oldest first.
    async fn stored(&self, thread: &str) -> Vec<Value> {
        let path = format!("/v1/threads?user_id=ann&external_id={thread}");
        let threads = self.desk.app.get(&path).await.json();
        let Some(id) = threads["items"][0]["id"].as_str() else {
            return Vec::new();
        };
        let path = format!("/v1/threads/{id}/messages?limit=500");
        let messages = self.desk.app.get(&path).await.json();
        messages["items"].as_array().unwrap().clone()
    }

    /// Waits until a thread has so many messages.
    async fn stored_at_least(&self, thread: &str, count: usize) -> Vec<Value> {
        loop {
            let messages = self.stored(thread).await;
            if messages.len() >= count {
                return messages;
            }
            tokio::task::yield_now().await;
        }
    }
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

/// Calls a tool if one is offered and was not called yet; otherwise repeats what the user said.
fn reply(seen: &Seen) -> ModelReply {
    let messages = seen.body["messages"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let last = messages.last().cloned().unwrap_or_default();
    let offered = seen.body["tools"].is_array();
    if offered && last["role"] == "user" {
        return ModelReply::json(json!({"city": "Bergen"}));
    }

    let said = messages
        .iter()
        .rev()
        .find(|message| message["role"] == "user");
    let said = said
        .and_then(|message| message["content"].as_str())
        .unwrap_or_default();
    let said = said.rsplit("\n\n").next().unwrap_or_default();
    let answer = ModelReply::text(format!("You said: {said}"));
    if offered {
        answer.with_fault(Fault::NoToolCall)
    } else {
        answer
    }
}
