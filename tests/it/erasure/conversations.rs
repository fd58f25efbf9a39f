//! Threads and memories: what was made from messages goes with them.

use std::time::Duration;

use memoir::scripted_model::{Fault, Reply as ModelReply, Seen};
use serde_json::{Value, json};

use super::{MARK, all_noted, assert_gone, delete, keyed};
use crate::conversation::{Desk, answering, classified, intent};
use crate::support::app::TestApp;
use crate::support::database::TestDatabase;
use crate::support::ingest::{count, until};

/// Answers calls for facts with one that quotes the message, everything else as usual.
fn facts() -> impl Fn(&Seen) -> ModelReply + Send + Sync + 'static {
    let usual = answering(
        |text| {
            let mut found = classified(&["shipping"], 0.5);
            if text.contains(MARK) {
                found["entities"] = json!([{"type": "place", "value": MARK}]);
            }
            found
        },
        intent(&[], false),
    );
    move |seen: &Seen| match seen.stage.as_str() {
        "extract" => {
            let quote = format!("I live in {MARK}");
            let fact = json!({"type": "fact", "content": format!("Lives in {MARK}"), "quote": quote, "replaces": null});
            ModelReply::json(json!({"facts": [fact]}))
        }
        _ => usual(seen),
    }
}

async fn job_done(desk: &Desk, id: &Value) {
    let path = format!("/v1/jobs/{}?wait=20", id.as_str().unwrap());
    let job = desk.app.get(&path).await.json();
    assert_eq!(job["state"], "succeeded", "{job:#}");
}

#[tokio::test]
async fn a_deleted_thread_or_message_takes_its_facts_with_it() {
    for what in ["thread", "message"] {
        for database in TestDatabase::each().await {
            let desk = Desk::on(database, &[]).await;
            all_noted(&desk.app).await;
            desk.model.set_rule(facts());
            let body =
                json!({"user_id": "ann", "title": if what == "thread" { MARK } else { "A talk" }});
            let thread = keyed(&desk.app, "thread", "/v1/threads", &body)
                .await
                .json();
            let thread = thread["id"].as_str().unwrap();
            let messages = format!("/v1/threads/{thread}/messages");
            let said = json!({"content": format!("Hello! I live in {MARK}."), "extract": true});
            let said = keyed(&desk.app, "said", &messages, &said).await.json();
            let id = said["id"].as_str().unwrap();
            job_done(&desk, &said["extraction_job_id"]).await;
            desk.settled(id).await;
            let question =
                json!({"query": "Where do I live?", "user_id": "ann", "scope": "memories"});
            let asked = keyed(&desk.app, "asked", "/v1/queries", &question).await;
            assert!(asked.text.contains(MARK), "{}", asked.text);

            let receipt = match what {
                "thread" => delete(&desk.app, &format!("/v1/threads/{thread}")).await,
                _ => delete(&desk.app, &format!("/v1/memories/{id}")).await,
            };
            assert_eq!(
                (&receipt["messages"], &receipt["memories"]),
                (&json!(1), &json!(1)),
                "{receipt}"
            );
            assert_gone(&desk.app, MARK).await;
            let again = keyed(&desk.app, "asked", "/v1/queries", &question).await;
            again.assert_problem(410, "erased");
            desk.app.finish().await;
        }
    }
}

/// The job that classifies a message together with others goes on without it.
#[tokio::test]
async fn the_other_messages_of_a_job_are_still_classified() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        desk.model.always(Fault::Stall);
        let thread = desk.thread("ann", None).await;
        let body = json!({"messages": [
            {"role": "user", "content": format!("Bring me to {MARK}.")},
            {"role": "user", "content": "Bring me to the harbour."},
        ]});
        let messages = format!("/v1/threads/{thread}/messages");
        let said = desk.app.post(&messages, &body).await.json();
        let id = |place: usize| said["items"][place]["id"].as_str().unwrap().to_owned();
        let seen = desk.model.wait_for_requests(1, Duration::from_secs(5));
        assert!(seen.await);

        desk.model.clear_faults();
        desk.model.set_rule(facts());
        delete(&desk.app, &format!("/v1/memories/{}", id(0))).await;
        let other = desk.settled(&id(1)).await;
        assert_eq!(other["enrichment_state"], "done", "{other:#}");
        assert_gone(&desk.app, MARK).await;
        desk.app.finish().await;
    }
}

