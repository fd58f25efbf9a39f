//! Queries whose steps are sent while they happen.

use std::time::Duration;

use memoir::scripted_model::{Fault, Reply, Step};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::three_by_three;
use crate::support::app::{TestApp, send};
use crate::support::database::TestDatabase;
use crate::support::events::{EventReader, named, text_of};
use crate::support::library::Desk;

fn asking(desk: &Desk, body: &Value) -> RequestBuilder {
    desk.app.request(Method::POST, "/v1/queries").json(body)
}

#[tokio::test]
async fn a_walk_is_told_level_by_level_and_the_answer_piece_by_piece() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        three_by_three(&desk).await;
        let body = json!({"query": "small plants that are new", "strategy": "one_shot"});
        let events = EventReader::open(asking(&desk, &body)).await.all().await;
        let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names[..4], ["started", "level", "level", "level"]);
        assert!(names.iter().filter(|name| **name == "answer").count() > 2);

        let (last, result) = events.last().unwrap();
        assert_eq!(last, "result");
        assert_eq!(
            text_of(&events, "answer"),
            result["answer"].as_str().unwrap()
        );
        assert_eq!(events[0].1["id"], result["id"]);

        let place = format!("/v1/queries/{}", result["id"].as_str().unwrap());
        let receipt = desk.app.get(&place).await.json();
        let levels: Vec<Value> = named(&events, "level").into_iter().cloned().collect();
        assert_eq!(receipt["levels"], json!(levels));
        desk.close().await;
    }
}

#[tokio::test]
async fn tiers_are_told_and_a_recalled_answer_too() {
    let app = TestApp::spawn().await;
    let text = "The lighthouse on the northern cape was built in 1843 by Ada Brown.";
    let note = json!({"path": "/notes/cape.md", "text": text, "wait": true});
    assert_eq!(
        app.post("/v1/ingestions", &note).await.json()["state"],
        "succeeded"
    );
    let body = json!({"query": "When was the lighthouse built?"});
    for tier in ["search", "recalled"] {
        let asked = app.request(Method::POST, "/v1/queries").json(&body);
        let events = EventReader::open(asked).await.all().await;
        let told: Vec<&Value> = named(&events, "tier")
            .iter()
            .map(|one| &one["tier"])
            .collect();
        assert_eq!(told, [tier]);
        let result = &events.last().unwrap().1;
        let answer = result["answer"].as_str().unwrap();
        assert!(answer.contains("1843"), "{result}");
        assert_eq!(text_of(&events, "answer"), answer);
    }

    app.finish().await;
}

#[tokio::test]
async fn an_invalid_answer_is_begun_again() {
    let desk = Desk::open().await;
    three_by_three(&desk).await;
    let wrong = Fault::RawAnswer {
        json: json!({"answer": "A wrong answer.", "more": 1}),
    };
    desk.model.push(Step::new(wrong).only_stage("answer"));
    let body = json!({"query": "small plants that are new"});
    let events = EventReader::open(asking(&desk, &body)).await.all().await;
    let again = events
        .iter()
        .position(|(name, _)| name == "answer_restarted");
    let again = again.expect("the first answer is void");
    assert_eq!(text_of(&events[..again], "answer"), "A wrong answer.");
    let answer = events.last().unwrap().1["answer"].as_str().unwrap();
    assert_eq!(text_of(&events[again..], "answer"), answer);
    desk.close().await;
}

#[tokio::test]
async fn errors_are_problems_before_and_after_the_first_event() {
    let desk = Desk::open().await;
    three_by_three(&desk).await;
    let early = asking(&desk, &json!({"query": ""})).header("accept", "text/event-stream");
    let early = send(early).await;
    early.assert_problem(422, "invalid_request");

    let broken = Fault::Status {
        status: 500,
        headers: std::collections::BTreeMap::default(),
        body: String::new(),
    };
    desk.model.always(Step::new(broken).only_stage("answer"));
    let body = json!({"query": "small plants that are new"});
    let events = EventReader::open(asking(&desk, &body)).await.all().await;
    let (last, problem) = events.last().unwrap();
    assert_eq!(
        (last.as_str(), &problem["code"]),
        ("problem", &json!("llm_unavailable"))
    );
    assert!(problem["remediation"].is_string() && problem["context"]["responses"].is_array());
    desk.close().await;
}

#[tokio::test]
async fn a_client_that_goes_away_ends_the_call_on_the_wire() {
    let desk = Desk::open().await;
    three_by_three(&desk).await;
    desk.model.edit_script(|script| script.piece_ms = 100);
    desk.model.set_rule(|seen| match seen.stage.as_str() {
        "answer" => Reply::json(json!({"answer": "x".repeat(4000)})),
        _ => Reply::sensible(seen),
    });

    let body = json!({"query": "small plants that are new"});
    let mut reader = EventReader::open(asking(&desk, &body)).await;
    while reader.next().await.expect("an answer").0 != "answer" {}
    drop(reader);
    let ended = desk
        .model
        .wait_until(|stats| stats.abandoned == 1, Duration::from_secs(5));
    assert!(ended.await, "{:?}", desk.model.stats());
    desk.close().await;
}

#[tokio::test]
async fn a_key_returns_the_stored_answer_as_events() {
    let desk = Desk::open().await;
    three_by_three(&desk).await;
    let body = json!({"query": "small plants that are new"});
    let first = asking(&desk, &body).header("idempotency-key", "one");
    let first = EventReader::open(first).await.all().await;
    let calls = desk.model.stats().requests;
    let second = asking(&desk, &body).header("idempotency-key", "one");
    let second = EventReader::open(second).await.all().await;
    assert_eq!(first.last(), second.last());
    assert_eq!(desk.model.stats().requests, calls);
    desk.close().await;
}

#[tokio::test]
async fn a_cancelled_query_ends_with_a_problem() {
    let desk = Desk::open().await;
    three_by_three(&desk).await;
    desk.model
        .always(Step::new(Fault::Stall).only_stage("answer"));
    let body = json!({"query": "small plants that are new"});
    let mut reader = EventReader::open(asking(&desk, &body)).await;
    let (_, started) = reader.next().await.unwrap();
    let id = started["id"].as_str().unwrap();
    let waiting = |stats: &memoir::scripted_model::Stats| stats.by_stage.contains_key("answer");
    assert!(
        desk.model
            .wait_until(waiting, Duration::from_secs(20))
            .await
    );
    let cancelled = desk
        .app
        .post(&format!("/v1/runs/{id}/cancel"), &json!({}))
        .await;
    assert_eq!(cancelled.json()["kind"], "query", "{}", cancelled.text);
    let events = reader.all().await;
    let (last, problem) = events.last().unwrap();
    assert_eq!(
        (last.as_str(), &problem["code"]),
        ("problem", &json!("run_cancelled"))
    );
    let ended = desk
        .model
        .wait_until(|stats| stats.abandoned == 1, Duration::from_secs(5));
    assert!(ended.await);
    desk.close().await;
}
