//! Contexts: the stages, the scores, the text to the character, and what happens without a model.

use serde_json::{Value, json};

use super::{Desk, answering, busy, classified, intent};
use crate::support::database::TestDatabase;

/// Stores messages and waits until all are classified.
async fn tell(desk: &Desk, thread: &str, messages: &Value) -> Vec<String> {
    let stored = desk.say(thread, messages).await;
    let items = stored["items"].as_array().unwrap();
    let ids: Vec<String> = items
        .iter()
        .map(|m| m["id"].as_str().unwrap().to_owned())
        .collect();
    for id in &ids {
        assert_eq!(desk.settled(id).await["enrichment_state"], "done");
    }

    ids
}

#[tokio::test]
async fn the_example_of_order_5678_comes_out_to_the_character() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        let classify = |text: &str| {
            let mut found = classified(&["order_status"], 0.5);
            if text.contains("#5678") {
                found["entities"] = json!([{"type": "order_id", "value": "#5678"}]);
            }
            found
        };
        let asked = json!({
            "topics": ["order_status"], "category": null, "time_scope": "all",
            "entities": [{"type": "order_id", "value": "#5678"}], "search_current_thread_only": false,
        });
        desk.model.set_rule(answering(classify, asked));

        let support = desk.thread("U-123", Some("Support Chat Jan 15")).await;
        let questions = desk.thread("U-123", Some("Order Questions")).await;
        let current = desk.thread("U-123", None).await;
        // Equal scores keep the order in which they were stored.
        let at = "2026-01-31T10:00:00Z";
        tell(&desk, &support, &json!([
            {"role": "user", "content": "Order #5678 was delayed", "created_at": at},
            {"role": "assistant", "content": "We've expedited shipping for #5678", "created_at": at},
        ])).await;
        tell(
            &desk,
            &questions,
            &json!([
                {"role": "user", "content": "When will #5678 arrive?", "created_at": at},
            ]),
        )
        .await;
        tell(
            &desk,
            &questions,
            &json!([
                {"role": "assistant", "content": "Expected delivery is Jan 20", "created_at": at},
            ]),
        )
        .await;
        let same = json!({"content": "I want to check on order #5678"});
        tell(&desk, &current, &json!([same, same, same])).await;
        let preference = json!({"user_id": "U-123", "type": "preference", "content": "User prefers SMS notifications for orders"});
        assert_eq!(
            desk.app
                .post("/v1/memories", &preference)
                .await
                .status
                .as_u16(),
            201
        );
        let foreign = desk.thread("U-999", None).await;
        tell(
            &desk,
            &foreign,
            &json!([{"content": "I want to check on order #5678"}]),
        )
        .await;

        desk.model.clear();
        let query = "What did we discuss about my order #5678 in our previous conversations?";
        let found = desk.staged(&json!({"query": query, "user_id": "U-123", "thread_id": current, "max_tokens": 1500})).await;
        assert_eq!(
            found["context"],
            "## Current Conversation:\n\
             - [user] I want to check on order #5678\n\n\
             ## Related Past Conversations:\n\
             - [user] (from: Support Chat Jan 15) Order #5678 was delayed\n\
             - [assistant] (from: Support Chat Jan 15) We've expedited shipping for #5678\n\
             - [user] (from: Order Questions) When will #5678 arrive?\n\
             - [assistant] (from: Order Questions) Expected delivery is Jan 20\n\n\
             ## User Context & Preferences:\n\
             - [preference] User prefers SMS notifications for orders"
        );

        let sources = |name: &str| {
            let all = found["memories"].as_array().unwrap().iter();
            all.filter(|memory| memory["retrieval_source"] == name)
                .count()
        };
        assert_eq!(
            (
                sources("current_thread"),
                sources("cross_thread"),
                sources("expansion")
            ),
            (3, 4, 1)
        );
        assert_eq!(found["max_tokens"], 1500);
        assert_eq!(found["intent_fallback"], false);
        assert_eq!(found["left_out"].as_array().unwrap().len(), 2);
        assert_eq!(found["left_out"][0]["reason"], "duplicate");
        let seen = desk.seen("extract_search_params").pop().unwrap();
        assert_eq!(seen.user, query);
        assert_eq!(
            seen.body["tool_choice"]["function"]["name"],
            "extract_search_params"
        );
        assert!(found["responses"][0]["cost_usd"].as_f64().unwrap() > 0.0);
        assert!(found["timings"]["parse_ms"].is_number());

        let delivered = found["memories"]
            .as_array()
            .unwrap()
            .iter()
            .find(|m| m["included"] == true)
            .unwrap();
        assert_eq!(
            desk.memory(delivered["id"].as_str().unwrap()).await["access_count"],
            1
        );
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn a_denied_refund_prefers_no_refund() {
    let desk = Desk::open().await;
    let classify = |text: &str| {
        let topic = if text.contains("refund") {
            "refund"
        } else {
            "general_inquiry"
        };
        classified(&[topic], 0.5)
    };
    let mut asked = intent(&["general_inquiry"], true);
    asked["category"] = json!("inquiry");
    desk.model.set_rule(answering(classify, asked));
    let (here, there) = (
        desk.thread("ann", None).await,
        desk.thread("ann", None).await,
    );
    tell(
        &desk,
        &here,
        &json!([{"content": "about a refund"}, {"content": "about the policy"}]),
    )
    .await;
    tell(&desk, &there, &json!([{"content": "the policy elsewhere"}])).await;
    let query = "I'm not here about the refund, I just want to understand your policy";
    let found = desk
        .staged(&json!({"query": query, "user_id": "ann", "thread_id": here}))
        .await;
    assert_eq!(
        found["context"],
        "## Current Conversation:\n- [user] about the policy"
    );
    assert_eq!(found["max_tokens"], 2000);
    desk.app.finish().await;
}

