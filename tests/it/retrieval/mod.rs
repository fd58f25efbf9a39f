//! Document retrieval: one version by metadata and time, the manifest, differences, `as_of`.

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
    /// One per engine.
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

    /// Ingests a text at a time (`10:30`, on a day in 2025) and returns the id of its source.
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

    /// Adds a file of the default user, by path.
    pub async fn file_at(&self, at: &str, path: &str, text: &str) -> String {
        self.put_at(at, json!({"path": path, "text": text})).await
    }

    pub async fn retrieve(&self, body: &Value) -> Reply {
        self.app.post("/v1/documents/retrieve", body).await
    }

    /// Retrieves a version, which must exist.
    #[track_caller]
    pub fn found(reply: &Reply) -> Value {
        assert_eq!(reply.status.as_u16(), 200, "{}", reply.text);
        reply.json()
    }

    pub async fn find(&self, body: Value) -> Value {
        Self::found(&self.retrieve(&body).await)
    }

    /// The text of the retrieved version.
    pub async fn text(&self, body: Value) -> String {
        self.find(body).await["content"]
            .as_str()
            .unwrap()
            .to_owned()
    }
}

/// The facts of a version that is written without models.
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

/// A time on 2025-12-04, in UTC.
pub fn moment(at: &str) -> String {
    format!("2025-12-04T{at}:00Z")
}

/// The values of one field in a list.
pub fn each(list: &Value, field: &str) -> Vec<Value> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|item| item[field].clone())
        .collect()
}
