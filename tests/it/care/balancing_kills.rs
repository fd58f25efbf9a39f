//! `kill -9` while the hierarchy is balanced: each correction is whole, and the job goes on.

use std::time::Duration;

use memoir::scripted_model::ScriptedModel;
use serde_json::{Value, json};

use crate::support::binary::Binary;
use crate::support::client::client;
use crate::support::database::TestDatabase;
use crate::support::ingest::{chunk, count, request};
use crate::support::library::Library;
use crate::support::probes::Api;

/// Each fail point, and the hit at which the process dies.
const FAIL_POINTS: [&str; 3] = [
    "after_planned_correction:2",
    "in_correction:2",
    "after_correction:1",
];

fn memoir(database: &TestDatabase, model: &ScriptedModel) -> Binary {
    Binary::new()
        .env("DATABASE_URL", &database.url)
        .env("MEMOIR__LLM__PROVIDERS__STUB__KIND", "openai")
        .env("MEMOIR__LLM__PROVIDERS__STUB__API_KEY", "sk-test")
        .env(
            "MEMOIR__LLM__PROVIDERS__STUB__BASE_URL",
            &model.openai_url(),
        )
        .env("MEMOIR__LLM__MODEL", "stub:m")
        .env("MEMOIR__TAXONOMY__HIERARCHY_DEPTH", "2")
        .env("MEMOIR__TAXONOMY__LEAF_TARGET", "8")
        .env("MEMOIR__TAXONOMY__AUTO_CARE", "always")
        .env("MEMOIR__JOBS__LEASE_SECONDS", "1")
        .env("MEMOIR__SERVER__SHUTDOWN_GRACE", "0")
}

/// Leaves that are too large.
async fn fill(database: &TestDatabase, name: &str) {
    let library = Library::at(&database.url).await;
    for leaf in ["One", "Two", "Three"] {
        let leaf = format!("{leaf} {name}");
        for source in 0..2 {
            let texts: Vec<String> = (0..10)
                .map(|at| format!("The boiler of flat {at} was repaired, said neighbour {source}."))
                .collect();
            let path = ["Home", leaf.as_str()];
            let chunks: Vec<(&[&str], &str)> = texts
                .iter()
                .map(|text| (&path[..], text.as_str()))
                .collect();
            library.add(&format!("/{leaf}/{source}.txt"), &chunks).await;
        }
    }
    library.store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_while_balancing_leave_whole_changes() {
    let model = ScriptedModel::local().await.unwrap();
    for database in TestDatabase::each().await {
        let engine = database.engine;
        memoir(&database, &model).serve().signal_and_wait("TERM");
        for point in FAIL_POINTS {
            fill(&database, &point.replace(':', " ")).await;
            let dying = memoir(&database, &model).env("MEMOIR__TESTING__FAIL_POINT", point);
            let running = dying.serve_or_die();
            let text = chunk(&format!("Home/One {}", point.replace(':', " ")), 1);
            let body = request(&text, &json!({}));
            let url = format!("http://{}/v1/ingestions", running.address);
            // The process may have died before, when it continued the job of the one before it.
            if let Ok(reply) = client().post(url).json(&body).send().await {
                assert_eq!(reply.status(), 202, "{engine:?} {point}");
            }
            assert_eq!(running.wait(), None, "{engine:?} {point}: {}", dying.log());
        }

        let running = memoir(&database, &model).serve();
        let api = Api::at(running.address);
        let jobs = loop {
            let jobs = api.get("default", "/v1/jobs?limit=100").await;
            let jobs = jobs["items"].as_array().unwrap().clone();
            if jobs.iter().all(|job| job["state"] == "succeeded") {
                break jobs;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };

        let jobs = jobs.iter().filter(|job| job["kind"] == "balance");
        let splits: i64 = jobs
            .map(|job: &Value| job["result"]["splits"].as_i64().unwrap())
            .sum();
        for (sql, wanted) in [
            (
                "SELECT COUNT(*) FROM categories WHERE level = 2 AND chunk_count > 16",
                0,
            ),
            (
                "SELECT COUNT(*) FROM category_changes WHERE kind = 'split'",
                splits,
            ),
            (
                "SELECT COUNT(*) FROM categories k WHERE k.level = 2 AND k.chunk_count <> \
              (SELECT COUNT(*) FROM chunks c WHERE c.category_id = k.id)",
                0,
            ),
        ] {
            let found = count(&database, sql).await;
            assert_eq!(found, wanted, "{engine:?} {sql}");
        }
    }
}
