//! Search, on real databases, with the embedded model or a scripted one.

mod command;
mod embedding;
mod engines;
mod fields;
mod finding;
mod identifiers;
mod indexes;
mod memories;
mod pgvector;
mod reindexing;
mod unrelated;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::{Reply, TestApp, send};
use crate::support::database::TestDatabase;

/// An application with search.
pub struct Setup {
    pub app: TestApp,
}

impl Setup {
    pub async fn on(database: TestDatabase, settings: &[(&str, &str)]) -> Self {
        Self {
            app: TestApp::on(database, settings).await,
        }
    }

    /// Ingests a text for search only and returns the id of its source.
    pub async fn bring(&self, path: &str, text: &str) -> String {
        self.bring_as(json!({"path": path, "text": text})).await
    }

    /// Ingests a text with more fields and returns the id of its source.
    pub async fn bring_as(&self, mut body: Value) -> String {
        body["wait"] = true.into();
        if body["options"].is_null() {
            body["options"] = json!({"indexes": ["semantic"]});
        }

        let reply = self.app.post("/v1/ingestions", &body).await;
        assert_eq!(reply.json()["state"], "succeeded", "{}", reply.text);
        reply.json()["result"]["source_id"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    pub async fn ask(&self, body: &Value) -> Reply {
        self.app.post("/v1/search", body).await
    }

    /// Searches, and expects success.
    pub async fn search(&self, body: Value) -> Value {
        let reply = self.ask(&body).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.json()
    }

    /// The paths of the results.
    pub async fn paths(&self, body: Value) -> Vec<String> {
        each(&self.search(body).await, "path")
    }

    pub async fn change(&self, id: &str, change: &Value) {
        let reply = send(
            self.app
                .request(Method::PATCH, &format!("/v1/sources/{id}"))
                .json(change),
        )
        .await;
        assert_eq!(reply.status, 200, "{}", reply.text);
    }

    pub async fn remove(&self, id: &str) {
        let reply = send(
            self.app
                .request(Method::DELETE, &format!("/v1/sources/{id}")),
        )
        .await;
        assert_eq!(reply.status, 200, "{}", reply.text);
    }
}

/// One field of every item.
pub fn each(found: &Value, field: &str) -> Vec<String> {
    let items = found["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| {
            item[field]
                .as_str()
                .map_or_else(|| item[field].to_string(), str::to_owned)
        })
        .collect()
}
