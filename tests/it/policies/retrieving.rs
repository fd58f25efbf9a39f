//! `POST /v1/memory/retrieve`: conditions, failures, the payload, the cache and the rate limit.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::{Reply, TestApp, send};
use crate::support::database::TestDatabase;

const NOW: &str = "2026-11-16T12:00:00Z";
const TEA: &str =
    "I like green tea best. It keeps me awake. Coffee does not. My card is 4111111111111111.";

/// A thread of a user with messages of different days.
async fn thread(app: &TestApp, user_id: &str, messages: &[&str]) -> String {
    let created = app.post("/v1/threads", &json!({"user_id": user_id})).await;
    let id = created.json()["id"].as_str().unwrap().to_owned();
    if messages.is_empty() {
        return id;
    }

    let list: Vec<Value> = messages
        .iter()
        .enumerate()
        .map(|(day, content)| {
            let created_at = format!("2026-11-{:02}T09:30:00Z", day + 1);
            json!({"role": "user", "content": content, "created_at": created_at})
        })
        .collect();
    let stored = app
        .post(&format!("/v1/threads/{id}/messages"), &json!(list))
        .await;
    assert_eq!(stored.status.as_u16(), 201, "{}", stored.text);
    id
}

async fn retrieve_at(app: &TestApp, now: &str, body: &Value) -> Reply {
    let request = app.request(Method::POST, "/v1/memory/retrieve").json(body);
    let reply = send(request.header("x-memoir-now", now)).await;
    assert_eq!(reply.status.as_u16(), 200, "{}", reply.text);
    reply
}

async fn retrieve(app: &TestApp, body: &Value) -> Value {
    retrieve_at(app, NOW, body).await.json()
}

fn ask(session: &str, query: &str) -> Value {
    json!({"userId": "ann", "sessionId": session, "useMemory": true, "query": query})
}

#[tokio::test]
async fn a_payload_names_its_memories_and_how_they_were_chosen() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[("TESTING__CLOCK_HEADER", "true")]).await;
        let here = thread(&app, "ann", &[TEA, "The weather is fine today."]).await;
        let other = thread(&app, "ann", &[TEA]).await;
        thread(&app, "bob", &["Bob likes green tea best too."]).await;

        let mut body = ask(&here, "Which green tea do I like best?");
        body["explain"] = json!(true);
        let payload = retrieve(&app, &body).await;
        let memories = payload["memories"].as_array().unwrap();
        assert_eq!(memories.len(), 1, "{payload:#}");
        let memory = &memories[0];
        assert_eq!(
            memory["content"],
            "I like green tea best. It keeps me awake...."
        );
        assert!([here.as_str(), other.as_str()].contains(&memory["sessionId"].as_str().unwrap()));
        assert_eq!(memory["messageId"], memory["id"]);
        assert_eq!(
            (&memory["type"], &memory["role"]),
            (&json!("message"), &json!("user"))
        );
        let provenance = &memory["provenance"];
        assert_eq!(provenance["collection"], "user:ann");
        assert_eq!(provenance["searchType"], "hybrid");
        assert_eq!(provenance["wasRedacted"], false);

        let metadata = &payload["metadata"];
        assert_eq!(metadata["includedResults"], 1);
        assert!(metadata["totalResults"].as_u64().unwrap() >= 2);
        assert_eq!(metadata["totalTokens"], 11);
        assert_eq!(payload["policy"], "retrieval@1");
        assert_eq!(
            (&payload["skipped"], &payload["error"]),
            (&Value::Null, &Value::Null)
        );
        let prompt = payload["systemPrompt"].as_str().unwrap();
        assert!(prompt.contains(
            "UTC] user: I like green tea best. It keeps me awake....\n\n_Retrieved 1 memories in "
        ));

        let reasons: Vec<&Value> = payload["steps"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|step| step["effects"].as_array().unwrap())
            .map(|effect| &effect["reason"])
            .collect();
        assert!(reasons.contains(&&json!("duplicate")), "{reasons:?}");
        assert!(reasons.contains(&&json!("clipped")), "{reasons:?}");

        let metrics = app.get("/v1/metrics").await.json();
        assert_eq!(metrics["retrieval.calls"], 1);
        assert_eq!(metrics["retrieval.results_count"], 1);
        assert!(metrics["retrieval.tokens_used"].as_u64().unwrap() > 5);
        assert!(metrics["retrieval.dedup_ratio"].as_f64().unwrap() > 0.0);
        app.finish().await;
    }
}

