//! The database becomes unreachable under load: no job is lost, and none fails.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::binary::Binary;
use crate::support::client::client;
use crate::support::ingest::until;
use crate::support::postgres::Cluster;
use crate::support::probes::{Api, check_log};

#[tokio::test(flavor = "multi_thread")]
async fn restarts_of_postgresql_lose_and_fail_no_job() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let memoir = Binary::new()
        .env("DATABASE_URL", &cluster.url())
        .env("MEMOIR__TESTING__PROBE_JOBS", "true")
        .env("MEMOIR__TESTING__PROBE_LOG", log.to_str().unwrap())
        .env("MEMOIR__JOBS__WORKERS", "4")
        .env("MEMOIR__JOBS__LEASE_SECONDS", "10");

    let running = memoir.serve();
    let api = Api::at(running.address);
    let mut accepted = Vec::new();
    let mut ingestions = Vec::new();

    for (mode, away) in [
        ("fast", 0),
        ("immediate", 0),
        ("fast", 2500),
        ("immediate", 2500),
    ] {
        // A text with many chunks, so that its job is running when the database stops.
        let text = "The harbour lay still that morning, and nobody spoke of it. ".repeat(6000);
        let body = json!({"text": text, "options": {"batch_size": 1, "indexes": ["taxonomy"]}});
        let sent = client()
            .post(format!("http://{}/v1/ingestions", running.address))
            .json(&body)
            .send()
            .await
            .unwrap();
        let job: Value = sent.json().await.unwrap();
        ingestions.push(job["id"].as_str().unwrap().to_owned());
        let id = ingestions.last().unwrap();
        until("it is under way", async || {
            api.get("default", &format!("/v1/jobs/{id}")).await["phase"] == "classifying"
        })
        .await;
        for _ in 0..20 {
            accepted.push(
                api.queue(
                    "default",
                    &json!({"steps": 5, "step_ms": 20, "effect": true}),
                )
                .await
                .unwrap(),
            );
        }
        cluster.stop(mode);
        tokio::time::sleep(Duration::from_millis(away)).await;
        cluster.control("start");
    }

    let mut retries = 0;
    for id in &accepted {
        let job = api.finished("default", id).await;
        assert_eq!(
            (&job["state"], &job["attempt"]),
            (&json!("succeeded"), &json!(1)),
            "{job}"
        );

        assert_eq!(api.effects("default", id).await, 1);
        retries += job["db_retries"].as_i64().unwrap();
    }

    for id in &ingestions {
        let job = api.finished("default", id).await;
        assert_eq!(
            (&job["state"], &job["attempt"]),
            (&json!("succeeded"), &json!(1)),
            "{job}"
        );

        retries += job["db_retries"].as_i64().unwrap();
    }

    assert!(retries > 0, "database calls were retried");
    check_log(&log);
    assert_eq!(running.signal_and_wait("TERM"), Some(0));
    assert!(!memoir.log().contains("status=500"), "{}", memoir.log());
}
