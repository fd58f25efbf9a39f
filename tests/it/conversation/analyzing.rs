//! The analysis of a question, and how age counts.

use memoir::base::clock::Timestamp;
use serde_json::{Value, json};

use super::{Desk, answering, classified, intent};

#[tokio::test]
async fn a_question_is_analysed_with_the_exact_tool() {
    let desk = Desk::open().await;
    desk.model
        .set_rule(answering(|_| classified(&[], 0.5), intent(&[], false)));
    let plain = json!({"query": "Where is my order?"});
    let found = desk.app.post("/v1/context/analyze", &plain).await.json();
    assert_eq!(
        found["intent"],
        json!({"topics": [], "category": null, "time_scope": "all", "entities": [], "search_current_thread_only": false}),
        "what the model left out has its default"
    );

    let seen = desk.seen("extract_search_params").pop().unwrap();
    assert_eq!(seen.user, "Where is my order?");
    assert!(seen.system.contains(
        "If they reference past conversations or history, set search_current_thread_only=false."
    ));
    assert!(
        seen.system
            .contains("If they ask about 'this conversation' or recent context, set it to true.")
    );
    assert_eq!(
        seen.body["tool_choice"],
        json!({"type": "function", "function": {"name": "extract_search_params"}})
    );

    let tool = &seen.body["tools"][0]["function"];
    let description = tool["description"].as_str().unwrap();
    assert!(description.contains("semantic INTENT, not keywords"));
    assert!(description.contains("'not about refunds' means EXCLUDE refund topic"));
    let vocabulary = desk.app.get("/v1/vocabulary").await.json();
    let mut categories = vocabulary["categories"].as_array().unwrap().clone();
    categories.push(Value::Null);
    let schema = &tool["parameters"];
    let field = |path: &str| schema.pointer(path).cloned().unwrap_or_default();
    assert_eq!(field("/properties/topics/items/enum"), vocabulary["topics"]);
    assert_eq!(field("/properties/topics/maxItems"), 3);
    assert_eq!(field("/properties/category/enum"), json!(categories));
    assert_eq!(
        field("/properties/time_scope/enum"),
        json!(["today", "yesterday", "last_week", "last_month", "all"])
    );
    assert_eq!(
        field("/properties/entities/items/properties/type/enum"),
        vocabulary["entity_types"]
    );
    assert_eq!(
        field("/properties/search_current_thread_only/type"),
        "boolean"
    );
    assert_eq!(
        field("/required"),
        json!(["topics", "time_scope", "search_current_thread_only"])
    );

    let with = json!({"query": "And now?", "thread_context": "user: hi\nassistant: hello"});
    desk.app.post("/v1/context/analyze", &with).await;
    let seen = desk.seen("extract_search_params").pop().unwrap();
    assert_eq!(
        seen.user,
        "Recent conversation context:\nuser: hi\nassistant: hello\n\nUser query: And now?"
    );
    desk.app.finish().await;
}

#[tokio::test]
async fn a_partial_answer_is_completed_with_defaults() {
    let desk = Desk::open().await;
    let neutral = json!({"topics": [], "category": null, "time_scope": "all", "entities": [], "search_current_thread_only": false});
    for (answer, given) in [
        (json!({}), json!({})),
        (json!({"topics": ["refund"]}), json!({"topics": ["refund"]})),
        (
            json!({"topics": null, "time_scope": "today", "entities": null}),
            json!({"time_scope": "today"}),
        ),
        (
            json!({"search_current_thread_only": true}),
            json!({"search_current_thread_only": true}),
        ),
    ] {
        desk.model.clear();
        desk.model
            .set_rule(answering(|_| classified(&[], 0.5), answer.clone()));
        let ask = json!({"query": "Where is my order?"});
        let found = desk.app.post("/v1/context/analyze", &ask).await.json();
        let mut wanted = neutral.clone();
        for (name, value) in given.as_object().unwrap() {
            wanted[name] = value.clone();
        }

        assert_eq!(found["intent"], wanted, "{answer}");
        assert_eq!(found["intent_fallback"], false, "{answer}: {found}");
        assert_eq!(desk.seen("extract_search_params").len(), 1, "{answer}");
    }

    // What is given must still be right.
    let wrong = json!({"topics": ["no topic of the vocabulary"]});
    desk.model
        .set_rule(answering(|_| classified(&[], 0.5), wrong));
    let ask = json!({"query": "Where is my order?"});
    let found = desk.app.post("/v1/context/analyze", &ask).await.json();
    assert_eq!(found["intent"], neutral);
    assert_eq!(found["intent_fallback"], true);
    desk.app.finish().await;
}

#[tokio::test]
async fn recency_falls_for_thirty_days_and_never_below_a_fifth() {
    let desk = Desk::open().await;
    desk.model
        .set_rule(answering(|_| classified(&[], 0.5), intent(&[], false)));
    let thread = desk.thread("ann", None).await;
    let said = json!({"content": "0 hours ago", "enrich": false});
    let said = desk.say(&thread, &said).await;
    let now = Timestamp::parse_rfc3339(said["created_at"].as_str().unwrap()).unwrap();
    for hours in [360, 2000] {
        let at = now.minus_seconds(hours * 3600).to_string();
        let said =
            json!({"content": format!("{hours} hours ago"), "created_at": at, "enrich": false});
        desk.say(&thread, &said).await;
    }

    let ask = json!({"query": "hours", "user_id": "ann", "thread_id": thread});
    let found = desk.staged(&ask).await;
    let memories = found["memories"].as_array().unwrap();
    for (text, recency, tier) in [
        ("0 hours ago", 20.0, 1.2),
        ("360 hours ago", 10.0, 1.0),
        ("2000 hours ago", 4.0, 0.9),
    ] {
        let one = memories.iter().find(|one| one["content"] == text).unwrap();
        let parts = &one["score_parts"];
        let near = |name: &str, wanted: f64| {
            let value = parts[name].as_f64().unwrap();
            assert!((value - wanted).abs() < 0.05, "{text} {name}: {parts}");
        };
        near("recency", recency);
        near("tier_factor", tier);
        near("source_factor", 1.3);
        near("importance", 7.5);
        let wanted = (recency + 7.5) * 1.3 * tier;
        let score = one["score"].as_f64().unwrap();
        assert!((score - wanted).abs() < 0.1, "{text}: {score}, {wanted}");
    }

    desk.app.finish().await;
}