#[tokio::test]
async fn twice_as_many_are_fetched_as_are_wanted() {
    let app = TestApp::spawn().await;
    let texts: Vec<String> = (0..28)
        .map(|n| format!("Green tea number {n} is my favourite."))
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let session = thread(&app, "ann", &texts).await;

    let request = app.request(Method::POST, "/v1/memory/retrieve");
    let payload = send(request.json(&ask(&session, "green tea"))).await.json();
    assert_eq!(payload["metadata"]["totalResults"], 16);
    assert_eq!(payload["metadata"]["includedResults"], 8);
}

#[tokio::test]
async fn nothing_is_searched_unless_every_condition_holds() {
    let app = TestApp::with(&[("TESTING__CLOCK_HEADER", "true")]).await;
    let ann = thread(&app, "ann", &[TEA]).await;
    let bob = thread(&app, "bob", &["I like coffee."]).await;
    let empty = thread(&app, "newcomer", &[]).await;

    for (body, skipped, code) in [
        (
            json!({"userId": "ann", "sessionId": ann, "query": "tea"}),
            json!("use_memory_false"),
            Value::Null,
        ),
        (
            json!({"userId": "ann", "useMemory": true, "query": "tea"}),
            json!("session_missing"),
            Value::Null,
        ),
        (ask(&bob, "tea"), json!("session_unknown"), Value::Null),
        (
            ask("0199a7e0-0000-7000-8000-000000000000", "tea"),
            json!("session_unknown"),
            Value::Null,
        ),
        (
            json!({"userId": "newcomer", "sessionId": empty, "useMemory": true, "query": "tea"}),
            Value::Null,
            json!("COLLECTION_NOT_FOUND"),
        ),
        (ask(&ann, "  "), Value::Null, json!("INVALID_QUERY")),
        (
            ask(&ann, &"x".repeat(4_001)),
            Value::Null,
            json!("INVALID_QUERY"),
        ),
    ] {
        let payload = retrieve(&app, &body).await;
        assert_eq!(payload["memories"], json!([]));
        assert_eq!(payload["systemPrompt"], "");
        assert_eq!(payload["skipped"], skipped, "{body}");
        assert_eq!(payload["error"]["code"], code, "{body}");
        assert_eq!(payload["metadata"]["config"]["topK"], 8);
    }
}

#[tokio::test]
async fn a_request_may_narrow_the_settings_but_not_leave_the_range() {
    let app = TestApp::with(&[("TESTING__CLOCK_HEADER", "true")]).await;
    let session = thread(&app, "ann", &[TEA]).await;
    for (field, value) in [
        ("topK", json!(5)),
        ("topK", json!(11)),
        ("clipSentences", json!(3)),
        ("maxTokens", json!(1501)),
        ("minScore", json!(1.1)),
    ] {
        let mut body = ask(&session, "tea");
        body[field] = value;
        let reply = app.post("/v1/memory/retrieve", &body).await;
        reply.assert_problem(422, "invalid_request");
        assert_eq!(reply.json()["errors"][0]["field"], field);
    }

    let mut body = ask(&session, "green tea");
    body["config"] =
        json!({"topK": 6, "clipSentences": 1, "searchType": "keyword", "minScore": 0.0});
    let payload = retrieve(&app, &body).await;
    assert_eq!(
        payload["metadata"]["config"],
        json!({"topK": 6, "clipSentences": 1, "maxTokens": 1500, "searchType": "keyword", "minScore": 0.0})
    );
    assert_eq!(
        payload["memories"][0]["content"],
        "I like green tea best...."
    );
}

