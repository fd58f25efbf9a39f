//! One scenario on every database: the same JSON except for ids and times.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::three_by_three;
use crate::support::database::TestDatabase;
use crate::support::library::Desk;

/// Fields that are times, or depend on ids and times.
const TIMES: [&str; 6] = [
    "elapsed_ms",
    "total_latency",
    "timestamp",
    "request_id",
    "next_cursor",
    "result_sha256",
];

/// Replaces ids by the order in which they first appear, and removes times.
struct Mask(HashMap<String, String>);

impl Mask {
    fn apply(&mut self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.apply(item)),
            Value::Object(fields) => {
                for (name, field) in fields.iter_mut() {
                    if name.ends_with("latency_ms") || TIMES.contains(&name.as_str()) {
                        *field = Value::Null;
                    } else {
                        self.apply(field);
                    }
                }
            }
            Value::String(text) if text.len() == 36 && text.matches('-').count() == 4 => {
                let count = self.0.len();
                text.clone_from(
                    self.0
                        .entry(text.clone())
                        .or_insert_with(|| format!("id-{count}")),
                );
            }
            _ => {}
        }
    }
}

async fn story(desk: &Desk) -> Vec<Value> {
    three_by_three(desk).await;
    let source = desk.library.add_of(
        "ann",
        &["red"],
        "/ann.txt",
        &[
            (
                &["Plants", "Small", "New"],
                "Größe, 漢字 and '; DROP TABLE chunks;-- %_\\ 😀",
            ),
            (&["Plants", "Small", "Old"], "second"),
        ],
    );

    let source = source.await;
    desk.library.describe(&source, "Ann's notes.").await;
    let then = desk.library.now().to_string();
    desk.library
        .add_version(&source, 2, &[(&["Plants", "Small", "New"], "third")])
        .await;
    desk.library.category(&["Plants", "Small", "Bare"]).await;
    let mut told = Vec::new();

    for body in [
        json!({"query": "small new plants?"}),
        json!({"query": "small new plants?", "strategy": "zoom_in", "deterministic": true}),
        json!({"query": "small new plants?", "strategy": "branch_out", "max_token_budget": 300}),
        json!({"query": "small bare plants?"}),
        json!({"query": "everything", "strategy": "wide_branch", "version_scope": "all", "mode": "retrieve"}),
        json!({"query": "ann", "user_id": "ann", "strategy": "wide_branch"}),
        json!({"query": "ann", "tags": ["red"], "as_of": then}),
        json!({"query": "ann", "source_ids": [source.to_string()], "version_scope": "all", "as_of": then, "limit": 1}),
        json!({"query": "then", "as_of": then, "mode": "retrieve", "strategy": "wide_branch"}),
        json!({"query": "nobody", "user_id": "nobody"}),
    ] {
        let reply = desk.ask(body).await;
        let mut answer = reply.json();
        answer["status"] = reply.status.as_u16().into();
        if let Some(id) = answer["id"].as_str() {
            told.push(desk.app.get(&format!("/v1/queries/{id}")).await.json());
            let again = desk
                .app
                .post(&format!("/v1/queries/{id}/replay"), &json!({}))
                .await
                .json();

            assert_eq!(again["identical"], true, "{again}");
        }
        told.push(answer);
    }

    told.push(
        desk.app
            .post("/v1/queries/estimate", &json!({"query": "plants"}))
            .await
            .json(),
    );

    told.push(desk.app.get("/v1/queries?limit=3").await.json());
    told
}

#[tokio::test]
async fn every_database_gives_the_same_results() {
    let mut first: Option<String> = None;
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let desk = Desk::on(database, &[]).await;
        let mut told = Value::Array(story(&desk).await);
        Mask(HashMap::new()).apply(&mut told);
        let told = serde_json::to_string_pretty(&told).unwrap();

        match &first {
            None => first = Some(told),
            Some(first) => {
                let line = first
                    .lines()
                    .zip(told.lines())
                    .position(|(one, other)| one != other);

                let around = |text: &str, at: usize| {
                    text.lines()
                        .skip(at.saturating_sub(4))
                        .take(8)
                        .collect::<Vec<_>>()
                        .join("\n")
                };

                if let Some(at) = line {
                    panic!(
                        "{engine:?} differs:\n{}\ninstead of\n{}",
                        around(&told, at),
                        around(first, at)
                    );
                }

                assert_eq!(first.len(), told.len());
            }
        }

        desk.close().await;
    }
}