#[tokio::test]
async fn the_stages_keep_their_budget_and_scores_on_every_engine() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        let classify = |text: &str| {
            let mut found = classified(&["shipping"], 0.4);
            found["category"] = json!("feedback");
            found["entities"] = json!([{"type": "order_id", "value": "#1"}]);
            if text.starts_with("old") {
                found["topics"] = json!(["refund"]);
                found["importance"] = json!(0.95);
            }
            found
        };
        let mut asked = intent(&["shipping", "billing"], false);
        asked["category"] = json!("feedback");
        asked["entities"] = json!([{"type": "order_id", "value": "#1"}]);
        desk.model.set_rule(answering(classify, asked.clone()));
        let (here, there) = (
            desk.thread("ann", None).await,
            desk.thread("ann", Some("There")).await,
        );
        let some = |prefix: &str, count: usize| {
            let all: Vec<Value> = (0..count)
                .map(|n| json!({"content": format!("{prefix} {n}")}))
                .collect();
            json!(all)
        };
        tell(&desk, &here, &some("here", 15)).await;
        tell(&desk, &there, &some("there", 15)).await;
        let ask = json!({"query": "parcels", "user_id": "ann", "thread_id": here});
        let found = desk.staged(&ask).await;
        let memories = found["memories"].as_array().unwrap();
        let of = |name: &str| {
            memories
                .iter()
                .filter(|m| m["retrieval_source"] == name)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (of("current_thread").len(), of("cross_thread").len()),
            (10, 10)
        );

        // 10 + 5 + 8 + 5 + 4 in the current thread; 10 + 5 + 12 + 4 elsewhere.
        assert_eq!(of("current_thread")[0]["relevance_score"], 32.0);
        assert_eq!(of("cross_thread")[0]["relevance_score"], 31.0);
        assert_eq!(of("cross_thread")[0]["thread_title"], "There");
        // (0.5 × 30 + 25 + 20 + 6) × 1.3 × 1.2, and × 1.0 × 1.2.
        let near = |value: &Value, wanted: f64| (value.as_f64().unwrap() - wanted).abs() < 0.001;
        assert!(
            near(&of("current_thread")[0]["score"], 100.0),
            "{}",
            of("current_thread")[0]
        );
        assert!(
            near(&of("cross_thread")[0]["score"], 79.2),
            "{}",
            of("cross_thread")[0]
        );
        let context = found["context"].as_str().unwrap();
        assert_eq!(context.matches("- [user] here").count(), 7);
        assert_eq!(context.matches("(from: There) there").count(), 5);
        assert_eq!(found["left_out"].as_array().unwrap().len(), 8);
        assert!(
            found["left_out"]
                .as_array()
                .unwrap()
                .iter()
                .all(|one| one["reason"] == "section_full")
        );

        // What always matters makes room for itself: at most three.
        let past = desk.thread("ann", None).await;
        let old: Vec<Value> = (0..5)
            .map(|n| json!({"content": format!("old {n}"), "created_at": "2026-01-20T00:00:00Z"}))
            .collect();
        tell(&desk, &past, &json!(old)).await;
        let found = desk.staged(&ask).await;
        let memories = found["memories"].as_array().unwrap();
        let count = |name: &str| {
            memories
                .iter()
                .filter(|m| m["retrieval_source"] == name)
                .count()
        };
        assert_eq!(
            (
                count("current_thread"),
                count("cross_thread"),
                count("expansion")
            ),
            (10, 7, 3)
        );
        assert!(
            found["left_out"]
                .as_array()
                .unwrap()
                .iter()
                .any(|one| one["reason"] == "replaced_by_expansion")
        );

        asked["search_current_thread_only"] = json!(true);
        desk.model.set_rule(answering(classify, asked));
        let only = desk.staged(&ask).await;
        assert!(
            only["memories"]
                .as_array()
                .unwrap()
                .iter()
                .all(|m| m["retrieval_source"] != "cross_thread")
        );
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn time_scopes_and_expansion_have_exact_borders() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        let mut asked = intent(&[], false);
        asked["time_scope"] = json!("last_week");
        let classify =
            |text: &str| classified(&["shipping"], if text.contains("0.8") { 0.8 } else { 0.3 });
        desk.model.set_rule(answering(classify, asked));
        let thread = desk.thread("ann", None).await;
        // Now is 2026-01-31T12:00:00Z.
        tell(
            &desk,
            &thread,
            &json!([
                {"content": "just inside", "created_at": "2026-01-24T12:00:00Z"},
                {"content": "just outside", "created_at": "2026-01-24T11:59:59Z"},
                {"content": "importance 0.8", "created_at": "2026-01-01T00:00:00Z"},
            ]),
        )
        .await;
        let important = json!({"user_id": "ann", "content": "a little more", "importance": 0.81, "created_at": "2026-01-01T00:00:00Z"});
        assert_eq!(
            desk.app
                .post("/v1/memories", &important)
                .await
                .status
                .as_u16(),
            201
        );
        let fresh = json!({"user_id": "ann", "content": "too fresh", "importance": 0.9});
        assert_eq!(
            desk.app.post("/v1/memories", &fresh).await.status.as_u16(),
            201
        );
        let found = desk
            .staged(&json!({"query": "what", "user_id": "ann"}))
            .await;
        assert_eq!(
            found["context"],
            "## Related Past Conversations:\n- [user] (from: Untitled) just inside\n\n\
             ## User Context & Preferences:\n- [user] a little more"
        );
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn without_a_model_the_intent_is_neutral() {
    let desk = Desk::open().await;
    desk.model.always(busy());
    let thread = desk.thread("ann", None).await;
    desk.say(&thread, &json!({"content": "unclassified"})).await;
    let found = desk
        .staged(&json!({"query": "refund today", "user_id": "ann", "thread_id": thread}))
        .await;
    assert_eq!(found["intent_fallback"], true);
    assert_eq!(
        found["intent"],
        json!({"topics": [], "category": null, "time_scope": "all", "entities": [], "search_current_thread_only": false})
    );
    assert_eq!(
        found["context"],
        "## Current Conversation:\n- [user] unclassified"
    );
    desk.app.finish().await;
}

