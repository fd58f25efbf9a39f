//! Enrichment: the exact tool, the vocabulary enforced, and nothing invented when the model fails.

use std::time::{Duration, Instant};

use memoir::scripted_model::{Fault, Seen};
use serde_json::{Value, json};

use super::{Desk, answering, busy, classified, intent, settled};
use crate::support::app::TestApp;
use crate::support::database::TestDatabase;

const SEED_SYSTEM: &str = "Classify the message by its semantic INTENT, not by keywords present. Example: 'I don't want a refund, I want to understand the policy' → topic should be 'general_inquiry', NOT 'refund'. The user explicitly said they DON'T want a refund. Always consider negations and context.";
const SEED_DESCRIPTION: &str = "Classify a message with topics, category, and entities. Understand the semantic INTENT of the message, not just keywords. For example, 'I'm not here for a refund, I need understanding' should be classified as 'general_inquiry', NOT 'refund'.";

#[tokio::test]
async fn a_message_is_classified_with_the_exact_tool_on_every_engine() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        let classify = |_: &str| {
            json!({
                "topics": ["refund", "billing"], "category": "support_request", "message_type": "question",
                "entities": [{"type": "order_id", "value": "#1234"}, {"type": "amount", "value": "$99.00"}],
                "importance": 0.7, "confidence": "high", "suggested_topic": "warranty",
            })
        };
        desk.model.set_rule(answering(classify, intent(&[], false)));
        let thread = desk.thread("ann", None).await;
        let text = "Where is the refund of $99.00 for #1234?";
        let message = desk.say(&thread, &json!({"content": text})).await;
        let done = desk.settled(message["id"].as_str().unwrap()).await;
        assert_eq!(done["enrichment_state"], "done");
        assert_eq!(
            done["metadata"],
            json!({
                "role": "user", "topics": ["refund", "billing"], "category": "support_request",
                "message_type": "question",
                "entities": [{"type": "order_id", "value": "#1234"}, {"type": "amount", "value": "$99.00"}],
                "confidence": "high", "suggested_topic": null, "suggested_category": null,
                "importance": 0.7, "vocabulary_version": "2024-01-15", "enrichment_model": "gpt-4o-mini",
            })
        );

        let seen = desk.seen("classify_message").pop().unwrap();
        assert_eq!(
            (seen.system.as_str(), seen.user.as_str()),
            (SEED_SYSTEM, text)
        );
        let tool = &seen.body["tools"][0]["function"];
        assert_eq!(tool["description"], SEED_DESCRIPTION);
        assert_eq!(
            seen.body["tool_choice"],
            json!({"type": "function", "function": {"name": "classify_message"}})
        );
        let vocabulary = desk.app.get("/v1/vocabulary").await.json();
        assert_eq!(tool["parameters"], seed_schema(&vocabulary));

        let job = done["enrichment_job_id"].as_str().unwrap();
        let job = desk
            .app
            .get(&format!("/v1/jobs/{job}?wait=10"))
            .await
            .json();
        assert_eq!(
            (&job["kind"], &job["state"]),
            (&json!("enrich"), &json!("succeeded"))
        );
        assert!(job["responses"][0]["cost_usd"].as_f64().unwrap() > 0.0);
        assert_eq!(job["responses"][0]["stage"], "enrich");
        desk.app.finish().await;
    }
}

