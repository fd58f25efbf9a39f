//! Queries that run as jobs.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{texts, three_by_three};
use crate::support::app::{load, send};
use crate::support::library::Desk;
use memoir::base::clock::{Clock as _, Timestamp};
use memoir::store::Store;
use reqwest::Method;

async fn finished(desk: &Desk, location: &str) -> Value {
    let job = desk.app.get(&format!("{location}?wait=20")).await.json();
    assert!(
        ["succeeded", "failed"].contains(&job["state"].as_str().unwrap()),
        "{job}"
    );

    job
}

#[tokio::test]
async fn a_query_can_run_as_a_job() {
    let desk = Desk::open().await;
    three_by_three(&desk).await;
    let reply = desk
        .ask(json!({"query": "small plants that are new", "wait": false}))
        .await;
    assert_eq!(reply.status.as_u16(), 202, "{}", reply.text);
    assert_eq!(reply.json()["kind"], "query");
    let location = reply.header("location").to_owned();
    let job = finished(&desk, &location).await;
    let result = &job["result"];

    assert_eq!(texts(result), ["Plants that are Small and New. "]);
    assert_eq!(result["id"], job["id"], "the receipt has the job's id");
    let receipt = desk
        .app
        .get(&format!("/v1/queries/{}", result["id"].as_str().unwrap()))
        .await;

    assert_eq!(receipt.status.as_u16(), 200);

    let waited = desk
        .ask_well(json!({"query": "small plants that are new"}))
        .await;
    assert_eq!(
        (&waited["answer"], &waited["chunks"]),
        (&result["answer"], &result["chunks"])
    );

    desk.close().await;
}

#[tokio::test]
async fn two_requests_with_one_key_queue_one_job() {
    let desk = Desk::open().await;
    three_by_three(&desk).await;
    let body = json!({"query": "plants", "wait": false});
    let request = || {
        desk.app
            .request(Method::POST, "/v1/queries")
            .header("idempotency-key", "k1")
            .json(&body)
    };

    let (one, two) = (send(request()).await, send(request()).await);
    assert_eq!(one.json()["id"], two.json()["id"]);
    assert_eq!(two.header("idempotency-replayed"), "true");
    finished(&desk, one.header("location")).await;
    assert_eq!(desk.seen("answer").len(), 1);

    desk.close().await;
}

#[tokio::test]
async fn an_answer_with_a_key_is_paid_once() {
    let desk = Desk::open().await;
    three_by_three(&desk).await;
    let body = json!({"query": "plants"});
    let request = || {
        desk.app
            .request(Method::POST, "/v1/queries")
            .header("idempotency-key", "k1")
    };

    let one = send(request().json(&body)).await;
    let (paid, two) = (desk.seen("answer").len(), send(request().json(&body)).await);
    assert_eq!((one.json(), one.status), (two.json(), two.status));
    assert_eq!(two.header("idempotency-replayed"), "true");
    assert_eq!((paid, desk.seen("answer").len()), (1, 1));
    send(request().json(&json!({"query": "others"})))
        .await
        .assert_problem(422, "idempotency_key_reused");
    assert_eq!(
        desk.app.get("/v1/queries").await.json()["items"]
            .as_array()
            .unwrap()
            .len(),
        1
    );

    // A failed answer is not stored, because a repeated query may succeed.
    let unknown =
        json!({"query": "plants", "source_ids": ["01890000-0000-7000-8000-000000000000"]});
    let other = || {
        desk.app
            .request(Method::POST, "/v1/queries")
            .header("idempotency-key", "k2")
            .json(&unknown)
    };

    for _ in 0..2 {
        let reply = send(other()).await;
        assert!(
            reply.status.is_client_error() && reply.header("idempotency-replayed").is_empty(),
            "{}",
            reply.text
        );
    }

    desk.close().await;
}