#[tokio::test]
async fn the_same_query_is_served_from_the_cache_until_something_is_written() {
    let app = TestApp::with(&[("TESTING__CLOCK_HEADER", "true")]).await;
    let session = thread(&app, "ann", &[TEA]).await;
    let body = ask(&session, "green tea");

    assert_eq!(retrieve(&app, &body).await["cached"], false);
    assert_eq!(retrieve(&app, &body).await["cached"], true);
    assert_eq!(
        app.get("/v1/metrics").await.json()["retrieval.cache_hit_rate"],
        50.0
    );
    assert_eq!(
        retrieve_at(&app, "2026-11-16T12:00:59Z", &body)
            .await
            .json()["cached"],
        true
    );
    assert_eq!(
        retrieve_at(&app, "2026-11-16T12:01:01Z", &body)
            .await
            .json()["cached"],
        false
    );

    let more = json!({"role": "user", "content": "Green tea from Uji is the best."});
    let stored = app
        .post(&format!("/v1/threads/{session}/messages"), &more)
        .await;
    assert_eq!(stored.status.as_u16(), 201, "{}", stored.text);
    let fresh = retrieve_at(&app, "2026-11-16T12:01:02Z", &body)
        .await
        .json();
    assert_eq!(fresh["cached"], false);
    assert_eq!(fresh["memories"].as_array().unwrap().len(), 2, "{fresh:#}");
}

#[tokio::test]
async fn beyond_the_rate_limit_an_earlier_result_is_returned_or_none() {
    for database in TestDatabase::each().await {
        let settings = [
            ("TESTING__CLOCK_HEADER", "true"),
            ("MEMORY__RATE_LIMIT", "1"),
        ];
        let app = TestApp::on(database, &settings).await;
        let session = thread(&app, "ann", &[TEA]).await;
        let body = ask(&session, "green tea");

        let first = retrieve(&app, &body).await;
        assert_eq!(first["error"], Value::Null);
        let second = retrieve(&app, &body).await;
        assert_eq!(
            second["error"],
            json!({"code": "RATE_LIMITED", "message": "Memory retrieval rate limit exceeded", "fallback": "cache"})
        );
        assert_eq!(second["cached"], true);
        assert_eq!(second["memories"], first["memories"]);

        let other = retrieve_at(&app, NOW, &ask(&session, "coffee")).await;
        assert_eq!(other.json()["memories"], json!([]));
        assert_eq!(other.header("retry-after"), "60");
        let later = retrieve_at(&app, "2026-11-16T12:01:00Z", &ask(&session, "coffee")).await;
        assert_eq!(later.json()["error"], Value::Null);
        app.finish().await;
    }
}

#[tokio::test]
async fn settings_of_the_space_redact_without_changing_what_is_stored() {
    let app = TestApp::with(&[("TESTING__CLOCK_HEADER", "true")]).await;
    let session = thread(&app, "ann", &["My card is 4111111111111111. It is green."]).await;
    let settings = json!({"retrieval": {"enableRedaction": true}});
    let put = app
        .request(Method::PUT, "/v1/admin/memory-settings")
        .json(&settings);
    assert_eq!(send(put).await.status.as_u16(), 200);

    let mut body = ask(&session, "Is my card green?");
    let payload = retrieve(&app, &body).await;
    let memory = &payload["memories"][0];
    assert_eq!(
        memory["content"], "My card is [REDACTED]. It is green.",
        "{payload:#}"
    );
    assert_eq!(memory["provenance"]["wasRedacted"], true);
    assert_eq!(payload["policy"], "retrieval@2");

    body["policy"] = json!("retrieval@0");
    let older = retrieve(&app, &body).await;
    assert_eq!(
        older["memories"][0]["content"],
        "My card is 4111111111111111. It is green."
    );
    assert_eq!(older["memories"][0]["provenance"]["wasRedacted"], false);
}