fn seed_schema(vocabulary: &Value) -> Value {
    json!({
        "type": "object",
        "properties": {
            "topics": {
                "type": "array", "items": {"type": "string", "enum": vocabulary["topics"]}, "minItems": 1, "maxItems": 3,
                "description": "1-3 topics that represent the INTENT of the message. Focus on what the user WANTS, not words they mention.",
            },
            "category": {"type": "string", "enum": vocabulary["categories"], "description": "Single category that best describes the PURPOSE of this message."},
            "message_type": {"type": "string", "enum": vocabulary["message_types"], "description": "Type of message"},
            "entities": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"type": {"type": "string", "enum": vocabulary["entity_types"]}, "value": {"type": "string"}},
                    "required": ["type", "value"],
                },
                "description": "Extracted entities - order IDs, amounts, names, etc.",
            },
            "importance": {"type": "number", "minimum": 0.0, "maximum": 1.0, "description": "Importance: 0.0-0.3 casual, 0.4-0.6 normal, 0.7-1.0 critical"},
            "confidence": {"type": "string", "enum": ["high", "medium", "low"], "description": "How confident are you in this classification?"},
            "suggested_topic": {"type": ["string", "null"], "description": "If no topic fits well, suggest a new one"},
            "suggested_category": {"type": ["string", "null"], "description": "If no category fits well, suggest a new one"},
        },
        "required": ["topics", "category", "message_type", "confidence", "importance"],
    })
}

#[tokio::test]
async fn terms_outside_the_vocabulary_are_asked_again_and_never_stored() {
    let desk = Desk::open().await;
    let classify = |text: &str| {
        let good = text.contains("previous answer");
        classified(&[if good { "refund" } else { "foo" }], 0.5)
    };
    desk.model.set_rule(answering(classify, intent(&[], false)));
    let thread = desk.thread("ann", None).await;
    let message = desk.say(&thread, &json!({"content": "one"})).await;
    let done = desk.settled(message["id"].as_str().unwrap()).await;
    assert_eq!(done["metadata"]["topics"], json!(["refund"]));
    assert_eq!(desk.seen("classify_message").len(), 2);

    desk.model
        .set_rule(answering(|_| classified(&["foo"], 1.2), intent(&[], false)));
    let message = desk.say(&thread, &json!({"content": "two"})).await;
    let failed = desk.settled(message["id"].as_str().unwrap()).await;
    assert_eq!(failed["enrichment_state"], "failed");
    assert_eq!(failed["metadata"], json!({"role": "user"}));

    // It can be asked again.
    desk.model.set_rule(answering(
        |_| classified(&["billing"], 0.4),
        intent(&[], false),
    ));
    let id = message["id"].as_str().unwrap();
    let reply = desk
        .app
        .post(&format!("/v1/memories/{id}/enrich"), &json!({}))
        .await;
    assert_eq!(reply.status.as_u16(), 202, "{}", reply.text);
    assert_eq!(
        desk.settled(id).await["metadata"]["topics"],
        json!(["billing"])
    );
    desk.app.finish().await;
}

