//! What is kept and what is not: redacted texts, evicted vectors, the calls of a deleted user, and
//! vectors of another model.

use reqwest::Method;
use serde_json::json;

use super::Desk;
use crate::support::app::send;
use crate::support::database::TestDatabase;
use crate::support::ingest::{count, until};

#[tokio::test]
async fn redaction_on_writing_changes_what_is_stored_and_says_so() {
    let desk = Desk::open().await;
    let thread = desk.thread("ann", None).await;
    let said = json!({"content": "Write to ann@example.com", "enrich": false});
    let before = desk.say(&thread, &said).await;
    assert_eq!(
        (&before["content"], &before["redacted"]),
        (&json!("Write to ann@example.com"), &json!(false))
    );

    let body = json!({"retrieval": {"enableRedaction": true}, "redaction": {"at": "write"}});
    let put = desk.app.request(Method::PUT, "/v1/admin/memory-settings");
    let put = send(put.json(&body)).await;
    assert!(put.status.is_success(), "{}", put.text);

    let after = desk.say(&thread, &said).await;
    assert_eq!(
        (&after["content"], &after["redacted"]),
        (&json!("Write to [REDACTED]"), &json!(true))
    );
    let fact = json!({
        "user_id": "ann", "content": "Reach her at ann@example.com", "title": "Address ann@example.com",
    });
    let fact = desk.app.post("/v1/memories", &fact).await.json();
    assert_eq!(
        (&fact["content"], &fact["redacted"]),
        (&json!("Reach her at [REDACTED]"), &json!(true)),
        "{fact}"
    );
    assert_eq!(fact["title"], "Address [REDACTED]", "{fact}");
    let path = format!("/v1/memories/{}", fact["id"].as_str().unwrap());
    let change = json!({"title": "New address ann@example.org"});
    let changed = desk.patch(&path, &change).await.json();
    assert_eq!(changed["title"], "New address [REDACTED]", "{changed}");

    let sent = json!({
        "thread_id": thread, "user_message": "Is it ann@example.com?", "external_reply": "Yes, ann@example.com",
    });
    let sent = desk.app.post("/v1/prompts/send", &sent).await;
    assert_eq!(sent.status, 200, "{}", sent.text);
    let stored: Vec<_> = sent.json()["messages"].as_array().unwrap().clone();
    for (message, content) in stored.iter().zip(["Is it [REDACTED]?", "Yes, [REDACTED]"]) {
        let message = desk.memory(message["id"].as_str().unwrap()).await;
        assert_eq!(message["content"], content);
    }
    assert_eq!(stored.len(), 2);

    let id = after["id"].as_str().unwrap();
    assert_eq!(desk.memory(id).await["content"], "Write to [REDACTED]");
    let clean = json!({"content": "nothing to hide", "enrich": false});
    assert_eq!(desk.say(&thread, &clean).await["redacted"], false);
    desk.app.finish().await;
}

/// What somebody writes beside the text; what identifies something stays.
#[tokio::test]
async fn redaction_on_writing_covers_tags_speakers_and_titles() {
    let desk = Desk::open().await;
    let body = json!({"retrieval": {"enableRedaction": true}, "redaction": {"at": "write", "replacement": "#"}});
    let put = desk.app.request(Method::PUT, "/v1/admin/memory-settings");
    let put = send(put.json(&body)).await;
    assert!(put.status.is_success(), "{}", put.text);

    let thread = json!({"user_id": "ann", "title": " About ann@example.com "});
    let thread = desk.app.post("/v1/threads", &thread).await.json();
    assert_eq!(thread["title"], "About #", "{thread}");
    let path = format!("/v1/threads/{}", thread["id"].as_str().unwrap());
    let change = json!({"title": "For bob@example.com"});
    let renamed = desk.patch(&path, &change).await.json();
    assert_eq!(renamed["title"], "For #", "{renamed}");
    let kept = desk.app.get(&path).await.json();
    assert_eq!(kept["title"], "For #", "{kept}");

    let said = json!({"messages": [
        {"content": "Nothing to hide.", "tags": ["plain"], "name": "Ann"},
        {"content": "Nor here.", "tags": ["ann@example.com", "bob@example.com", "plain"], "name": "Ann <ann@example.com>",
            "file_path": "/home/ann@example.com/notes.md"},
    ], "enrich": false});
    let said = desk.app.post(&format!("{path}/messages"), &said).await;
    assert!(said.status.is_success(), "{}", said.text);
    let said = desk.app.get(&format!("{path}/messages")).await.json();
    let said = said["items"].as_array().unwrap();
    let shown: Vec<_> = said
        .iter()
        .map(|one| json!([one["tags"], one["name"], one["redacted"]]))
        .collect();
    let wanted = [
        json!([["plain"], "Ann", false]),
        json!([["#", "plain"], "Ann <#>", true]),
    ];
    assert_eq!(shown, wanted, "{said:#?}");
    assert_eq!(said[1]["file_path"], "/home/ann@example.com/notes.md");

    let fact =
        json!({"user_id": "ann", "content": "Writes letters.", "tags": ["to ann@example.com"]});
    let fact = desk.app.post("/v1/memories", &fact).await.json();
    assert_eq!(
        (&fact["tags"], &fact["redacted"]),
        (&json!(["to #"]), &json!(true)),
        "{fact}"
    );
    let path = format!("/v1/memories/{}", fact["id"].as_str().unwrap());
    let change = json!({"tags": ["x", "a@example.com", "b@example.com"]});
    let changed = desk.patch(&path, &change).await.json();
    assert_eq!(changed["tags"], json!(["x", "#"]), "{changed}");
    desk.app.finish().await;
}

