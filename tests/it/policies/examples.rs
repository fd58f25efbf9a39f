//! The documented examples of the policy over HTTP: strategies, scripts, search types, figures.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::{TestApp, send};
use crate::support::database::TestDatabase;

/// A thread of one user with these messages.
async fn thread(app: &TestApp, messages: &[&str]) -> String {
    let created = app.post("/v1/threads", &json!({"user_id": "ann"})).await;
    let id = created.json()["id"].as_str().unwrap().to_owned();
    let list: Vec<Value> = messages
        .iter()
        .map(|content| json!({"content": content}))
        .collect();
    let path = format!("/v1/threads/{id}/messages");
    let stored = app
        .post(&path, &json!({"messages": list, "enrich": false}))
        .await;
    assert_eq!(stored.status.as_u16(), 201, "{}", stored.text);
    id
}

async fn retrieve(app: &TestApp, session: &str, query: &str, more: &Value) -> Value {
    let mut body =
        json!({"userId": "ann", "sessionId": session, "useMemory": true, "query": query});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    let reply = app.post("/v1/memory/retrieve", &body).await;
    assert_eq!(reply.status.as_u16(), 200, "{}", reply.text);
    reply.json()
}

fn contents(payload: &Value) -> Vec<&str> {
    let memories = payload["memories"].as_array().unwrap().iter();
    memories
        .map(|one| one["content"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn each_strategy_of_interleaving_has_its_order() {
    let app = TestApp::spawn().await;
    let one = |id: &str, score: f64, day: u8| {
        json!({"id": id, "content": format!("Text {id}"), "score": score, "sessionId": "s",
            "timestamp": format!("2026-11-{day:02}T09:30:00Z")})
    };
    let candidates = [
        one("a", 0.9, 1),
        one("b", 0.8, 2),
        one("c", 0.3, 9),
        one("d", 0.4, 8),
    ];
    for (interleaving, wanted) in [
        (json!({"strategy": "alternate"}), "acbd"),
        (json!({"strategy": "score_first", "ratio": 1}), "abdc"),
        (json!({"strategy": "recency_first", "ratio": 1}), "cdba"),
        (json!({"strategy": "score_first", "ratio": 0.25}), "acdb"),
    ] {
        let settings = json!({"interleaving": interleaving, "retrieval": {"topK": 4}});
        let body = json!({"candidates": candidates, "settings": settings});
        let trial = app.post("/v1/policies/try", &body).await;
        assert_eq!(trial.status.as_u16(), 200, "{}", trial.text);
        let trial = trial.json();
        let ids = trial["memories"].as_array().unwrap().iter();
        let order: String = ids.map(|one| one["id"].as_str().unwrap()).collect();
        assert_eq!(order, wanted, "{interleaving}");
    }
    app.finish().await;
}

#[tokio::test]
async fn budgets_hold_in_every_script_on_every_engine() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        let texts = [
            "退款政策。".repeat(800),
            "👩‍👩‍👧‍👦🙂".repeat(900),
            "مرحبا بالعالم ".repeat(700),
            "Привет, мир! ".repeat(700),
            "A long text without an end ".repeat(400),
        ];
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let session = thread(&app, &texts).await;
        for max_tokens in [100, 777, 1500] {
            let more = json!({"minScore": 0, "maxTokens": max_tokens, "clipSentences": 2, "explain": true});
            let payload = retrieve(&app, &session, "退款政策 мир text مرحبا", &more).await;
            let shown = contents(&payload);
            assert!(!shown.is_empty(), "{payload}");
            let tokens = shown.iter().map(|text| text.chars().count().div_ceil(4));
            let tokens: usize = tokens.sum();
            assert_eq!(payload["metadata"]["totalTokens"], tokens);
            assert!(tokens <= max_tokens, "{tokens}");

            // What was cut begins as it was said, and ends with the mark: no character is broken.
            for text in shown {
                let start = text.trim_end_matches("...").replace("。 ", "。");
                let whole = texts.iter().any(|one| one.trim().starts_with(start.trim()));
                assert!(whole, "{text}");
            }
        }
        app.finish().await;
    }
}

#[tokio::test]
async fn the_kind_of_search_decides_what_is_found() {
    let app = TestApp::spawn().await;
    let (word, meaning) = (
        "The invoice zx81 is in the drawer.",
        "My dog sleeps in the kitchen.",
    );
    let session = thread(&app, &[word, meaning, "It rains today."]).await;
    let find = async |query: &str, kind: &str| {
        let more = json!({"searchType": kind, "minScore": 0.05});
        let payload = retrieve(&app, &session, query, &more).await;
        let found = contents(&payload);
        found
            .iter()
            .map(|one| (*one).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(find("zx81", "keyword").await, [word]);
    assert!(find("puppy", "keyword").await.is_empty());
    assert_eq!(find("a puppy naps at home", "semantic").await[0], meaning);
    assert!(
        find("zx81 puppy", "hybrid")
            .await
            .contains(&word.to_owned())
    );

    let body = json!({"userId": "ann", "sessionId": session, "useMemory": true, "query": "x", "searchType": "magic"});
    let refused = app.post("/v1/memory/retrieve", &body).await;
    refused.assert_problem(422, "invalid_request");
    app.finish().await;
}

#[tokio::test]
async fn the_figures_count_duplicates_and_cached_results() {
    let app = TestApp::spawn().await;
    let session = thread(&app, &["Hello world", "HELLO WORLD", "hello  world!"]).await;
    for cached in [false, true] {
        let payload = retrieve(&app, &session, "hello world", &json!({})).await;
        assert_eq!(contents(&payload).len(), 1, "{payload}");
        assert_eq!(payload["cached"], cached);
    }
    let request = app.request(Method::GET, "/v1/metrics");
    let metrics = send(request).await.json();
    let ratio = metrics["retrieval.dedup_ratio"].as_f64().unwrap();
    assert!((ratio - 66.7).abs() < 0.05, "{metrics}");
    assert_eq!(metrics["retrieval.cache_hit_rate"], 50.0, "{metrics}");
    assert!(metrics["retrieval.latency_ms"].as_f64().unwrap() > 0.0);
    app.finish().await;
}
