//! Texts of one source become versions in the order in which they were sent, even if the clocks of
//! the hosts differ.

use std::sync::Arc;

use memoir::scripted_model::ScriptedModel;
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::binary::{Binary, Running};
use crate::support::client::client;
use crate::support::database::TestDatabase;
use crate::support::ingest::{chunk, request};
use crate::support::probes::Api;

const ROUNDS: usize = 10;

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
}

fn text(round: usize, what: &str) -> Value {
    let text = format!("{what} {}", chunk("A/B/C", round));
    request(
        &text,
        &json!({"path": format!("/notes/{round}.txt"), "options": {"indexes": ["taxonomy"]}}),
    )
}

async fn send(running: &Running, body: &Value) -> Value {
    let reply = client()
        .post(format!("http://{}/v1/ingestions", running.address))
        .json(body)
        .send()
        .await
        .unwrap();

    assert_eq!(reply.status(), 202);
    reply.json().await.unwrap()
}

/// One host, whose clock is two seconds ahead, receives the old text; the other receives the new
/// one right after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_host_with_a_fast_clock_does_not_reorder_versions() {
    for database in TestDatabase::each().await {
        let model = ScriptedModel::local().await.unwrap();
        let ahead = memoir(&database, &model).env("MEMOIR__TESTING__CLOCK_AHEAD_MS", "2000");
        let ahead = ahead.env("MEMOIR__JOBS__WORKERS", "0");
        let right = memoir(&database, &model).env("MEMOIR__JOBS__WORKERS", "0");
        let (fast, slow) = (ahead.serve(), right.serve());
        let mut jobs = Vec::new();

        for round in 0..ROUNDS {
            let old = send(&fast, &text(round, "OLD")).await;
            let new = send(&slow, &text(round, "NEW")).await;
            let made = |job: &Value| job["id"].as_str().unwrap()[..13].to_owned();
            assert!(
                made(&old) > made(&new),
                "the ids do not show the skew that is tested: {old} {new}"
            );

            jobs.extend([old, new]);
        }

        let worker = memoir(&database, &model);
        let working = worker.start(&["worker"]);
        let api = Api::at(slow.address);
        for job in &jobs {
            let job = api.finished("default", job["id"].as_str().unwrap()).await;
            assert_eq!(job["state"], "succeeded", "{job}");
        }

        let mut reversed = 0;
        for job in jobs.iter().skip(1).step_by(2) {
            let source = job["source_id"].as_str().unwrap();
            let latest =
                api.get("default", &format!("/v1/sources/{source}")).await["latest_version"]
                    .clone();
            let place = format!(
                "http://{}/v1/sources/{source}/versions/{latest}/content",
                slow.address
            );

            let latest = client()
                .get(place)
                .send()
                .await
                .unwrap()
                .text()
                .await
                .unwrap();

            assert!(latest.contains("OLD") || latest.contains("NEW"), "{latest}");
            reversed += usize::from(latest.contains("OLD"));
            let versions = api
                .get("default", &format!("/v1/sources/{source}/versions"))
                .await;
            let times: Vec<&str> = versions["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(at)
                .collect();

            assert!(times.len() == 2 && times[0] > times[1], "{times:?}");
        }

        assert_eq!(
            reversed, 0,
            "{:?}: in {reversed} of {ROUNDS} the old text is the latest",
            database.engine
        );

        drop(working);
    }
}

/// Versions of one source, written by hosts with different clocks: each is later than the previous
/// one.
#[tokio::test]
async fn a_version_is_never_dated_before_its_predecessor() {
    for database in TestDatabase::each().await {
        let database = Arc::new(database);
        let settings = [("TESTING__CLOCK_HEADER", "true")];
        let ahead = TestApp::at(&database.url, Arc::clone(&database), &settings).await;
        ahead.clock.advance_seconds(2);
        let old = ingest(&ahead, &text(1, "OLD"), None).await;

        ahead.finish().await;

        let behind = TestApp::at(&database.url, Arc::clone(&database), &settings).await;
        let new = ingest(&behind, &text(1, "NEW"), None).await;
        assert_eq!(old, new, "one source");
        let versions = behind
            .get(&format!("/v1/sources/{new}/versions"))
            .await
            .json();

        let times: Vec<&str> = versions["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(at)
            .collect();

        assert_eq!(
            times,
            ["2026-01-31T12:00:02.000001Z", "2026-01-31T12:00:02.000000Z"],
            "{:?}",
            database.engine
        );

        // The source as of that time, and now.
        for (moment, wanted) in [
            ("2026-01-31T12:00:02Z", "OLD"),
            ("2026-01-31T12:00:03Z", "NEW"),
        ] {
            let then = behind
                .get(&format!("/v1/sources/{new}/chunks?as_of={moment}"))
                .await
                .json();
            assert!(
                then["items"][0]["text_content"]
                    .as_str()
                    .unwrap()
                    .starts_with(wanted),
                "{moment}: {then}"
            );
        }

        // The time in a request is used as given.
        ingest(&behind, &text(1, "NAMED"), Some("2026-01-31T11:00:00Z")).await;
        let versions = behind
            .get(&format!("/v1/sources/{new}/versions"))
            .await
            .json();

        assert_eq!(at(&versions["items"][0]), "2026-01-31T11:00:00.000000Z");
        behind.finish().await;
    }
}

fn at(version: &Value) -> &str {
    version["ingested_at"].as_str().unwrap()
}

/// Ingests a text and returns its source.
async fn ingest(app: &TestApp, body: &Value, now: Option<&str>) -> String {
    let mut sent = app
        .request(reqwest::Method::POST, "/v1/ingestions")
        .json(body);
    if let Some(now) = now {
        sent = sent.header("x-memoir-now", now);
    }

    let reply = crate::support::app::send(sent).await;
    assert_eq!(reply.status, 202, "{}", reply.text);
    let job = Api::at(app.address)
        .finished("default", reply.json()["id"].as_str().unwrap())
        .await;
    assert_eq!(job["state"], "succeeded", "{job}");

    job["source_id"].as_str().unwrap().to_owned()
}
