//! How older turns fade: distance, budget, long gaps, pasted replies, and one vector for each.

use serde_json::{Value, json};

use super::Desk;
use crate::support::app::TestApp;
use crate::support::database::TestDatabase;
use crate::support::ingest::count;

async fn select(app: &TestApp, thread: &str, body: &Value) -> Vec<Value> {
    let path = format!("/v1/threads/{thread}/episodic");
    let reply = app.post(&path, body).await;
    assert_eq!(reply.status.as_u16(), 200, "{}", reply.text);
    reply.json()["items"].as_array().unwrap().clone()
}

fn part(item: &Value, name: &str) -> f64 {
    item["score_parts"][name].as_f64().unwrap()
}

#[tokio::test]
async fn nearer_turns_score_higher_and_a_larger_budget_only_adds() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        let thread = desk.thread("ann", None).await;
        let mut said: Vec<Value> = (0..12)
            .map(|n| json!({"content": format!("The blue kite number {n} flies over the beach.")}))
            .collect();
        said.insert(0, json!({"content": "A kite is on the roof."}));
        said.insert(6, json!({"content": "A kite is on the roof."}));
        desk.say(&thread, &json!({"messages": said, "enrich": false}))
            .await;

        let ask =
            |tokens: usize| json!({"query": "Where is the kite?", "k": 1, "max_tokens": tokens});
        let all = select(&desk.app, &thread, &ask(10_000)).await;
        let roof: Vec<&Value> = all
            .iter()
            .filter(|one| one["content"] == "A kite is on the roof.")
            .collect();
        assert_eq!(roof.len(), 2);
        assert!(part(roof[0], "recency") > part(roof[1], "recency"));
        assert!((part(roof[0], "semantic") - part(roof[1], "semantic")).abs() < 1e-9);
        assert_eq!(roof[1]["reason"], "dropped: duplicate");

        let kept = async |tokens: usize| {
            let items = select(&desk.app, &thread, &ask(tokens)).await;
            let kept = items.iter().filter(|one| one["kept"] == true);
            kept.map(|one| one["id"].clone()).collect::<Vec<_>>()
        };
        let each = usize::try_from(all[0]["tokens"].as_u64().unwrap()).unwrap();
        let mut before = Vec::new();
        for items in 0..=6 {
            let now = kept(items * (each + 4)).await;
            assert!(now.starts_with(&before), "{before:?} {now:?}");
            before = now;
        }
        assert!(before.len() >= 5, "{before:?}");
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn of_the_same_text_in_other_threads_the_newer_is_chosen() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        let here = desk.thread("ann", None).await;
        desk.say(&here, &json!({"content": "Hello again.", "enrich": false}))
            .await;
        // Now is 2026-01-31T12:00:00Z. The oldest is stored last.
        for (text, at) in [
            ("The kite is on the roof.", "2025-10-23T12:00:00Z"),
            ("The kite is on the roof.", "2025-04-06T12:00:00Z"),
            ("A red kite flies over the beach.", "2025-10-23T12:00:00Z"),
            ("A red kite flies over the beach", "2025-04-06T12:00:00Z"),
        ] {
            let other = desk.thread("ann", None).await;
            let said = json!({"content": text, "created_at": at, "enrich": false});
            desk.say(&other, &said).await;
        }

        let ask = json!({"query": "Where is the kite?", "k": 1, "max_tokens": 10_000});
        let items = select(&desk.app, &here, &ask).await;
        let of = |start: &str| {
            let found = items.iter().filter(|one| {
                let content = one["content"].as_str().unwrap();
                content.starts_with(start)
            });
            found.collect::<Vec<_>>()
        };
        let roof = of("The kite is");
        assert_eq!(roof.len(), 2, "{items:?}");
        assert_eq!(roof[0]["created_at"], "2025-10-23T12:00:00.000000Z");
        assert!(part(roof[0], "recency") > part(roof[1], "recency"));
        assert_eq!(roof[0]["kept"], true);
        assert_eq!(roof[1]["reason"], "dropped: duplicate");
        let beach = of("A red kite");
        assert_eq!(beach[0]["created_at"], "2025-10-23T12:00:00.000000Z");
        assert!(part(beach[0], "recency") > part(beach[1], "recency"));

        // What the current thread says is nearer than any other thread.
        desk.say(&here, &json!({"content": "The kite is on the roof.", "created_at": "2024-01-01T00:00:00Z", "enrich": false}))
            .await;
        desk.say(&here, &json!({"content": "Good night.", "enrich": false}))
            .await;
        let items = select(&desk.app, &here, &ask).await;
        let roof = items
            .iter()
            .find(|one| one["content"] == "The kite is on the roof.")
            .unwrap();
        assert_eq!(roof["thread_id"], here);
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn a_long_gap_damps_what_is_very_old() {
    let desk = Desk::open().await;
    let thread = desk.thread("ann", None).await;
    // Now is 2026-01-31T12:00:00Z.
    let said = json!([
        {"content": "The kite was red in autumn.", "created_at": "2025-12-20T00:00:00Z"},
        {"content": "The kite was green in winter.", "created_at": "2026-01-10T00:00:00Z"},
        {"content": "Hello again.", "created_at": "2026-01-31T11:00:00Z"},
    ]);
    desk.say(&thread, &json!({"messages": said, "enrich": false}))
        .await;
    let ask = json!({"query": "Which colour had the kite?", "k": 1});
    let recency = async || {
        let items = select(&desk.app, &thread, &ask).await;
        let of = |text: &str| {
            let item = items.iter().find(|one| one["content"] == text).unwrap();
            part(item, "recency")
        };
        (
            of("The kite was red in autumn."),
            of("The kite was green in winter."),
        )
    };
    let (old, recent) = recency().await;
    assert!((old - 0.2 * (-2.0_f64 / 20.0).exp()).abs() < 1e-9);

    desk.app.clock.advance_seconds(8 * 86_400);
    let (damped, same) = recency().await;
    assert!((damped - 0.9 * old).abs() < 1e-9, "{damped} {old}");
    assert!((same - recent).abs() < 1e-9, "not thirty days old");
    desk.app.finish().await;
}

#[tokio::test]
async fn a_pasted_reply_is_selected_like_any_other_and_each_message_has_one_vector() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        let thread = desk.thread("ann", None).await;
        let pasted = json!({
            "role": "assistant", "source": "external", "enrich": false,
            "content": "The zeppelin museum opens at nine. ".repeat(200)
        });
        for _ in 0..2 {
            desk.say(&thread, &pasted).await;
        }
        for n in 0..3 {
            let other = json!({"content": format!("Turn {n}"), "enrich": false});
            desk.say(&thread, &other).await;
        }

        let ask =
            json!({"query": "When does the zeppelin museum open?", "k": 1, "max_tokens": 10_000});
        let items = select(&desk.app, &thread, &ask).await;
        let external: Vec<&Value> = items
            .iter()
            .filter(|one| one["source"] == "external")
            .collect();
        assert_eq!(external.len(), 1, "the second one was a duplicate");
        assert_eq!(external[0]["reason"], "kept: strong semantic match");
        let vectors = "SELECT COUNT(*) FROM embeddings WHERE owner_kind = 'memory'";
        assert_eq!(count(&desk.app.database, vectors).await, 4);
        desk.app.finish().await;
    }
}
