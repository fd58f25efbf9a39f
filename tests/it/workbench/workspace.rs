//! The workspace: defaults, versions, conditions; and runs that do not exist.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::{Reply, TestApp, send};
use crate::support::database::TestDatabase;

const PATH: &str = "/v1/workspace";

async fn put(app: &TestApp, workspace: &Value) -> Reply {
    send(app.request(Method::PUT, PATH).json(workspace)).await
}

#[tokio::test]
async fn every_change_of_a_workspace_is_a_new_version() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[("WORKBENCH__THETA", "0.7")]).await;
        let first = app.get(PATH).await;
        let defaults = first.json();
        assert_eq!(
            defaults,
            json!({
                "version": 0, "created_at": null, "hard_rules": "", "project_memory": "",
                "agents": {"shape": true, "files": true, "memory": true, "retrieve": true,
                    "rerank": true, "nli": true, "condense": true, "audit": true},
                "settings": {"k": 4, "episodic_tokens": 800, "include_recent_history": true,
                    "top_k": 20, "theta": 0.7, "pack_tokens": 1500},
                "ceilings": {"tokens": 16000, "cost_usd": 0.5},
                "timeouts": {"retrieval_ms": 5000, "rerank_ms": 10000, "nli_ms": 20000,
                    "condense_ms": 30000},
            })
        );

        // What was read can be changed and sent back, once.
        let etag = first.headers["etag"].to_str().unwrap().to_owned();
        let mut changed = defaults.clone();
        changed["hard_rules"] = json!("Answer in English.\nNever guess.");
        let conditional = || {
            app.request(Method::PUT, PATH)
                .header("if-match", &etag)
                .json(&changed)
        };
        let stored = send(conditional()).await;
        assert_eq!(stored.status, 200, "{}", stored.text);
        assert_eq!(stored.json()["version"], 1);
        send(conditional())
            .await
            .assert_problem(412, "precondition_failed");

        let read = app.get(PATH).await;
        assert_eq!(
            read.json()["hard_rules"],
            "Answer in English.\nNever guess."
        );
        assert_eq!(read.headers["etag"], stored.headers["etag"]);
        let tag = read.headers["etag"].to_str().unwrap();
        let cached = app.request(Method::GET, PATH).header("if-none-match", tag);
        assert_eq!(send(cached).await.status, 304);

        // What is omitted gets its default again.
        let reply = put(&app, &json!({"settings": {"theta": 0.2}})).await.json();
        assert_eq!(
            (
                &reply["version"],
                &reply["hard_rules"],
                &reply["settings"]["theta"]
            ),
            (&json!(2), &json!(""), &json!(0.2))
        );

        let other = app
            .request(Method::GET, PATH)
            .header("x-memoir-space", "other");
        assert_eq!(send(other).await.json()["version"], 0);
        app.finish().await;
    }
}

#[tokio::test]
async fn writers_at_once_get_a_version_of_the_workspace_each() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        let writers = (1..=6).map(|k| {
            let app = &app;
            async move { put(app, &json!({"settings": {"k": k}})).await }
        });
        let replies = futures_util::future::join_all(writers).await;
        let mut given: Vec<i64> = replies
            .iter()
            .map(|reply| reply.json()["version"].as_i64().unwrap())
            .collect();
        given.sort_unstable();
        assert_eq!(given, (1..=6).collect::<Vec<_>>());
        app.finish().await;
    }
}

#[tokio::test]
async fn a_workspace_outside_its_limits_is_rejected_with_every_field() {
    let app = TestApp::spawn().await;
    let reply = put(
        &app,
        &json!({
            "settings": {"k": 0, "theta": 1.5}, "ceilings": {"tokens": 0, "cost_usd": -1},
            "timeouts": {"nli_ms": 0}
        }),
    )
    .await;
    reply.assert_problem(422, "invalid_request");
    let fields: Vec<String> = reply.json()["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| error["field"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        fields,
        [
            "settings.k",
            "settings.theta",
            "ceilings.tokens",
            "ceilings.cost_usd",
            "timeouts.nli_ms"
        ]
    );

    put(&app, &json!({"rules": "x"}))
        .await
        .assert_problem(422, "invalid_request");
    app.finish().await;
}

#[tokio::test]
async fn a_run_that_is_not_in_progress_is_not_found() {
    let app = TestApp::spawn().await;
    for id in ["0199a7e0-0000-7000-8000-000000000000", "nothing"] {
        let reply = app.post(&format!("/v1/runs/{id}/cancel"), &json!({})).await;
        reply.assert_problem(404, "not_found");
        let remedy = reply.json()["remediation"].as_str().unwrap().to_owned();
        assert!(remedy.contains("another process runs it"), "{remedy}");
    }
    app.finish().await;
}
