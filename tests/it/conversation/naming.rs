//! Threads with a name that the client gives them: one for each user and name, whoever comes first.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::Desk;
use crate::support::app::send;
use crate::support::database::TestDatabase;

#[tokio::test]
async fn a_name_finds_the_same_thread_on_every_engine() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        let new = json!({"user_id": "ann", "external_id": " claude:42 ", "title": "First"});
        let first = desk.app.post("/v1/threads", &new).await;
        assert_eq!(first.status, 201, "{}", first.text);
        let thread = first.json();
        assert_eq!(thread["external_id"], "claude:42");

        let again = json!({"user_id": "ann", "external_id": "claude:42", "title": "Second"});
        let again = desk.app.post("/v1/threads", &again).await;
        assert_eq!(again.status, 200, "{}", again.text);
        assert_eq!(again.json(), thread, "unchanged");
        assert_eq!(again.header("location"), first.header("location"));

        // The same name of another user, and a name with the parts of both.
        let other = json!({"user_id": "ben", "external_id": "claude:42"});
        let other = desk.app.post("/v1/threads", &other).await;
        assert_eq!(other.status, 201);
        assert_ne!(other.json()["id"], thread["id"]);
        let unnamed = desk.thread("ann", None).await;
        let shown = desk.app.get(&format!("/v1/threads/{unnamed}")).await.json();
        assert_eq!(shown["external_id"], Value::Null);

        let list = desk
            .app
            .get("/v1/threads?external_id=claude:42&user_id=ann")
            .await;
        assert_eq!(list.json()["items"], json!([thread]));
        let all = desk.app.get("/v1/threads?external_id=claude:42").await;
        assert_eq!(all.json()["items"].as_array().unwrap().len(), 2);
        let none = desk.app.get("/v1/threads?external_id=claude:43").await;
        assert_eq!(none.json()["items"], json!([]));
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn a_name_that_is_a_uuid_is_the_id() {
    let desk = Desk::open().await;
    let id = "0190f5fe-7c00-7a00-8000-0123456789ab";
    for status in [201, 200] {
        let new = json!({"external_id": id.to_uppercase(), "user_id": "ann"});
        let reply = desk.app.post("/v1/threads", &new).await;
        assert_eq!(reply.status, status, "{}", reply.text);
        let thread = reply.json();
        assert_eq!(
            (&thread["id"], &thread["external_id"]),
            (&json!(id), &Value::Null)
        );
    }

    let taken = json!({"external_id": id, "user_id": "ben"});
    let taken = desk.app.post("/v1/threads", &taken).await;
    taken.assert_problem(409, "conflict");
    let told = desk.app.post("/v1/threads", &json!({"id": id})).await;
    told.assert_problem(409, "conflict");
    desk.app.finish().await;
}

#[tokio::test]
async fn rejects_names_that_are_none() {
    let desk = Desk::open().await;
    let long = "x".repeat(129);
    for name in ["", "  ", "a\nb", "a\u{7}", long.as_str()] {
        let reply = desk
            .app
            .post("/v1/threads", &json!({"external_id": name}))
            .await;
        reply.assert_problem(422, "invalid_request");
        assert_eq!(reply.json()["errors"][0]["field"], "external_id");
    }

    let both = json!({"external_id": "a", "id": "0190f5fe-7c00-7a00-8000-0123456789ab"});
    let both = desk.app.post("/v1/threads", &both).await;
    both.assert_problem(422, "invalid_request");

    let long = format!("/v1/threads/by-name/{long}/messages");
    let reply = desk.app.post(&long, &json!({"content": "Hello"})).await;
    reply.assert_problem(422, "invalid_request");
    desk.app.finish().await;
}

#[tokio::test]
async fn messages_create_the_thread_of_their_name_once_on_every_engine() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        let path = "/v1/threads/by-name/codex%3A7%2F8/messages?user_id=ann";
        let said = (0..8).map(|n| {
            let body = json!({"content": format!("Message {n}"), "enrich": false});
            let (app, path) = (&desk.app, path);
            async move { app.post(path, &body).await }
        });
        let replies = join_all(said).await;
        let mut threads: Vec<String> = Vec::new();
        for reply in replies {
            assert_eq!(reply.status, 201, "{}", reply.text);
            threads.push(reply.json()["thread_id"].as_str().unwrap().to_owned());
        }

        threads.dedup();
        assert_eq!(threads.len(), 1, "{threads:?}");
        let thread = desk.app.get(&format!("/v1/threads/{}", threads[0])).await;
        let thread = thread.json();
        assert_eq!(thread["external_id"], "codex:7/8");
        assert_eq!(thread["user_id"], "ann");
        assert_eq!(thread["message_count"], 8);

        let new = json!({"external_id": "codex:7/8", "user_id": "ann"});
        let found = desk.app.post("/v1/threads", &new).await;
        assert_eq!(
            (found.status.as_u16(), found.json()["id"].clone()),
            (200, thread["id"].clone())
        );

        // The thread of another user is treated as not found.
        let foreign = format!("/v1/threads/by-name/{}/messages?user_id=ben", threads[0]);
        let refused = desk.app.post(&foreign, &json!({"content": "Hello"})).await;
        refused.assert_problem(404, "not_found");

        // A repeat with a key is one message.
        for replayed in ["", "true"] {
            let request = desk.app.request(Method::POST, path);
            let request = request.header("idempotency-key", "k1");
            let reply = send(request.json(&json!({"content": "Once"}))).await;
            assert_eq!(reply.status, 201, "{}", reply.text);
            assert_eq!(reply.header("idempotency-replayed"), replayed);
        }

        // The name goes with the thread, and can be used again.
        desk.delete("/v1/users/ann").await;
        let list = desk.app.get("/v1/threads?external_id=codex:7/8").await;
        assert_eq!(list.json()["items"], json!([]));
        let again = desk.app.post(path, &json!({"content": "Back again"})).await;
        assert_eq!(again.status, 201, "{}", again.text);
        assert_eq!(again.json()["thread_id"], threads[0]);
        desk.app.finish().await;
    }
}