#[tokio::test]
async fn a_message_full_of_phone_numbers_is_stored_and_retrieved_redacted() {
    let desk = Desk::open().await;
    let thread = desk.thread("ann", None).await;
    let content = format!("harbour boat {}", "030 1234567.".repeat(16_000));
    let said = json!({"content": content, "enrich": false});
    desk.say(&thread, &said).await;

    let settings = |at: &str, patterns: &[&str]| {
        let body = json!({"retrieval": {"enableRedaction": true, "minScore": 0, "customRedactionPatterns": patterns},
            "redaction": {"builtIn": ["phone"], "at": at}});
        let put = desk.app.request(Method::PUT, "/v1/admin/memory-settings");
        put.json(&body)
    };
    assert_eq!(send(settings("write", &[])).await.status, 200);
    let asked =
        json!({"userId": "ann", "sessionId": thread, "useMemory": true, "query": "harbour boat"});
    let retrieved = desk.app.post("/v1/memory/retrieve", &asked).await.json();
    let shown = retrieved["memories"][0]["content"].as_str().unwrap();
    assert!(
        shown.starts_with("harbour boat [REDACTED].[REDACTED]."),
        "{shown}"
    );

    let stored = desk.say(&thread, &said).await;
    assert_eq!(
        stored["content"],
        format!("harbour boat {}", "[REDACTED].".repeat(16_000))
    );

    // A pattern that would take minutes stores nothing, and says so.
    assert_eq!(
        send(settings("write", &["[0-9.].*y|[0-9.]"])).await.status,
        200
    );
    let path = format!("/v1/threads/{thread}/messages");
    for (body, field) in [
        (json!({"content": content}), "content"),
        (
            json!({"messages": [{"content": "short"}, {"content": content}]}),
            "messages[1].content",
        ),
    ] {
        let refused = desk.app.post(&path, &body).await;
        assert_eq!(refused.status, 422, "{}", refused.text);
        let error = &refused.json()["errors"][0];
        assert_eq!(error["field"], field);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("custom[0] takes too long"), "{message}");
    }
    let long = json!({"content": "a".repeat(200_001)});
    assert_eq!(desk.app.post(&path, &long).await.status, 422);
    desk.app.finish().await;
}

#[tokio::test]
async fn the_least_important_vector_goes_first_on_every_engine() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[("MEMORY__MAX_VECTORS", "3")]).await;
        for (content, importance) in [
            ("The red kite flies", 0.9),
            ("The blue boat sails", 0.1),
            ("The green train rolls", 0.7),
            ("The white horse runs", 0.8),
        ] {
            let body = json!({"user_id": "ann", "content": content, "importance": importance});
            let reply = desk.app.post("/v1/memories", &body).await;
            assert_eq!(reply.status.as_u16(), 201, "{}", reply.text);
        }

        let ask = |kind: &str| json!({"query": "boat train kite horse", "type": kind, "scope": "memories", "filters": {"user_id": "ann"}});
        let texts = async |kind: &str| {
            let found = desk.app.post("/v1/search", &ask(kind)).await.json();
            let mut texts: Vec<String> = found["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item["text_content"].as_str().unwrap().to_owned())
                .collect();
            texts.sort();
            texts
        };
        let kept = [
            "The green train rolls",
            "The red kite flies",
            "The white horse runs",
        ];
        assert_eq!(texts("semantic").await, kept);
        assert_eq!(texts("keyword").await.len(), 4, "its text is still found");
        let sql = "SELECT COUNT(*) FROM embeddings WHERE owner_kind = 'memory'";
        assert_eq!(count(&desk.app.database, sql).await, 3);
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn a_deleted_user_leaves_no_calls_on_any_engine() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        for user in ["ann", "bob"] {
            desk.context(&json!({"query": "What about my order?", "user_id": user}))
                .await;
        }

        let sql = "SELECT COUNT(*) FROM llm_calls WHERE payer_kind = 'context'";
        until("both contexts are recorded", || async {
            count(&desk.app.database, sql).await == 2
        })
        .await;

        desk.delete("/v1/users/ann").await;
        assert_eq!(count(&desk.app.database, sql).await, 1);
        desk.delete("/v1/users/bob").await;
        assert_eq!(count(&desk.app.database, sql).await, 0);
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn the_figures_of_retrieval_are_there_for_prometheus() {
    let desk = Desk::open().await;
    let thread = desk.thread("ann", None).await;
    desk.say(&thread, &json!({"content": "hello kite", "enrich": false}))
        .await;
    let ask =
        json!({"userId": "ann", "sessionId": thread, "query": "hello kite", "useMemory": true});
    let reply = desk.app.post("/v1/memory/retrieve", &ask).await;
    assert_eq!(reply.status.as_u16(), 200, "{}", reply.text);
    let text = desk.app.get("/metrics").await.text;
    for name in [
        "memoir_retrieval_duration_seconds",
        "memoir_retrieval_results_total",
        "memoir_retrieval_tokens_total",
        "memoir_retrieval_deduplicated_total",
        "memoir_retrieval_cache_total",
    ] {
        assert!(text.contains(name), "{name}");
    }

    desk.app.finish().await;
}