/// An answer contains chunks, which must be stored in one place only.
#[tokio::test]
async fn an_answer_is_stored_under_its_key_for_an_hour_if_audit_is_on() {
    let hour = 60 * 60 * 1_000_000;
    for (persist, kept) in [("true", 1), ("false", 0)] {
        let desk = Desk::with(&[("AUDIT__PERSIST", persist)]).await;
        three_by_three(&desk).await;
        for _ in 0..2 {
            let request = desk
                .app
                .request(Method::POST, "/v1/queries")
                .header("idempotency-key", "k1");
            Desk::answered(&send(request.json(&json!({"query": "plants"}))).await);
        }

        assert_eq!(desk.seen("answer").len(), 2 - kept);
        let store = Store::connect(&load(&desk.app.database.url, &[]).database)
            .await
            .unwrap();
        for (later, removed) in [(hour - 1, 0), (hour + 1, kept)] {
            let before = Timestamp::from_micros(desk.app.clock.now().as_micros() + later - hour);
            let cleared = store
                .clear_query_results("query", "answer_query", before)
                .await
                .unwrap();

            assert_eq!(cleared, u64::try_from(removed).unwrap());
        }

        desk.close().await;
    }
}

#[tokio::test]
async fn a_job_fails_with_the_problem_of_its_query() {
    let desk = Desk::open().await;
    let reply = desk.ask(json!({"query": "anything", "wait": false})).await;
    let job = finished(&desk, reply.header("location")).await;
    assert_eq!(
        (&job["state"], &job["error"]["code"]),
        (&json!("failed"), &json!("no_chunks_found"))
    );

    assert_eq!(job["error"]["context"]["dropped_paths"], json!([]));
    desk.ask(json!({"query": "", "wait": false}))
        .await
        .assert_problem(422, "invalid_request");
    desk.close().await;
}

#[tokio::test]
async fn a_retried_job_repeats_no_call() {
    let desk = Desk::with(&[("LLM__TRANSPORT__TRIES", "1"), ("JOBS__BACKOFF_MS", "10")]).await;
    three_by_three(&desk).await;
    let away = memoir::scripted_model::Fault::Status {
        status: 503,
        headers: BTreeMap::default(),
        body: String::new(),
    };

    desk.model
        .push(memoir::scripted_model::Step::new(away).only_stage("answer"));
    let reply = desk
        .ask(json!({"query": "small plants", "wait": false}))
        .await;
    let job = finished(&desk, reply.header("location")).await;
    assert_eq!(
        (&job["state"], &job["attempt"]),
        (&json!("succeeded"), &json!(1)),
        "{job}"
    );

    assert_eq!(
        (desk.seen("select").len(), desk.seen("answer").len()),
        (3, 2)
    );

    let outcomes = super::each(&job["result"]["responses"], "outcome");
    assert_eq!(outcomes, ["ok", "ok", "ok", "transport_error", "ok"]);
    desk.close().await;
}

#[tokio::test]
async fn a_query_with_several_attempts_can_be_replayed() {
    let desk = Desk::with(&[("LLM__TRANSPORT__TRIES", "1"), ("JOBS__BACKOFF_MS", "10")]).await;
    three_by_three(&desk).await;
    let away = || memoir::scripted_model::Fault::Status {
        status: 503,
        headers: BTreeMap::default(),
        body: String::new(),
    };

    for _ in 0..2 {
        desk.model
            .push(memoir::scripted_model::Step::new(away()).only_stage("answer"));
    }

    let queued = desk
        .ask(json!({"query": "small plants", "wait": false}))
        .await;
    let job = finished(&desk, queued.header("location")).await;
    assert_eq!(
        (&job["state"], &job["attempt"]),
        (&json!("succeeded"), &json!(1)),
        "{job}"
    );

    let path = format!("/v1/queries/{}/replay", job["id"].as_str().unwrap());
    let replay = desk.app.post(&path, &json!({})).await.json();
    assert_eq!(
        (&replay["identical"], &replay["original"]["state"]),
        (&json!(true), &json!("succeeded")),
        "{replay}"
    );

    assert_eq!(replay["result"]["answer"], job["result"]["answer"]);
    desk.close().await;
}
