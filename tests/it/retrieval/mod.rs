//! Sources through time: one version for a description and a moment, the manifest, differences,
//! `as_of` everywhere.

mod choosing;
mod command;
mod describing;
mod filtering;
mod manifest;
mod time;

use memoir::model::source_version::VersionFacts;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::{Reply, TestApp, send};
use crate::support::database::TestDatabase;

/// An application with the embedded model and a clock that every request can set.
pub struct Setup {
    pub app: TestApp,
}

impl Setup {
    /// One on every engine.
    pub async fn each() -> Vec<Self> {
        let mut all = Vec::new();
        for database in TestDatabase::each().await {
            all.push(Self::on(database).await);
        }

        all
    }

    pub async fn on(database: TestDatabase) -> Self {
        Self {
            app: TestApp::on(database, &[("TESTING__CLOCK_HEADER", "true")]).await,
        }
    }

    /// Brings a text in at a moment (`10:30`, on a day of 2025); gives the id of its source.
    pub async fn put_at(&self, at: &str, body: Value) -> String {
        let request = self
            .app
            .request(Method::POST, "/v1/ingestions")
            .header("x-memoir-now", moment(at));

        let mut body = body;
        body["wait"] = json!(true);
        let reply = send(request.json(&body)).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let job = reply.json();

        assert_eq!(job["state"], "succeeded", "{job:#}");
        job["source_id"].as_str().unwrap().to_owned()
    }

    /// The same for a file of the default user, at its path.
    pub async fn file_at(&self, at: &str, path: &str, text: &str) -> String {
        self.put_at(at, json!({"path": path, "text": text})).await
    }

    pub async fn retrieve(&self, body: &Value) -> Reply {
        self.app.post("/v1/documents/retrieve", body).await
    }

    /// The source, which must be there.
    #[track_caller]
    pub fn found(reply: &Reply) -> Value {
        assert_eq!(reply.status.as_u16(), 200, "{}", reply.text);
        reply.json()
    }

    pub async fn find(&self, body: Value) -> Value {
        Self::found(&self.retrieve(&body).await)
    }

    /// The text of the source that is found.
    pub async fn text(&self, body: Value) -> String {
        self.find(body).await["content"]
            .as_str()
            .unwrap()
            .to_owned()
    }
}

/// What is known of a version that is written past the models.
pub fn facts(content: &str) -> VersionFacts {
    VersionFacts {
        sha256: String::new(),
        settings_key: String::new(),
        size_bytes: 1,
        mtime: None,
        char_count: i64::try_from(content.len()).unwrap(),
        token_count: 1,
        provider: None,
        topic: None,
        note: None,
        metadata: Value::Null,
        job_id: None,
    }
}

/// A moment of 2025-12-04, in UTC.
pub fn moment(at: &str) -> String {
    format!("2025-12-04T{at}:00Z")
}

/// The values of one field over a list.
pub fn each(list: &Value, field: &str) -> Vec<Value> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|item| item[field].clone())
        .collect()
}