/// A job asks about a message that is given to another job, and then deleted.
#[tokio::test]
async fn the_job_that_lost_a_message_stores_nothing_of_it() {
    for how in ["preset", "again"] {
        for database in TestDatabase::each().await {
            let desk = Desk::on(database, &[]).await;
            all_noted(&desk.app).await;
            desk.model.set_rule(facts());
            desk.model.edit_script(|script| script.latency_ms = 1500);
            let thread = desk.thread("ann", None).await;
            let said = json!({"content": format!("Bring me to {MARK}.")});
            let said = desk.say(&thread, &said).await;
            let id = said["id"].as_str().unwrap();
            let seen = desk.model.wait_for_requests(1, Duration::from_secs(5));
            assert!(seen.await);
            if how == "preset" {
                let body = json!({"name": "personal"});
                let chosen = desk.app.post("/v1/admin/vocabulary/preset", &body).await;
                job_done(&desk, &chosen.json()["job_id"]).await;
            } else {
                let again = format!("/v1/memories/{id}/enrich");
                desk.app.post(&again, &json!({})).await;
            }

            let given = desk.memory(id).await;
            assert_ne!(given["enrichment_job_id"], said["enrichment_job_id"]);
            delete(&desk.app, &format!("/v1/memories/{id}")).await;
            // Until the answer to the first job would have been recorded.
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert_gone(&desk.app, MARK).await;
            desk.app.finish().await;
        }
    }
}

/// What a rate limit lets one have again is never something deleted.
#[tokio::test]
async fn a_limited_retrieval_returns_nothing_deleted() {
    let app = TestApp::with(&[("MEMORY__RATE_LIMIT", "1")]).await;
    let thread = app.post("/v1/threads", &json!({"user_id": "ann"})).await;
    let thread = thread.json()["id"].as_str().unwrap().to_owned();
    let memory =
        json!({"user_id": "ann", "content": format!("My boat is blue. It is called {MARK}.")});
    let memory = app.post("/v1/memories", &memory).await.json();
    let request = json!({"userId": "ann", "sessionId": thread, "useMemory": true, "query": "My boat is blue"});
    let first = app.post("/v1/memory/retrieve", &request).await;
    assert!(first.text.contains(MARK), "{}", first.text);
    let limited = app.post("/v1/memory/retrieve", &request).await;
    assert!(limited.text.contains("RATE_LIMITED"), "{}", limited.text);
    assert!(limited.text.contains(MARK), "{}", limited.text);

    delete(
        &app,
        &format!("/v1/memories/{}", memory["id"].as_str().unwrap()),
    )
    .await;
    let limited = app.post("/v1/memory/retrieve", &request).await;
    assert!(limited.text.contains("RATE_LIMITED"), "{}", limited.text);
    assert!(!limited.text.contains(MARK), "{}", limited.text);
    app.finish().await;
}

/// A job that has read one message of a thread and waits for a model about the next.
#[tokio::test]
async fn a_thread_takes_the_job_with_it_that_extracts_facts() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        all_noted(&desk.app).await;
        let facts = facts();
        desk.model
            .set_rule(move |seen: &Seen| match seen.stage.as_str() {
                "extract" if seen.user.contains("second") => ModelReply::fault(Fault::Stall),
                _ => facts(seen),
            });
        let thread = desk.thread("ann", None).await;
        let said = json!({"extract": true, "enrich": false, "messages": [
            {"content": format!("Hello! I live in {MARK}.")}, {"content": "This is the second message."},
        ]});
        let said = desk.say(&thread, &said).await;
        let stalls = async || {
            desk.seen("extract")
                .iter()
                .any(|seen| seen.user.contains("second"))
        };
        until("the second message is read", stalls).await;
        let outputs = "SELECT COUNT(*) FROM llm_calls WHERE output_json IS NOT NULL";
        let recorded = async || count(&desk.app.database, outputs).await > 0;
        until("the first call is recorded", recorded).await;

        delete(&desk.app, &format!("/v1/threads/{thread}")).await;
        assert_gone(&desk.app, MARK).await;
        let job = said["items"][0]["extraction_job_id"]
            .as_str()
            .unwrap_or_default();
        let job = desk.app.get(&format!("/v1/jobs/{job}")).await;
        assert!(
            job.status == 404 || job.json()["state"] == "cancelled",
            "{}",
            job.text
        );
        desk.app.finish().await;
    }
}
