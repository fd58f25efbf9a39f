//! Databases written by earlier builds, in `tests/data/databases`: one folder per build, with a file
//! for each engine and what that build answered about it. Every later build must open them, answer
//! the same, and continue their work.
//!
//! `scripts/lib/write-databases NAME` adds a folder.

mod content;
mod opening;
mod stored;
mod writing;

use reqwest::{Method, RequestBuilder};
use serde_json::Value;

use crate::support::app::{TestApp, send};

/// The key that opens every space.
const ROOT: &str = "root-key-of-the-stored-databases";
const KEYS: &str = r#"[{"name": "root", "key": "root-key-of-the-stored-databases", "space": "*", "role": "admin"}]"#;

/// The settings with which these databases are written and opened: the embedded model, and a
/// scripted one that classifies messages.
const SETTINGS: [(&str, &str); 3] = [
    ("AUTH__KEYS", KEYS),
    ("LLM__MODEL", "local:embedded"),
    ("LLM__MODELS__ENRICH", "openai_stub:m"),
];

/// Fields whose values no later build may change. Others may be renamed, added or computed in
/// another way, but what a user stored, and what identifies it, stays.
const STABLE: [&str; 26] = [
    "alias",
    "author",
    "char_count",
    "content",
    "created_at",
    "date",
    "filename",
    "finished_at",
    "hard_rules",
    "id",
    "ingested_at",
    "kind",
    "latest_version",
    "name",
    "path",
    "project_memory",
    "query",
    "role",
    "sha256",
    "state",
    "term",
    "text",
    "thread_id",
    "title",
    "user_id",
    "version",
];

/// The fields of an answer that no later build may change, and the lists and objects around them.
fn stable(answer: &Value) -> Value {
    match answer {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, value)| {
                value.is_object() || value.is_array() || STABLE.contains(&name.as_str())
            });
            let kept = kept.map(|(name, value)| (name.clone(), stable(value)));
            Value::Object(kept.filter(|(_, value)| !is_empty(value)).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(stable).collect()),
        other => other.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(serde_json::Map::is_empty)
        || value.as_array().is_some_and(Vec::is_empty)
}

/// Requests to one space, with the key that opens all spaces.
#[derive(Clone, Copy)]
struct Caller<'a> {
    app: &'a TestApp,
    space: &'a str,
}

impl Caller<'_> {
    fn request(self, method: Method, path: &str) -> RequestBuilder {
        self.app
            .request(method, path)
            .bearer_auth(ROOT)
            .header("x-memoir-space", self.space)
    }

    async fn get(self, path: &str) -> Value {
        let reply = send(self.request(Method::GET, path)).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text);
        serde_json::from_str(&reply.text).unwrap_or(Value::String(reply.text))
    }

    async fn send(self, method: Method, path: &str, body: &Value) -> Value {
        let reply = send(self.request(method, path).json(body)).await;
        assert!(reply.status.is_success(), "{path}: {}", reply.text);
        serde_json::from_str(&reply.text).unwrap_or_default()
    }

    async fn post(self, path: &str, body: &Value) -> Value {
        self.send(Method::POST, path, body).await
    }

    async fn put(self, path: &str, body: &Value) -> Value {
        self.send(Method::PUT, path, body).await
    }

    async fn patch(self, path: &str, body: &Value) -> Value {
        self.send(Method::PATCH, path, body).await
    }

    /// The job once it needs nothing more from this process: it has ended, or waits for a helper.
    async fn settled(self, id: &str) -> Value {
        for _ in 0..12 {
            let job = self.get(&format!("/v1/jobs/{id}?wait=10")).await;
            if !["queued", "running"].contains(&job["state"].as_str().unwrap()) {
                return job;
            }
        }

        panic!("job {id} does not end");
    }
}

/// The text of a field.
fn text(value: &Value, field: &str) -> String {
    let text = value[field].as_str();
    text.unwrap_or_else(|| panic!("{field}: {value:#}"))
        .to_owned()
}
