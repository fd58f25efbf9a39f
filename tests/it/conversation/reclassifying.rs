//! After a change of preset, stored messages are classified again: by one job for each user, whatever
//! else happens meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use memoir::scripted_model::Fault;
use reqwest::Method;
use serde_json::{Value, json};

use super::presets::{choose, given_out};
use super::{Desk, answering, classified, intent};
use crate::support::app::{TestApp, send};
use crate::support::database::TestDatabase;
use crate::support::ingest::count;

/// As if a model had classified all messages with the built-in vocabulary.
const CLASSIFIED: &str = "UPDATE memories SET enrichment_state = 'done', enrichment_model = 'm', \
                          vocabulary_version = '2024-01-15'";

/// Stores messages that are not classified.
async fn store(app: &TestApp, thread: &str, number: usize) {
    let each: Vec<Value> = (0..number)
        .map(|n| json!({"content": format!("Number {n}.")}))
        .collect();
    let path = format!("/v1/threads/{thread}/messages");
    let body = json!({"messages": each, "enrich": false});
    let stored = app.post(&path, &body).await;
    assert_eq!(stored.status.as_u16(), 201, "{}", stored.text);
}

/// Ends a job, so that the service need not wait for its model.
async fn cancel(app: &TestApp, id: &Value) {
    let path = format!("/v1/jobs/{}/cancel", id.as_str().unwrap());
    let cancelled = app.post(&path, &json!({})).await;
    assert_eq!(cancelled.status.as_u16(), 200, "{}", cancelled.text);
}