#[tokio::test]
async fn a_message_and_its_context_take_one_request() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        desk.model.set_rule(answering(
            |_| classified(&["shipping"], 0.5),
            intent(&["shipping"], false),
        ));
        let thread = desk.thread("ann", None).await;
        tell(&desk, &thread, &json!([{"content": "the parcel is late"}])).await;
        let both = desk
            .say(
                &thread,
                &json!({"content": "where is it?", "with_context": true, "max_tokens": 500, "rank": "staged"}),
            )
            .await;
        assert_eq!(both["content"], "where is it?");
        assert_eq!(
            both["context"]["context"],
            "## Current Conversation:\n- [user] the parcel is late"
        );
        assert_eq!(both["context"]["max_tokens"], 500);

        // A message that still waits for its classification passes the filter of its own thread.
        desk.model.always(busy());
        let pending = desk
            .say(&thread, &json!({"content": "one more thing"}))
            .await;
        desk.model.clear_faults();
        let other = json!({"query": "and?", "user_id": "ann", "thread_id": thread, "thread_context": "user: hi"});
        let found = desk.staged(&other).await;
        let shown = found["memories"]
            .as_array()
            .unwrap()
            .iter()
            .find(|m| m["id"] == pending["id"]);
        assert!(shown.is_some(), "{found}");
        let asked = desk.seen("extract_search_params").pop().unwrap();
        assert_eq!(
            asked.user,
            "Recent conversation context:\nuser: hi\n\nUser query: and?"
        );
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn a_long_context_is_cut_with_its_marker() {
    let desk = Desk::open().await;
    desk.model.set_rule(answering(
        |_| classified(&["shipping"], 0.5),
        intent(&[], false),
    ));
    let thread = desk.thread("ann", None).await;
    let texts: Vec<Value> = (0..5)
        .map(|n| json!({"content": format!("{n} {}", "é".repeat(400))}))
        .collect();
    tell(&desk, &thread, &json!(texts)).await;
    let found = desk
        .staged(&json!({"query": "x", "user_id": "ann", "thread_id": thread, "max_tokens": 100}))
        .await;
    let text = found["context"].as_str().unwrap();
    assert!(text.ends_with("\n[truncated]"));
    assert_eq!(text.chars().count(), 400);
    assert_eq!(found["truncated"], true);
    let reasons = found["left_out"].as_array().unwrap();
    assert_eq!(
        reasons
            .iter()
            .filter(|one| one["reason"] == "over_budget")
            .count(),
        3
    );
    desk.app.finish().await;
}