#[tokio::test]
async fn messages_of_one_request_share_their_calls() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        let classify = |text: &str| {
            let bad = text.contains("text 7");
            classified(&[if bad { "nonsense" } else { "shipping" }], 0.5)
        };
        desk.model.set_rule(answering(classify, intent(&[], false)));
        let thread = desk.thread("ann", None).await;
        let many: Vec<Value> = (0..45)
            .map(|n| json!({"content": format!("text {n}")}))
            .collect();
        let stored = desk.say(&thread, &json!(many)).await;
        for item in stored["items"].as_array().unwrap() {
            let done = desk.settled(item["id"].as_str().unwrap()).await;
            let bad = done["content"] == "text 7";
            assert_eq!(
                done["enrichment_state"],
                if bad { "failed" } else { "done" },
                "{done}"
            );
        }

        // Three calls, one more for the invalid answer, and two about that message alone.
        assert_eq!(desk.seen("classify_message").len(), 6);
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn messages_that_a_model_leaves_out_are_asked_about_one_by_one() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        let of_list = |text: &str| match text {
            "text 0" => classified(&["shipping"], 0.5),
            _ => classified(&["nonsense"], 0.5),
        };
        let of_list = answering(of_list, intent(&[], false));
        let alone = |_: &str| classified(&["refund"], 0.5);
        let alone = answering(alone, intent(&[], false));
        let rule = move |seen: &Seen| {
            let list = seen.stage == "classify_message" && super::is_list(seen);
            if list { of_list(seen) } else { alone(seen) }
        };
        desk.model.set_rule(rule);
        let thread = desk.thread("ann", None).await;
        let many: Vec<Value> = (0..4)
            .map(|n| json!({"content": format!("text {n}")}))
            .collect();
        let stored = desk.say(&thread, &json!(many)).await;
        for (number, item) in stored["items"].as_array().unwrap().iter().enumerate() {
            let done = desk.settled(item["id"].as_str().unwrap()).await;
            assert_eq!(done["enrichment_state"], "done", "{done}");
            let topic = if number == 0 { "shipping" } else { "refund" };
            assert_eq!(done["metadata"]["topics"], json!([topic]));
        }

        // All, the three bad ones again, and each of them alone.
        assert_eq!(desk.seen("classify_message").len(), 5);
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn a_model_that_takes_too_long_gets_half_as_many_messages_at_once() {
    let desk = Desk::on(
        TestDatabase::sqlite(),
        &[
            ("LLM__TRANSPORT__READ_TIMEOUT", "1"),
            ("LLM__TRANSPORT__TRIES", "3"),
        ],
    )
    .await;
    let shipping = |_: &str| classified(&["shipping"], 0.5);
    desk.model.set_rule(answering(shipping, intent(&[], false)));
    desk.model.push(Fault::Stall);
    let thread = desk.thread("ann", None).await;
    // The second time, another job begins with what the model can do.
    for time in 1..=2 {
        let many: Vec<Value> = (0..20)
            .map(|n| json!({"content": format!("text {n}, time {time}")}))
            .collect();
        let stored = desk.say(&thread, &json!(many)).await;
        for item in stored["items"].as_array().unwrap() {
            let done = desk.settled(item["id"].as_str().unwrap()).await;
            assert_eq!(done["enrichment_state"], "done", "{done}");
        }
    }

    let calls = desk.seen("classify_message");
    let sizes: Vec<usize> = calls
        .iter()
        .map(|seen| seen.user.matches("text ").count())
        .collect();
    assert_eq!(sizes, [20, 10, 10, 10, 10]);
    desk.app.finish().await;
}

#[tokio::test]
async fn a_slow_or_absent_model_delays_nothing() {
    let desk = Desk::open().await;
    desk.model.edit_script(|script| script.latency_ms = 2000);
    let thread = desk.thread("ann", None).await;
    let begun = Instant::now();
    let slow = desk.say(&thread, &json!({"content": "slow"})).await;
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert_eq!(slow["enrichment_state"], "pending");

    desk.model.always(busy());
    let away = desk
        .say(&thread, &json!({"content": "a zeppelin without a model"}))
        .await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let id = away["id"].as_str().unwrap();
    let waiting = desk.memory(id).await;
    assert_eq!(waiting["enrichment_state"], "pending");
    assert_eq!(waiting["metadata"], json!({"role": "user"}));
    desk.app.finish().await;
}

#[tokio::test]
async fn the_embedded_model_classifies_by_meaning() {
    let app = TestApp::spawn().await;
    let thread = app.post("/v1/threads", &json!({})).await.json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("/v1/threads/{thread}/messages");
    let said = async |text: &str| {
        let id = app.post(&path, &json!({"content": text})).await.json()["id"]
            .as_str()
            .unwrap()
            .to_owned();
        let memory = settled(&app, &id).await;
        assert_eq!(memory["enrichment_state"], "done", "{memory}");
        memory["metadata"].clone()
    };

    let wants = said("Please refund my payment for order #5678").await;
    assert!(
        wants["topics"]
            .as_array()
            .unwrap()
            .contains(&json!("refund")),
        "{wants}"
    );
    assert_eq!(
        wants["entities"],
        json!([{"type": "order_id", "value": "#5678"}])
    );
    assert_eq!(wants["enrichment_model"], "embedded");
    let denies = said("I'm not here about the refund, I just want to understand your policy").await;
    assert!(
        !denies["topics"]
            .as_array()
            .unwrap()
            .contains(&json!("refund")),
        "{denies}"
    );
    app.finish().await;
}