async fn new_thread(app: &TestApp, user_id: &str) -> String {
    let thread = app.post("/v1/threads", &json!({"user_id": user_id})).await;
    thread.json()["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn one_job_gets_all_messages_of_a_user() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[("JOBS__WORKERS", "2")]).await;
        let (ann, bob) = (
            desk.thread("ann", None).await,
            desk.thread("bob", None).await,
        );
        for _ in 0..2 {
            for thread in [&ann, &bob] {
                store(&desk.app, thread, 300).await;
            }
        }
        desk.app.database.execute(CLASSIFIED).await;

        // The other worker waits for a model about ann's messages.
        desk.model.always(Fault::Stall);
        let chosen = choose(&desk.app, "personal").await;
        let given = given_out(&desk.app, &chosen).await;
        assert_eq!(given, json!({"memories": 1200}));
        let jobs = desk.app.get("/v1/jobs?kind=enrich").await.json();
        let jobs = jobs["items"].as_array().unwrap();
        let users: BTreeSet<&str> = jobs
            .iter()
            .filter_map(|job| job["user_id"].as_str())
            .collect();
        assert_eq!((jobs.len(), users), (2, BTreeSet::from(["ann", "bob"])));
        let same = "SELECT COUNT(*) FROM memories m JOIN jobs j ON j.space = m.space AND j.id = m.enrichment_job \
                    AND j.user_id = m.user_id WHERE m.enrichment_state = 'pending'";
        assert_eq!(count(&desk.app.database, same).await, 1200);
        for job in jobs {
            cancel(&desk.app, &job["id"]).await;
        }
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn half_of_the_queue_stays_free_and_waiting_uses_no_attempt() {
    for database in TestDatabase::each().await {
        let settings = [("JOBS__MAX_QUEUED", "8"), ("JOBS__BACKOFF_MS", "20")];
        let desk = Desk::on(database, &settings).await;
        desk.model.set_rule(answering(
            |_| classified(&["pets"], 0.5),
            intent(&[], false),
        ));
        for user in 0..12 {
            let thread = desk.thread(&format!("user{user}"), None).await;
            store(&desk.app, &thread, 1).await;
        }
        desk.app.database.execute(CLASSIFIED).await;

        desk.model.edit_script(|script| script.latency_ms = 200);
        let chosen = choose(&desk.app, "personal").await;
        let path = format!("/v1/jobs/{}", chosen["job_id"].as_str().unwrap());
        let mut phases: BTreeMap<String, usize> = BTreeMap::new();
        let job = loop {
            let queued = "/v1/jobs?kind=enrich&state=queued&limit=100";
            let queued = desk.app.get(queued).await.json();
            let queued = queued["items"].as_array().unwrap().len();
            assert!(queued <= 4, "{queued} of 8 places are taken");
            let job = desk.app.get(&path).await.json();
            let phase = job["phase"].as_str().unwrap_or_default();
            *phases.entry(phase.to_owned()).or_default() += 1;
            if job["state"] != "queued" && job["state"] != "running" {
                break job;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };

        assert!(phases.contains_key("waiting_for_queue"), "{phases:?}");
        assert_eq!(
            (&job["state"], &job["attempt"], &job["result"]["memories"]),
            (&json!("succeeded"), &json!(1), &json!(12)),
            "{job:#}"
        );
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn the_preset_in_force_returns_the_job_that_is_left_to_do() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[("JOBS__WORKERS", "0")]).await;
        let thread = new_thread(&app, "ann").await;
        store(&app, &thread, 1).await;
        app.database.execute(CLASSIFIED).await;

        let first = choose(&app, "personal").await;
        let again = choose(&app, "personal").await;
        assert!(first["job_id"].is_string(), "{first}");
        assert_eq!(
            (&again["version"], &again["job_id"]),
            (&first["version"], &first["job_id"]),
            "the answer may have been lost"
        );

        cancel(&app, &first["job_id"]).await;
        let next = choose(&app, "personal").await;
        assert!(next["job_id"].is_string(), "{next}");
        assert_ne!(next["job_id"], first["job_id"]);
        assert_eq!(next["version"], first["version"]);

        cancel(&app, &next["job_id"]).await;
        let version = first["version"].as_str().unwrap();
        let done = format!("UPDATE memories SET vocabulary_version = '{version}'");
        app.database.execute(&done).await;
        assert_eq!(choose(&app, "personal").await["job_id"], Value::Null);
        app.finish().await;
    }
}

/// The lists of a preset, and with them the vocabulary of a space, without a job for stored messages.
async fn put_preset(app: &TestApp, name: &str) {
    let post = app.request(Method::POST, "/v1/admin/vocabulary/preset");
    let post = post.header("X-Memoir-Space", "other");
    let lists = send(post.json(&json!({"name": name}))).await.json();
    let body = json!({
        "topics": lists["topics"], "categories": lists["categories"],
        "message_types": lists["message_types"], "entity_types": lists["entity_types"],
    });
    let put = app.request(Method::PUT, "/v1/vocabulary").json(&body);
    assert_eq!(send(put).await.status.as_u16(), 200);
}

#[tokio::test]
async fn a_message_corrected_meanwhile_gets_the_other_terms() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        desk.model.set_rule(answering(
            |_| classified(&["refund"], 0.5),
            intent(&[], false),
        ));
        let thread = desk.thread("ann", None).await;
        let said = desk
            .say(&thread, &json!({"content": "My dog is ill."}))
            .await;
        let id = said["id"].as_str().unwrap();
        desk.settled(id).await;

        put_preset(&desk.app, "personal").await;
        let path = format!("/v1/memories/{id}?user_id=ann");
        let corrected = desk.patch(&path, &json!({"topics": ["pets"]})).await;
        assert_eq!(corrected.status.as_u16(), 200, "{}", corrected.text);
        desk.model.set_rule(answering(
            |_| {
                let mut found = classified(&["health"], 0.5);
                found["category"] = json!("about_me");
                found["entities"] = json!([{"type": "pet_name", "value": "dog"}]);
                found
            },
            intent(&[], false),
        ));
        let chosen = choose(&desk.app, "personal").await;
        assert_eq!(given_out(&desk.app, &chosen).await, json!({"memories": 1}));

        let metadata = desk.settled(id).await["metadata"].clone();
        assert_eq!(metadata["topics"], json!(["pets"]), "a user said so");
        assert_eq!(metadata["category"], "about_me", "{metadata}");
        assert_eq!(metadata["entities"][0]["type"], "pet_name", "{metadata}");
        assert_eq!(metadata["vocabulary_version"], chosen["version"]);
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn a_message_keeps_what_was_found_while_a_job_asks_again() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        let classify = |_: &str| {
            let mut found = classified(&["refund"], 0.5);
            found["confidence"] = json!("low");
            found["entities"] = json!([{"type": "amount", "value": "$5"}]);
            found["suggested_topic"] = json!("warranty");
            found
        };
        desk.model.set_rule(answering(classify, intent(&[], false)));
        let thread = desk.thread("ann", None).await;
        let said = desk.say(&thread, &json!({"content": "Refund $5."})).await;
        let id = said["id"].as_str().unwrap();
        assert_eq!(said["metadata"], json!({"role": "user"}), "not yet");
        let found = desk.settled(id).await["metadata"].clone();
        assert_eq!(found["suggested_topic"], "warranty", "{found}");

        desk.model.always(Fault::Stall);
        let again = format!("/v1/memories/{id}/enrich?user_id=ann");
        desk.app.post(&again, &json!({})).await;
        let pending = desk.memory(id).await;
        assert_eq!(pending["enrichment_state"], "pending");
        assert_eq!(pending["metadata"], found);
        cancel(&desk.app, &pending["enrichment_job_id"]).await;
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn a_deleted_thread_leaves_the_job_of_its_user_to_the_others() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        desk.model.set_rule(answering(
            |_| classified(&["refund"], 0.5),
            intent(&[], false),
        ));
        let (gone, other) = (
            desk.thread("ann", None).await,
            desk.thread("ann", None).await,
        );
        let mut ids = Vec::new();
        for thread in [&gone, &other] {
            let said = desk
                .say(thread, &json!({"content": "My dog is ill."}))
                .await;
            let id = said["id"].as_str().unwrap().to_owned();
            desk.settled(&id).await;
            ids.push(id);
        }

        desk.model.always(Fault::Stall);
        let chosen = choose(&desk.app, "personal").await;
        assert_eq!(given_out(&desk.app, &chosen).await, json!({"memories": 2}));
        let job = async |id: &str| desk.memory(id).await["enrichment_job_id"].clone();
        assert_eq!(job(&ids[0]).await, job(&ids[1]).await);

        desk.model.clear_faults();
        desk.model.set_rule(answering(
            |_| classified(&["pets"], 0.5),
            intent(&[], false),
        ));
        let deleted = desk.delete(&format!("/v1/threads/{gone}")).await;
        assert_eq!(deleted.status.as_u16(), 200, "{}", deleted.text);
        let kept = desk.settled(&ids[1]).await;
        assert_eq!(kept["metadata"]["topics"], json!(["pets"]), "{kept:#}");
        desk.app.finish().await;
    }
}
