//! Contexts at their borders: times, filters, ties, uses, and how much of a memory is shown.

use serde_json::{Value, json};

use super::{Desk, answering, classified, intent, settled};
use crate::support::app::TestApp;
use crate::support::database::TestDatabase;

/// Texts of the memories of a context, in order.
fn texts(found: &Value) -> Vec<&str> {
    let memories = found["memories"].as_array().unwrap().iter();
    memories
        .map(|one| one["content"].as_str().unwrap())
        .collect()
}

async fn tell(desk: &Desk, thread: &str, messages: &Value) -> Vec<String> {
    let stored = desk.say(thread, &json!({"messages": messages})).await;
    let items = stored["items"].as_array().unwrap().iter();
    let ids: Vec<String> = items
        .map(|one| one["id"].as_str().unwrap().to_owned())
        .collect();
    for id in &ids {
        assert_eq!(desk.settled(id).await["enrichment_state"], "done");
    }
    ids
}

#[tokio::test]
async fn each_time_scope_ends_at_its_border() {
    let desk = Desk::open().await;
    let thread = desk.thread("ann", None).await;
    // Now is 2026-01-31T12:00:00Z.
    let said = [
        ("today", "2026-01-30T12:00:00Z"),
        ("a day ago", "2026-01-30T11:59:59Z"),
        ("yesterday", "2026-01-29T12:00:00Z"),
        ("two days ago", "2026-01-29T11:59:59Z"),
        ("last month", "2026-01-01T12:00:00Z"),
        ("long ago", "2026-01-01T11:59:59Z"),
    ];
    let messages: Vec<Value> = said
        .iter()
        .map(|(text, at)| json!({"content": text, "created_at": at}))
        .collect();
    desk.say(&thread, &json!({"messages": messages, "enrich": false}))
        .await;

    for (scope, wanted) in [
        ("today", 1),
        ("yesterday", 3),
        ("last_week", 4),
        ("last_month", 5),
        ("all", 6),
    ] {
        let mut asked = intent(&[], false);
        asked["time_scope"] = json!(scope);
        desk.model
            .set_rule(answering(|_| classified(&[], 0.5), asked));
        let ask = json!({"query": "what", "user_id": "ann", "thread_id": thread});
        let found = desk.staged(&ask).await;
        let mut shown = texts(&found);
        shown.sort_unstable();
        let mut inside: Vec<&str> = said[..wanted].iter().map(|one| one.0).collect();
        inside.sort_unstable();
        assert_eq!(shown, inside, "{scope}");
    }
    desk.app.finish().await;
}

#[tokio::test]
async fn a_missing_importance_is_first_among_what_always_matters_on_every_engine() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        desk.model.set_rule(answering(
            |_| classified(&["shipping"], 0.5),
            intent(&["shipping"], false),
        ));
        let thread = desk.thread("ann", None).await;
        let many: Vec<Value> = (0..20)
            .map(|n| json!({"content": format!("parcel {n}")}))
            .collect();
        tell(&desk, &thread, &json!(many)).await;
        for (text, importance) in [
            ("prefers mail", json!(0.95)),
            ("prefers tea", json!(0.9)),
            ("prefers trains", json!(null)),
            ("prefers cats", json!(0.85)),
        ] {
            let preference = json!({"user_id": "ann", "type": "preference", "content": text, "importance": importance});
            let reply = desk.app.post("/v1/memories", &preference).await;
            assert_eq!(reply.status.as_u16(), 201, "{}", reply.text);
        }

        // The stages leave room for three of the four.
        let ask = json!({"query": "parcels", "user_id": "ann"});
        let found = desk.staged(&ask).await;
        let memories = found["memories"].as_array().unwrap().iter();
        let kept = memories.filter(|one| one["retrieval_source"] == "expansion");
        let mut kept: Vec<&str> = kept.map(|one| one["content"].as_str().unwrap()).collect();
        kept.sort_unstable();
        assert_eq!(kept, ["prefers mail", "prefers tea", "prefers trains"]);
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn each_filter_excludes_and_ties_have_an_order_on_every_engine() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        let classify = |text: &str| {
            let topic = if text.contains("refund") {
                "refund"
            } else {
                "shipping"
            };
            classified(&[topic], 0.5)
        };
        desk.model
            .set_rule(answering(classify, intent(&["shipping"], false)));
        let (here, foreign) = (
            desk.thread("ann", None).await,
            desk.thread("bob", None).await,
        );
        tell(
            &desk,
            &here,
            &json!([
                {"content": "parcel of 2025", "created_at": "2025-06-01T00:00:00Z"},
                {"content": "parcel of 2024", "created_at": "2024-06-01T00:00:00Z"},
                {"content": "a refund", "created_at": "2025-06-01T00:00:00Z"},
            ]),
        )
        .await;
        tell(&desk, &foreign, &json!([{"content": "parcel of bob"}])).await;
        let ask = json!({"query": "parcels", "user_id": "ann", "thread_id": here});
        let found = desk.staged(&ask).await;

        // Both are too old to differ in recency: the score is the same, and the older one is first.
        assert_eq!(texts(&found), ["parcel of 2024", "parcel of 2025"]);
        let scores = &found["memories"];
        assert_eq!(scores[0]["score"], scores[1]["score"]);

        // A stage that is full keeps the newest of equal ones.
        let many: Vec<Value> = (10..35)
            .map(|n| json!({"content": format!("parcel {n}"), "created_at": format!("2025-07-{:02}T00:00:00Z", n - 9)}))
            .collect();
        tell(&desk, &here, &json!(many)).await;
        desk.model
            .set_rule(answering(classify, intent(&["shipping"], true)));
        let found = desk.staged(&ask).await;
        let mut shown = texts(&found);
        shown.sort_unstable();
        let newest: Vec<String> = (15..35).map(|n| format!("parcel {n}")).collect();
        assert_eq!(shown, newest);
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn frequent_use_raises_the_importance_and_makes_a_memory_long_term() {
    let desk = Desk::open().await;
    let mut asked = intent(&["shipping"], false);
    desk.model
        .set_rule(answering(|_| classified(&["shipping"], 0.5), asked.clone()));
    let thread = desk.thread("ann", None).await;
    let said =
        json!([{"content": "The parcel goes to Bonn", "created_at": "2026-01-20T00:00:00Z"}]);
    let id = tell(&desk, &thread, &said).await.remove(0);
    let ask = json!({"query": "parcels", "user_id": "ann", "thread_id": thread});
    let importance = async || desk.memory(&id).await["importance"].as_f64().unwrap();
    for _ in 0..10 {
        desk.staged(&ask).await;
    }
    assert_eq!(desk.memory(&id).await["access_count"], 10);
    assert!((importance().await - 0.6).abs() < 1e-9);

    // A question about something else finds it only after one more use.
    asked["topics"] = json!(["refund"]);
    let other = answering(|_| classified(&["shipping"], 0.5), asked);
    desk.model.set_rule(other);
    assert!(texts(&desk.staged(&ask).await).is_empty());
    let parcels = answering(
        |_| classified(&["shipping"], 0.5),
        intent(&["shipping"], false),
    );
    desk.model.set_rule(parcels);
    desk.staged(&ask).await;
    let refund = answering(
        |_| classified(&["shipping"], 0.5),
        intent(&["refund"], false),
    );
    desk.model.set_rule(refund);
    let found = desk.staged(&ask).await;
    assert_eq!(texts(&found), ["The parcel goes to Bonn"]);
    assert_eq!(found["memories"][0]["retrieval_source"], "expansion");

    for _ in 0..40 {
        desk.staged(&ask).await;
    }
    assert!((importance().await - 0.8).abs() < 1e-9, "the limit");
    let mark = json!({"important": true});
    desk.patch(&format!("/v1/memories/{id}"), &mark).await;
    assert!((importance().await - 0.9).abs() < 1e-9);
    desk.app.finish().await;
}

