//! Care of the hierarchy: chunks and categories are moved, merged and removed by a person, and each
//! change can be undone.

mod as_of;
mod balancing;
mod balancing_kills;
mod changing;
mod dry_runs;
mod erasing;
mod filing;
mod limits;
mod reviewing;
mod undoing;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::{Reply, send};
use crate::support::database::TestDatabase;
use crate::support::ingest::{Ingest, count, document};

/// A service with two levels, and a model that files each chunk where its text says.
struct Setup {
    ingest: Ingest,
}

impl Setup {
    async fn on(database: TestDatabase) -> Self {
        Self::with(database, &[]).await
    }

    async fn with(database: TestDatabase, settings: &[(&str, &str)]) -> Self {
        let settings = [&[("TAXONOMY__HIERARCHY_DEPTH", "2")], settings].concat();
        let ingest = Ingest::on(database, &settings).await;
        Self { ingest }
    }

    /// Ingests a chunk for each path, one second after what was done before.
    async fn ingest_file(&self, file: &str, paths: &[&str]) -> Value {
        self.wait();
        let body = document(paths, &json!({"path": file}));
        self.ingest.succeed(&body).await
    }

    fn wait(&self) {
        self.ingest.app.clock.advance_seconds(1);
    }

    async fn tree(&self) -> String {
        self.tree_of("").await
    }

    async fn tree_of(&self, query: &str) -> String {
        let path = format!("/v1/categories/tree{query}");
        let reply = self.ingest.app.get(&path).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.text
    }

    /// The hierarchy as paths with the number of chunks, sorted.
    async fn paths(&self, query: &str) -> Vec<String> {
        let tree: Value = serde_json::from_str(&self.tree_of(query).await).unwrap();
        let items = tree["items"].as_array().unwrap();
        let name = |id: &Value| {
            let found = items.iter().find(|item| item["id"] == *id);
            found.map_or("?", |item| item["name"].as_str().unwrap())
        };
        let mut paths: Vec<String> = items
            .iter()
            .filter(|item| item["level"] == 2)
            .map(|item| {
                let parent = name(&item["parent_id"]);
                let own = item["name"].as_str().unwrap();
                format!("{parent}/{own} {}", item["chunk_count"])
            })
            .collect();
        paths.sort();
        paths
    }

    async fn id(&self, name: &str) -> i64 {
        let all = self.ingest.list("/v1/categories/tree").await;
        let found = all.iter().find(|category| category["name"] == name);
        found.unwrap_or_else(|| panic!("{name}: {all:?}"))["id"]
            .as_i64()
            .unwrap()
    }

    async fn merge(&self, from: i64, into: i64) -> Reply {
        let body = json!({"into": into});
        self.post(&format!("/v1/categories/{from}/merge"), &body)
            .await
    }

    async fn shift(&self, id: i64, parent_id: i64) -> Reply {
        let body = json!({"parent_id": parent_id});
        self.post(&format!("/v1/categories/{id}/move"), &body).await
    }

    async fn post(&self, path: &str, body: &Value) -> Reply {
        self.wait();
        self.ingest.app.post(path, body).await
    }

    async fn rename(&self, id: i64, name: &str) -> Reply {
        let path = format!("/v1/categories/{id}");
        self.send(Method::PATCH, &path, &json!({"name": name}))
            .await
    }

    async fn move_chunk(&self, id: i64, leaf: i64) -> Reply {
        let path = format!("/v1/chunks/{id}");
        self.send(Method::PATCH, &path, &json!({"category_id": leaf}))
            .await
    }

    async fn remove(&self, id: i64, query: &str) -> Reply {
        let path = format!("/v1/categories/{id}{query}");
        self.send(Method::DELETE, &path, &Value::Null).await
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Reply {
        self.wait();
        let request = self.ingest.app.request(method, path);
        let request = if body.is_null() {
            request
        } else {
            request.json(body)
        };
        send(request).await
    }

    async fn undo(&self, change: i64) -> Reply {
        let path = format!("/v1/categories/changes/{change}/undo");
        self.send(Method::POST, &path, &Value::Null).await
    }

    /// The changes, newest first.
    async fn changes(&self) -> Vec<Value> {
        self.ingest.list("/v1/categories/changes").await
    }

    /// Counts agree with chunks, and nothing is in a closed category.
    async fn assert_sound(&self) {
        let engine = self.ingest.app.database.engine;
        for sql in [
            "SELECT COUNT(*) FROM categories k WHERE k.chunk_count <> (SELECT COUNT(*) FROM chunks c \
             JOIN sources s ON s.id = c.source_id AND s.content_version_id = c.version_id \
             JOIN categories leaf ON leaf.id = c.category_id WHERE leaf.id = k.id OR leaf.parent_id = k.id)",
            "SELECT COUNT(*) FROM chunks c JOIN categories k ON k.id = c.category_id \
             WHERE k.closed_at IS NOT NULL OR k.level <> 2",
            "SELECT COUNT(*) FROM categories k JOIN categories p ON p.id = k.parent_id \
             WHERE k.closed_at IS NULL AND p.closed_at IS NOT NULL",
            "SELECT COUNT(*) FROM chunks c JOIN chunk_placements p ON p.chunk_id = c.id \
             WHERE p.until_at = 9223372036854775807 AND p.category_id <> c.category_id",
        ] {
            let wrong = count(&self.ingest.app.database, sql).await;
            assert_eq!(wrong, 0, "{engine:?}: {sql}");
        }
    }

    /// The ids of a source's chunks, in order.
    async fn chunks(&self, job: &Value) -> Vec<i64> {
        let chunks = self.ingest.chunks(job).await;
        let ids = chunks.iter().map(|chunk| chunk["chunk_id"].as_i64());
        ids.map(Option::unwrap).collect()
    }
}

#[track_caller]
fn assert_done(reply: &Reply) -> Value {
    assert_eq!(reply.status.as_u16(), 200, "{}", reply.text);
    reply.json()
}
