//! Background work and what callers ask for: neither fills the queue of the other, nor keeps it
//! waiting.

use std::time::Duration;

use memoir::base::clock::Timestamp;
use memoir::store::Store;
use serde_json::{Value, json};

use crate::support::app::{Reply, TestApp, load};
use crate::support::database::TestDatabase;

/// Nothing runs, so that everything waits.
const WAITING: (&str, &str) = ("JOBS__WORKERS", "0");
const KINDS: &[&str] = &["ingestion", "enrich", "extract"];

async fn thread(app: &TestApp) -> String {
    let made = app.post("/v1/threads", &json!({"user_id": "ann"})).await;
    let id = made.json()["id"].as_str().unwrap().to_owned();
    format!("/v1/threads/{id}/messages")
}

async fn ingest(app: &TestApp, number: usize) -> Reply {
    let text = json!({"text": format!("Text {number}."), "title": format!("T{number}")});
    app.post("/v1/ingestions", &text).await
}

async fn change(app: &TestApp, id: &Value, how: &str) -> Reply {
    let path = format!("/v1/jobs/{}/{how}", id.as_str().unwrap());
    app.post(&path, &json!({})).await
}

#[tokio::test]
async fn messages_do_not_fill_the_queue_of_ingestions() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[WAITING, ("JOBS__MAX_QUEUED", "5")]).await;
        let messages = thread(&app).await;
        let mut classified = Vec::new();
        for number in 0..8 {
            let said = app
                .post(&messages, &json!({"content": format!("Message {number}.")}))
                .await;
            assert_eq!(said.status, 201, "{}", said.text);
            classified.push(said.json()["enrichment_job_id"].clone());
        }
        assert!(classified[4].is_string() && classified[5].is_null());

        let mut filed = Vec::new();
        for number in 0..5 {
            let queued = ingest(&app, number).await;
            assert_eq!(queued.status, 202, "{}", queued.text);
            filed.push(queued.json()["id"].clone());
        }
        ingest(&app, 5).await.assert_problem(429, "queue_full");
        let said = app.post(&messages, &json!({"content": "One more."})).await;
        assert_eq!(said.status, 201, "{}", said.text);

        // A job that is queued again takes a place of its own lane.
        for id in [&classified[0], &filed[0]] {
            let cancelled = change(&app, id, "cancel").await;
            assert!(cancelled.status.is_success(), "{}", cancelled.text);
        }
        let again = change(&app, &classified[0], "retry").await;
        assert!(again.status.is_success(), "{}", again.text);
        assert_eq!(ingest(&app, 6).await.status, 202);
        change(&app, &filed[0], "retry")
            .await
            .assert_problem(429, "queue_full");
        app.finish().await;
    }
}

#[tokio::test]
async fn neither_lane_waits_for_the_other() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[WAITING]).await;
        let store = Store::connect(&load(&app.database.url, &[]).database)
            .await
            .unwrap();
        let messages = thread(&app).await;
        // More than one claim looks at.
        for number in 0..300 {
            let said = json!({"content": format!("Message {number}.")});
            assert_eq!(app.post(&messages, &said).await.status, 201);
        }
        for number in 0..3 {
            assert_eq!(ingest(&app, number).await.status, 202);
        }

        let mut kinds = Vec::new();
        for _ in 0..6 {
            let now = Timestamp::from_micros(1);
            let claimed = store
                .claim_jobs(KINDS, "me", Duration::from_mins(1), 1, now)
                .await
                .unwrap();
            kinds.extend(claimed.into_iter().flatten().map(|job| job.job.kind));
        }

        let ingestions = kinds.iter().filter(|kind| *kind == "ingestion").count();
        assert_eq!(ingestions, 3, "{kinds:?}");
        let first = kinds.iter().position(|kind| kind == "ingestion").unwrap();
        assert!(first <= 1, "{kinds:?}");
        app.finish().await;
    }
}