#[tokio::test]
async fn an_embedding_model_that_is_away_does_not_stop_the_caller() {
    let settings = [
        ("TESTING__CLOCK_HEADER", "true"),
        ("LLM__PROVIDERS__STUB__KIND", "openai"),
        ("LLM__PROVIDERS__STUB__BASE_URL", "http://127.0.0.1:9/v1"),
        ("LLM__PROVIDERS__STUB__API_KEY", "sk-test"),
        ("LLM__TRANSPORT__TRIES", "1"),
        ("VECTOR__MODEL", "stub:text-embedding-3-small"),
    ];
    let app = TestApp::with(&settings).await;
    let session = thread(&app, "ann", &[TEA]).await;
    let payload = retrieve(&app, &ask(&session, "green tea")).await;
    assert_eq!(payload["error"], Value::Null, "{payload:#}");
    let memories = payload["memories"].as_array().unwrap();
    assert_eq!(memories.len(), 1, "found by its words alone");
}

#[tokio::test]
async fn the_message_that_asks_is_not_part_of_its_own_payload() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        let session = thread(&app, "ann", &["I like green tea best."]).await;
        let asked = "Which green tea do I like?";
        let path = format!("/v1/threads/{session}/messages");
        let stored = app
            .post(&path, &json!({"content": asked, "enrich": false}))
            .await;
        let id = stored.json()["id"].clone();
        let shown = async |body: &Value| {
            let reply = app.post("/v1/memory/retrieve", body).await.json();
            let memories = reply["memories"].as_array().unwrap().clone();
            memories
                .iter()
                .map(|one| one["id"].clone())
                .collect::<Vec<Value>>()
        };

        let mut body = ask(&session, &format!(" {asked}\n"));
        let found = shown(&body).await;
        assert!(!found.is_empty() && !found.contains(&id), "{found:?}");
        body["query"] = json!("Which green tea does Ann like?");
        assert!(shown(&body).await.contains(&id));
        body["excludeMessageId"] = id.clone();
        assert!(!shown(&body).await.contains(&id));

        // Later, a message that says the same is a memory like any other.
        app.clock.advance_seconds(61);
        body = ask(&session, asked);
        assert!(shown(&body).await.contains(&id));
        app.finish().await;
    }
}

#[tokio::test]
async fn the_sentences_that_match_the_query_are_kept() {
    let app = TestApp::with(&[("TESTING__CLOCK_HEADER", "true")]).await;
    let said = "Hello again. What a day it was. My flight to Oslo leaves at nine. Then we ate.";
    let session = thread(&app, "ann", &[said]).await;
    let mut body = ask(&session, "When does my flight to Oslo leave?");
    body["clipSentences"] = json!(1);
    let content = async |body: &Value| retrieve(&app, body).await["memories"][0]["content"].clone();
    assert_eq!(
        content(&body).await,
        "... My flight to Oslo leaves at nine...."
    );
    body["policy"] = json!("retrieval@0");
    assert_eq!(content(&body).await, "Hello again....");
}

#[tokio::test]
async fn what_fits_passes_the_minimum_score_and_the_rest_does_not() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[("TESTING__CLOCK_HEADER", "true")]).await;
        let session = thread(
            &app,
            "ann",
            &[
                "When did you see the zeppelin museum?",
                "Yes, last Tuesday",
                "My sister plays the harp in an orchestra",
                "The tomatoes need water every day",
            ],
        )
        .await;
        let shown = async |query: &str| {
            let payload = retrieve(&app, &ask(&session, query)).await;
            let memories = payload["memories"].as_array().unwrap().clone();
            memories
                .iter()
                .map(|one| one["content"].clone())
                .collect::<Vec<Value>>()
        };

        // An answer without a word of the query passes with its question.
        let museum = shown("When was I in the zeppelin museum?").await;
        assert_eq!(museum[0], "When did you see the zeppelin museum?");
        assert!(museum.contains(&json!("Yes, last Tuesday")), "{museum:?}");
        assert!(!museum.contains(&json!("The tomatoes need water every day")));
        let harp = shown("Who plays the harp?").await;
        assert_eq!(harp[0], "My sister plays the harp in an orchestra");
        assert!(shown("How much does a kangaroo weigh?").await.is_empty());
        app.finish().await;
    }
}
