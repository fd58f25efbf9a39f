//! The vocabulary: one list for writing and reading, versions, suggestions and their approval.

use reqwest::Method;
use serde_json::{Value, json};

use super::{Desk, answering, classified, intent};
use crate::support::app::send;
use crate::support::database::TestDatabase;

#[tokio::test]
async fn a_new_space_has_the_seeded_lists() {
    let desk = Desk::open().await;
    let found = desk.app.get("/v1/vocabulary").await.json();
    assert_eq!(
        found,
        json!({
            "version": "2024-01-15",
            "topics": ["refund", "shipping", "account_access", "billing", "product_issue", "cancellation", "order_status",
                       "payment", "returns", "technical_support", "pricing", "subscription", "general_inquiry"],
            "categories": ["support_request", "complaint", "inquiry", "feedback", "transaction", "escalation", "conversation"],
            "message_types": ["question", "statement", "request", "confirmation", "follow_up", "clarification"],
            "entity_types": ["order_id", "product_name", "person_name", "date", "amount", "tracking_number", "email", "phone"],
            "preset": "support",
            "presets": ["personal", "project", "support"],
        })
    );
    desk.app.finish().await;
}

#[tokio::test]
async fn writing_and_reading_use_the_same_lists_after_a_change() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        desk.model.set_rule(answering(
            |_| classified(&["refund"], 0.5),
            intent(&["refund"], false),
        ));
        let thread = desk.thread("ann", None).await;
        let first = desk.say(&thread, &json!({"content": "before"})).await;
        let first = first["id"].as_str().unwrap();
        desk.settled(first).await;

        let put = |body: &Value| {
            let request = desk.app.request(Method::PUT, "/v1/vocabulary");
            send(request.json(body))
        };
        let lists = json!({
            "topics": ["gardens", "engines"], "categories": ["inquiry"], "message_types": ["statement"],
            "entity_types": ["plant"],
        });
        let changed = put(&lists).await.json();
        assert_eq!(changed["version"], "2026-01-31");
        assert_eq!(put(&lists).await.json()["version"], "2026-01-31.2");

        desk.model.clear();
        desk.model.set_rule(answering(
            |_| classified(&["gardens"], 0.5),
            intent(&["gardens"], false),
        ));
        let second = desk.say(&thread, &json!({"content": "after"})).await;
        let done = desk.settled(second["id"].as_str().unwrap()).await;
        assert_eq!(done["metadata"]["vocabulary_version"], "2026-01-31.2");
        assert_eq!(
            desk.memory(first).await["metadata"]["vocabulary_version"],
            "2024-01-15"
        );
        let context = desk
            .staged(&json!({"query": "plants?", "user_id": "ann"}))
            .await;
        assert_eq!(context["vocabulary_version"], "2026-01-31.2");
        let enum_of = |tool: &str| {
            let seen = desk.seen(tool).pop().unwrap();
            seen.schema.unwrap()["properties"]["topics"]["items"]["enum"].clone()
        };
        assert_eq!(enum_of("classify_message"), json!(["gardens", "engines"]));
        assert_eq!(
            enum_of("extract_search_params"),
            json!(["gardens", "engines"])
        );

        // Another space is not concerned.
        let other = desk
            .app
            .request(Method::GET, "/v1/vocabulary")
            .header("X-Memoir-Space", "other");
        assert_eq!(send(other).await.json()["version"], "2024-01-15");
        let invalid = put(&json!({"topics": [], "categories": ["user_preference"], "message_types": ["a", "a"], "entity_types": ["x"]})).await;
        invalid.assert_problem(422, "invalid_request");
        assert_eq!(invalid.json()["errors"].as_array().unwrap().len(), 3);
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn frequent_suggestions_can_be_approved() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        let classify = |text: &str| {
            let (rare, category) = (text.contains("rare"), text.contains("category"));
            let mut found = classified(&["billing", "general_inquiry", "payment"], 0.5);
            found["confidence"] = json!("low");
            match (rare, category) {
                (true, _) => found["suggested_topic"] = json!("pets"),
                (_, true) => found["suggested_category"] = json!("praise"),
                _ => found["suggested_topic"] = json!("warranty"),
            }
            found
        };
        desk.model.set_rule(answering(classify, intent(&[], false)));
        let thread = desk.thread("ann", None).await;
        let texts = (0..5)
            .map(|n| format!("guarantee {n}"))
            .chain((0..4).map(|n| format!("rare {n}")));
        let texts = texts.chain((0..5).map(|n| format!("category {n}")));
        let all: Vec<Value> = texts.map(|text| json!({"content": text})).collect();
        let stored = desk.say(&thread, &json!(all)).await;
        let ids: Vec<String> = stored["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| m["id"].as_str().unwrap().to_owned())
            .collect();
        for id in &ids {
            desk.settled(id).await;
        }

        let found = desk.app.get("/v1/vocabulary/suggestions").await.json();
        let items = found["items"].as_array().unwrap();
        assert_eq!(items.len(), 1, "four are too few");
        assert_eq!(
            (&items[0]["suggestion"], &items[0]["frequency"]),
            (&json!("warranty"), &json!(5))
        );
        assert_eq!(items[0]["examples"].as_array().unwrap().len(), 5);
        let more = desk
            .app
            .get("/v1/vocabulary/suggestions?min_frequency=4")
            .await
            .json();
        assert_eq!(more["items"].as_array().unwrap().len(), 2);
        let categories = desk
            .app
            .get("/v1/vocabulary/suggestions?kind=category")
            .await
            .json();
        assert_eq!(categories["items"][0]["suggestion"], "praise");

        let approve =
            async |body: Value| desk.app.post("/v1/admin/vocabulary/approve", &body).await;
        let approved = approve(json!({"suggestion": "warranty"})).await.json();
        assert_eq!(approved["backfilled"], 5);
        assert_eq!(approved["vocabulary"]["version"], "2026-01-31");
        let got = desk.memory(&ids[0]).await["metadata"].clone();
        assert_eq!(got["topics"], json!(["billing", "payment", "warranty"]));
        assert_eq!(
            (&got["confidence"], &got["vocabulary_version"]),
            (&json!("high"), &json!("2024-01-15"))
        );
        let other = desk.memory(&ids[6]).await["metadata"].clone();
        assert_eq!(
            (&other["confidence"], &other["topics"][1]),
            (&json!("low"), &json!("general_inquiry"))
        );
        approve(json!({"suggestion": "warranty"}))
            .await
            .assert_problem(409, "conflict");
        let praise = approve(json!({"suggestion": "praise", "kind": "category"}))
            .await
            .json();
        assert_eq!(praise["vocabulary"]["version"], "2026-01-31.2");
        assert_eq!(
            desk.memory(&ids[13]).await["metadata"]["category"],
            "praise"
        );

        desk.model.clear();
        let next = desk.say(&thread, &json!({"content": "next"})).await;
        desk.settled(next["id"].as_str().unwrap()).await;
        let schema = desk.seen("classify_message").pop().unwrap().schema.unwrap();
        let topics = schema["properties"]["topics"]["items"]["enum"]
            .as_array()
            .unwrap()
            .clone();
        assert!(topics.contains(&json!("warranty")));
        desk.app.finish().await;
    }
}
