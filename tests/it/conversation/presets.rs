//! Presets of the vocabulary: one call changes the lists and has stored messages classified again.

use memoir::scripted_model::{Reply as ModelReply, Seen};
use serde_json::{Value, json};

use super::{Desk, answering, classified, intent};
use crate::support::app::{Reply, TestApp, send};
use crate::support::database::TestDatabase;

const PRESET: &str = "/v1/admin/vocabulary/preset";

pub async fn choose(app: &TestApp, name: &str) -> Value {
    let reply = app.post(PRESET, &json!({"name": name})).await;
    assert_eq!(reply.status.as_u16(), 200, "{}", reply.text);
    reply.json()
}

/// Waits until the job of a chosen preset has given every message to a job.
pub async fn given_out(app: &TestApp, chosen: &Value) -> Value {
    let id = chosen["job_id"].as_str().expect("a job");
    loop {
        let job = app.get(&format!("/v1/jobs/{id}?wait=5")).await.json();
        match job["state"].as_str().unwrap() {
            "queued" | "running" => {}
            state => {
                assert_eq!(state, "succeeded", "{job}");
                return job["result"].clone();
            }
        }
    }
}

/// Whether a request offers a topic of the preset `personal`.
fn is_personal(seen: &Seen) -> bool {
    let schema = seen.schema.as_ref().unwrap().to_string();
    schema.contains("\"pets\"")
}

#[tokio::test]
async fn a_preset_is_a_new_version_that_stored_messages_are_classified_with() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        desk.model.set_rule(answering(
            |_| classified(&["refund"], 0.5),
            intent(&[], false),
        ));
        let (ann, bob) = (
            desk.thread("ann", None).await,
            desk.thread("bob", None).await,
        );
        let said = json!([{"content": "My dog is ill."}, {"content": "He eats well."}]);
        let stored = desk.say(&ann, &said).await;
        let id = |place: usize| stored["items"][place]["id"].as_str().unwrap().to_owned();
        let (plain, corrected) = (id(0), id(1));
        let other = desk.say(&bob, &json!({"content": "I have a cat."})).await;
        let other = other["id"].as_str().unwrap();
        let quiet = json!({"messages": [{"content": "Do not classify me."}], "enrich": false});
        let quiet = desk.say(&bob, &quiet).await;
        let quiet = quiet["items"][0]["id"].as_str().unwrap().to_owned();
        for id in [&plain, &corrected, other] {
            assert_eq!(
                desk.settled(id).await["metadata"]["topics"],
                json!(["refund"])
            );
        }
        let path = format!("/v1/memories/{corrected}?user_id=ann");
        let patched = desk.patch(&path, &json!({"topics": ["shipping"]})).await;
        assert_eq!(patched.status.as_u16(), 200, "{}", patched.text);

        desk.model.set_rule(answering(
            |_| classified(&["pets", "health"], 0.5),
            intent(&[], false),
        ));
        let chosen = choose(&desk.app, "personal").await;
        assert_eq!(
            (&chosen["version"], &chosen["preset"]),
            (&json!("2026-01-31"), &json!("personal"))
        );
        let topics = chosen["topics"].as_array().unwrap();
        assert!(topics.contains(&json!("pets")) && !topics.contains(&json!("refund")));
        assert_eq!(given_out(&desk.app, &chosen).await, json!({"memories": 3}));
        for id in [&plain, other] {
            let metadata = desk.settled(id).await["metadata"].clone();
            assert_eq!(metadata["topics"], json!(["pets", "health"]), "{metadata}");
            assert_eq!(metadata["vocabulary_version"], "2026-01-31");
        }

        let kept = desk.settled(&corrected).await;
        assert_eq!(
            kept["metadata"]["topics"],
            json!(["shipping"]),
            "a user said so"
        );
        assert_eq!(kept["corrected_fields"], json!(["topics"]));
        let untouched = desk.memory(&quiet).await;
        assert_eq!(untouched["enrichment_state"], "none");
        assert_eq!(untouched["metadata"]["topics"], Value::Null);
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn the_preset_in_force_is_no_new_version() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        let built_in = app.get("/v1/vocabulary").await.json();
        assert_eq!(
            built_in["presets"],
            json!(["personal", "project", "support"])
        );
        let same = choose(&app, "support").await;
        assert_eq!(
            (&same["version"], &same["preset"], &same["job_id"]),
            (&built_in["version"], &json!("support"), &Value::Null)
        );

        let first = choose(&app, "project").await;
        assert_eq!(given_out(&app, &first).await, json!({"memories": 0}));
        let again = choose(&app, "project").await;
        assert_eq!(
            (&again["version"], &again["job_id"]),
            (&first["version"], &Value::Null)
        );

        // Terms of the space's own are no preset, and going back is a new version.
        let body = json!({"suggestion": "kites"});
        let approved = app.post("/v1/admin/vocabulary/approve", &body).await.json();
        assert_eq!(approved["vocabulary"]["preset"], Value::Null);
        let back = choose(&app, "support").await;
        assert_eq!(back["version"], "2026-01-31.3");
        for list in ["topics", "categories", "message_types", "entity_types"] {
            assert_eq!(back[list], built_in[list]);
        }

        // Another space is not concerned.
        choose(&app, "personal").await;
        let other = app.request(reqwest::Method::GET, "/v1/vocabulary");
        let other = send(other.header("X-Memoir-Space", "other")).await.json();
        assert_eq!(
            (&other["version"], &other["preset"]),
            (&built_in["version"], &json!("support"))
        );
        app.finish().await;
    }
}

#[tokio::test]
async fn an_unknown_preset_is_refused_with_the_names() {
    let app = TestApp::on(TestDatabase::sqlite(), &[]).await;
    let refused = |reply: Reply| {
        reply.assert_problem(422, "invalid_request");
        let problem = reply.json();
        assert_eq!(problem["errors"][0]["field"], "name", "{problem}");
        for name in ["personal", "project", "support"] {
            assert!(reply.text.contains(name), "{}", reply.text);
        }
    };
    for name in ["pirate", "", "Personal", "personal "] {
        refused(app.post(PRESET, &json!({"name": name})).await);
    }

    assert_eq!(
        app.get("/v1/vocabulary").await.json()["version"],
        "2024-01-15"
    );
    app.finish().await;
}

#[tokio::test]
async fn an_answer_with_the_old_terms_is_not_stored_after_a_change() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        desk.model.set_rule(|seen| match seen.stage.as_str() {
            "classify_message" if is_personal(seen) => ModelReply::json(classified(&["pets"], 0.5)),
            "classify_message" => ModelReply::json(classified(&["refund"], 0.5)),
            _ => ModelReply::sensible(seen),
        });
        // The call is still out when the preset changes.
        desk.model.edit_script(|script| script.latency_ms = 400);
        let thread = desk.thread("ann", None).await;
        let stored = desk
            .say(&thread, &json!({"content": "My dog is ill."}))
            .await;
        let patience = std::time::Duration::from_secs(20);
        desk.model.wait_for_requests(1, patience).await;
        let chosen = choose(&desk.app, "personal").await;
        given_out(&desk.app, &chosen).await;

        let done = desk.settled(stored["id"].as_str().unwrap()).await;
        assert_eq!(done["metadata"]["topics"], json!(["pets"]), "{done}");
        assert_eq!(done["metadata"]["vocabulary_version"], chosen["version"]);
        desk.app.finish().await;
    }
}