#[tokio::test]
async fn a_line_shows_300_characters_and_the_first_100_decide_about_duplicates() {
    let desk = Desk::open().await;
    desk.model
        .set_rule(answering(|_| classified(&[], 0.5), intent(&[], false)));
    let thread = desk.thread("ann", None).await;
    let (same, long) = ("ä".repeat(100), "x".repeat(400));
    let texts = [
        format!("{same}one"),
        format!("  {}two", same.to_uppercase()),
        long,
    ];
    for (day, text) in texts.iter().enumerate() {
        let at = format!("2026-01-2{day}T00:00:00Z");
        let body = json!({"content": text, "created_at": at, "enrich": false});
        desk.say(&thread, &body).await;
    }
    let ask = json!({"query": "what", "user_id": "ann", "thread_id": thread});
    let found = desk.staged(&ask).await;
    // White space at the beginning counts among the first hundred characters.
    let wanted = format!(
        "## Current Conversation:\n- [user] {}\n- [user] {}\n- [user] {}",
        "x".repeat(300),
        texts[1],
        texts[0]
    );
    assert_eq!(found["context"], wanted);

    let again = json!({"content": format!("{same}three"), "created_at": "2026-01-19T00:00:00Z", "enrich": false});
    desk.say(&thread, &again).await;
    let found = desk.staged(&ask).await;
    assert_eq!(found["context"], wanted);
    assert_eq!(found["left_out"][0]["reason"], "duplicate");
    desk.app.finish().await;
}

#[tokio::test]
async fn the_embedded_model_classifies_and_analyses_without_a_provider() {
    let app = TestApp::spawn().await;
    let thread = app.post("/v1/threads", &json!({"user_id": "ann"})).await;
    let thread = thread.json()["id"].as_str().unwrap().to_owned();
    let text = "My parcel has not been shipped yet.";
    let path = format!("/v1/threads/{thread}/messages");
    let stored = app.post(&path, &json!({"content": text})).await.json();
    let memory = settled(&app, stored["id"].as_str().unwrap()).await;
    assert_eq!(memory["enrichment_state"], "done", "{memory}");
    let topics = memory["metadata"]["topics"].as_array().unwrap().clone();
    assert!(!topics.is_empty(), "{memory}");

    let ask = json!({"query": "Has my parcel been shipped?", "user_id": "ann", "thread_id": thread, "rank": "search"});
    let found = app.post("/v1/context", &ask).await.json();
    assert_eq!(found["intent_fallback"], false, "{found}");
    let context = found["context"].as_str().unwrap();
    assert!(context.contains(text), "{topics:?}: {found}");
    app.finish().await;
}
