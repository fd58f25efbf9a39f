//! U+0000 in what a provider sends: never stored, never passed on as an answer, and never a reason
//! for an error of the database.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use memoir::scripted_model::{Answer, Fault, Reply, Seen};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::database::TestDatabase;
use crate::support::events::{EventReader, named};
use crate::support::library::Desk;

/// A value with a NUL in each text.
fn with_nul(value: Value) -> Value {
    match value {
        Value::String(text) => format!("{text}\0").into(),
        Value::Array(list) => list.into_iter().map(with_nul).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (name, with_nul(value)))
            .collect(),
        other => other,
    }
}

/// The first answer of each stage has NUL in its texts; returns the stages as they are seen.
fn spoil_first_answers(desk: &Desk) -> Arc<Mutex<BTreeSet<String>>> {
    let spoilt = Arc::new(Mutex::new(BTreeSet::new()));
    let stages = Arc::clone(&spoilt);
    desk.model.set_rule(move |seen: &Seen| {
        let mut reply = Reply::sensible(seen);
        if seen.stage == "extract" {
            reply = Reply::json(json!({"facts": [
                {"type": "fact", "content": "Lives in Bonn", "quote": "I live in Bonn", "replaces": null}
            ]}));
        }

        if stages.lock().unwrap().insert(seen.stage.clone()) {
            reply.answer = match reply.answer {
                Answer::Json(value) => Answer::Json(with_nul(value)),
                Answer::Text(text) => Answer::Text(format!("{text}\0")),
            };
        }

        reply
    });

    spoilt
}

fn assert_clean(text: &str) {
    for part in ["\\u0000", "\0", "0x00", "byte sequence", "statement failed"] {
        assert!(!text.contains(part), "{part:?} in {text}");
    }
}

async fn thread(desk: &Desk) -> String {
    let made = desk
        .app
        .post("/v1/threads", &json!({"user_id": "ann"}))
        .await;
    made.json()["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_reply_with_nul_is_asked_for_again() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        let thread = thread(&desk).await;
        let prompt = json!({"prompt": "Name a lighthouse.", "thread_id": thread, "user_id": "ann"});

        spoil_first_answers(&desk);
        let sent = desk.app.post("/v1/prompts/send", &prompt).await;
        assert_eq!(sent.status, 200, "{}", sent.text);
        assert_clean(&sent.text);
        let sent = sent.json();
        assert_eq!(sent["warnings"], json!([]));
        assert_eq!(sent["messages"].as_array().unwrap().len(), 1, "{sent}");
        let outcomes: Vec<&Value> = sent["responses"]
            .as_array()
            .unwrap()
            .iter()
            .map(|call| &call["outcome"])
            .collect();
        assert_eq!(outcomes, [&json!("invalid"), &json!("ok")], "{sent}");

        // As a stream, the beginning of the invalid reply has been passed on.
        spoil_first_answers(&desk);
        let streaming = desk.app.request(Method::POST, "/v1/prompts/send");
        let events = EventReader::open(streaming.json(&prompt)).await.all().await;
        let (last, result) = events.last().unwrap();
        assert_eq!(last, "result", "{events:?}");
        assert_clean(&result.to_string());
        assert_eq!(result["warnings"], json!([]));
        assert!(!named(&events, "reply").is_empty());

        let kept = desk
            .app
            .get(&format!("/v1/threads/{thread}/messages"))
            .await;
        assert_eq!(kept.json()["items"].as_array().unwrap().len(), 2);
        assert_clean(&kept.text);
        desk.close().await;
    }
}

#[tokio::test]
async fn a_model_that_only_sends_nul_gives_no_answer() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        let thread = thread(&desk).await;
        let prompt = json!({"prompt": "Name a lighthouse.", "thread_id": thread, "user_id": "ann"});
        desk.model
            .set_rule(|_| Reply::text("The one\0 on the cape."));
        let sent = desk.app.post("/v1/prompts/send", &prompt).await;
        sent.assert_problem(502, "llm_invalid_output");
        assert_clean(&sent.text);

        let status = |body: &str| Fault::Status {
            status: 400,
            headers: [].into(),
            body: body.to_owned(),
        };
        for (fault, code) in [
            (
                status(r#"{"error": {"message": "no\u0000 way", "code": "a\u0000b"}}"#),
                "llm_rejected",
            ),
            (status("no\0 way"), "llm_rejected"),
            (
                Fault::Refusal {
                    text: "I will\0 not".to_owned(),
                    blocked_prompt: false,
                },
                "llm_refused",
            ),
        ] {
            desk.model
                .set_rule(move |seen| Reply::sensible(seen).with_fault(fault.clone()));
            let sent = desk.app.post("/v1/prompts/send", &prompt).await;
            sent.assert_problem(502, code);
            assert_clean(&sent.text);
        }

        let kept = desk
            .app
            .get(&format!("/v1/threads/{thread}/messages"))
            .await;
        assert_eq!(kept.json()["items"], json!([]));
        desk.close().await;
    }
}

/// Texts are filed, messages classified and questions answered, although the first answer of each
/// stage has NUL in it.
#[tokio::test]
async fn no_stage_stores_nul() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[("INGESTION__FILING", "levels")]).await;
        let spoilt = spoil_first_answers(&desk);
        let job = |id: &Value| format!("/v1/jobs/{}?wait=60", id.as_str().unwrap());

        for text in [
            "category1: Harbour\nThe boats leave the harbour at dawn and return at dusk.",
            "category1: Hills\nThe path over the hills is steep, and closed in winter.",
        ] {
            let queued = desk
                .app
                .post("/v1/ingestions", &json!({"text": text}))
                .await;
            let ended = desk.app.get(&job(&queued.json()["id"])).await;
            assert_eq!(ended.json()["state"], "succeeded", "{}", ended.text);
            assert_clean(&ended.text);
        }

        let thread = thread(&desk).await;
        let path = format!("/v1/threads/{thread}/messages");
        let said = json!({"content": "I live in Bonn, by the river.", "extract": true});
        let said = desk.app.post(&path, &said).await;
        assert_eq!(said.status, 201, "{}", said.text);
        for field in ["extraction_job_id", "enrichment_job_id"] {
            let id = &said.json()[field];
            if id.is_string() {
                let ended = desk.app.get(&job(id)).await;
                assert_eq!(ended.json()["state"], "succeeded", "{}", ended.text);
                assert_clean(&ended.text);
            }
        }

        let asked = desk.ask(json!({"query": "When do the boats leave?"})).await;
        assert_eq!(asked.status, 200, "{}", asked.text);
        assert_clean(&asked.text);
        let question = json!({"user_id": "ann", "query": "Where do I live?"});
        let analysed = desk.app.post("/v1/context/analyze", &question).await;
        assert_eq!(analysed.status, 200, "{}", analysed.text);
        assert_clean(&analysed.text);

        for path in [
            "/v1/categories/tree",
            "/v1/memories?user_id=ann",
            "/v1/jobs",
        ] {
            let seen = desk.app.get(path).await;
            assert_eq!(seen.status, 200, "{}", seen.text);
            assert_clean(&seen.text);
        }

        let stages = spoilt.lock().unwrap().clone();
        for stage in [
            "answer",
            "classify",
            "classify_message",
            "extract",
            "extract_search_params",
            "helper",
            "select",
        ] {
            assert!(stages.contains(stage), "{stage} is not in {stages:?}");
        }
        desk.close().await;
    }
}
