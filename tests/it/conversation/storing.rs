//! Threads and messages: stored at once, once, and for their owner only.

use reqwest::Method;
use serde_json::{Value, json};

use super::Desk;
use crate::support::app::send;
use crate::support::database::TestDatabase;

#[tokio::test]
async fn threads_are_listed_by_their_newest_message_on_every_engine() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        let mut threads = Vec::new();
        for (n, user) in ["ann", "ben", "ann", "ben", "ann"].iter().enumerate() {
            threads.push(desk.thread(user, Some(&format!("{n}"))).await);
        }

        for (n, day) in [(1, 12), (4, 10), (0, 14), (3, 10)] {
            let said =
                json!({"content": "Hello", "created_at": format!("2026-01-{day}T08:00:00Z")});
            desk.say(&threads[n], &said).await;
        }

        let list = async |query: &str| {
            let (mut titles, mut cursor) = (String::new(), String::new());
            loop {
                let path = format!("/v1/threads?limit=2{query}{cursor}");
                let page = desk.app.get(&path).await.json();
                for thread in page["items"].as_array().unwrap() {
                    titles.push_str(thread["title"].as_str().unwrap());
                }

                match page["next_cursor"].as_str() {
                    Some(next) => cursor = format!("&cursor={next}"),
                    None => return titles,
                }
            }
        };
        assert_eq!(list("").await, "43210");
        assert_eq!(list("&sort=-created_at&user_id=ben").await, "31");
        // Equal times are sorted by the id; a thread without messages is last.
        assert_eq!(list("&sort=-last_message_at").await, "01432");
        assert_eq!(list("&sort=-last_message_at&user_id=ann").await, "042");
        let empty = desk.app.get(&format!("/v1/threads/{}", threads[2])).await;
        assert_eq!(empty.json()["last_message_at"], Value::Null);

        let messages = format!("/v1/threads/{}/messages", threads[0]);
        let said = desk.app.get(&messages).await.json();
        let id = said["items"][0]["id"].as_str().unwrap();
        let path = format!("/v1/memories/{id}?user_id=ann");
        let removed = send(desk.app.request(Method::DELETE, &path)).await;
        assert_eq!(removed.status, 200, "{}", removed.text);
        assert_eq!(list("&sort=-last_message_at").await, "14320");

        let refused = desk.app.get("/v1/threads?sort=title").await;
        refused.assert_problem(422, "invalid_request");
        let page = desk.app.get("/v1/threads?limit=2").await.json();
        let cursor = page["next_cursor"].as_str().unwrap();
        let other = format!("/v1/threads?sort=-last_message_at&cursor={cursor}");
        desk.app
            .get(&other)
            .await
            .assert_problem(400, "invalid_cursor");
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn messages_are_stored_listed_and_deleted_on_every_engine() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        let thread = desk.thread("ann", Some("First")).await;
        let one = desk
            .say(&thread, &json!({"content": "Hello ünïcode 你好"}))
            .await;
        assert_eq!(
            one["metadata"],
            json!({"role": "user"}),
            "only the role at first"
        );
        assert_eq!(one["enrichment_state"], "pending");
        assert_eq!(one["duplicate"], false);

        let many: Vec<Value> = (0..60)
            .map(|n| json!({"role": if n % 2 == 0 { "assistant" } else { "user" }, "content": format!("message {n}")}))
            .collect();
        let stored = desk.say(&thread, &json!({"messages": many})).await;
        assert_eq!(
            (&stored["stored"], &stored["duplicates"]),
            (&json!(60), &json!(0))
        );
        let bare = desk
            .say(&thread, &json!([{"content": "a bare list"}]))
            .await;
        assert_eq!(bare["items"][0]["turn_index"], 32);

        let mut texts = Vec::new();
        let mut cursor = String::new();
        loop {
            let path = format!("/v1/threads/{thread}/messages?limit=25{cursor}");
            let page = desk.app.get(&path).await.json();
            texts.extend(
                page["items"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|m| m["content"].clone()),
            );
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }

        assert_eq!(texts.len(), 62);
        assert_eq!(texts[0], "Hello ünïcode 你好");
        assert_eq!(texts[61], "a bare list");
        let shown = desk.app.get(&format!("/v1/threads/{thread}")).await.json();
        assert_eq!(shown["message_count"], 62);

        let receipt = desk.delete(&format!("/v1/threads/{thread}")).await.json();
        assert_eq!(
            (&receipt["threads"], &receipt["messages"]),
            (&json!(1), &json!(62))
        );
        assert_eq!(
            (&receipt["terms"], &receipt["vectors"]),
            (&json!(62), &json!(62))
        );
        desk.app
            .get(&format!("/v1/threads/{thread}"))
            .await
            .assert_problem(404, "not_found");
        let id = one["id"].as_str().unwrap();
        desk.app
            .get(&format!("/v1/memories/{id}"))
            .await
            .assert_problem(404, "not_found");
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn a_message_from_elsewhere_is_stored_once() {
    let desk = Desk::open().await;
    let thread = desk.thread("ann", None).await;
    let reply = json!({"role": "assistant", "source": "external", "content": "A pasted reply"});
    let first = desk.say(&thread, &reply).await;
    let second = desk.say(&thread, &reply).await;
    assert_eq!(second["duplicate"], true);
    assert_eq!(first["id"], second["id"]);
    assert_eq!(first["source"], "external");
    assert_eq!(first["content_hash"].as_str().unwrap().len(), 64);

    let import = json!([
        {"content": "yes", "created_at": "2025-01-01T10:00:00Z"},
        {"content": "yes", "created_at": "2025-01-02T10:00:00Z"},
        {"content": "yes", "created_at": "2025-01-02T10:00:00Z"},
    ]);
    let stored = desk.say(&thread, &import).await;
    assert_eq!(
        (&stored["stored"], &stored["duplicates"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(desk.say(&thread, &import).await["stored"], 0);

    // A running chat may repeat itself.
    desk.say(&thread, &json!({"content": "ok"})).await;
    assert_eq!(
        desk.say(&thread, &json!({"content": "ok"})).await["duplicate"],
        false
    );
    desk.app.finish().await;
}

#[tokio::test]
async fn an_idempotency_key_stores_a_message_once() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        let thread = desk.thread("ann", None).await;
        let path = format!("/v1/threads/{thread}/messages");
        let post = || {
            let request = desk.app.request(Method::POST, &path);
            request
                .header("Idempotency-Key", "one")
                .json(&json!({"content": "once"}))
        };
        let (first, second) = (send(post()).await, send(post()).await);
        assert_eq!(first.status.as_u16(), 201, "{}", first.text);
        assert_eq!(first.json()["id"], second.json()["id"]);
        assert_eq!(second.header("idempotency-replayed"), "true");
        let other = desk
            .app
            .request(Method::POST, &path)
            .header("Idempotency-Key", "one");
        send(other.json(&json!({"content": "twice"})))
            .await
            .assert_problem(422, "idempotency_key_reused");

        // The text is gone from the stored response too.
        desk.delete("/v1/users/ann").await;
        send(post()).await.assert_problem(410, "erased");
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn a_thread_changes_only_as_it_was_read() {
    let desk = Desk::open().await;
    let thread = desk.thread("ann", Some("Old")).await;
    let path = format!("/v1/threads/{thread}");
    let shown = desk.app.get(&path).await;
    let etag = shown.header("etag").to_owned();
    let with = |method: Method, name: &str| desk.app.request(method, &path).header(name, &etag);
    assert_eq!(
        send(with(Method::GET, "If-None-Match"))
            .await
            .status
            .as_u16(),
        304
    );

    let change = send(with(Method::PATCH, "If-Match").json(&json!({"title": "New"}))).await;
    assert_eq!(change.json()["title"], "New");
    let late = send(with(Method::PATCH, "If-Match").json(&json!({"title": "Newer"}))).await;
    late.assert_problem(412, "precondition_failed");
    send(with(Method::DELETE, "If-Match"))
        .await
        .assert_problem(412, "precondition_failed");
    let untitled = desk.patch(&path, &json!({"title": null})).await;
    assert_eq!(untitled.json()["title"], Value::Null);
    desk.app.finish().await;
}

#[tokio::test]
async fn a_thread_is_deleted_only_if_its_present_state_is_accepted() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        let id = desk.thread("ann", Some("Old")).await;
        let path = format!("/v1/threads/{id}");
        let etag = desk.app.get(&path).await.header("etag").to_owned();
        // Somebody writes between the reading and the deletion.
        desk.say(&id, &json!({"content": "one more", "enrich": false}))
            .await;
        let as_read = desk.app.request(Method::DELETE, &path);
        send(as_read.header("If-Match", &etag))
            .await
            .assert_problem(412, "precondition_failed");
        let kept = desk.app.get(&path).await;
        assert_eq!(kept.json()["message_count"], 1);

        let now = kept.header("etag").to_owned();
        let as_it_is = desk.app.request(Method::DELETE, &path);
        let removed = send(as_it_is.header("If-Match", &now)).await.json();
        assert_eq!(
            (&removed["threads"], &removed["messages"]),
            (&json!(1), &json!(1))
        );
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn no_user_and_no_space_reads_another() {
    let desk = Desk::open().await;
    let thread = desk.thread("ann", None).await;
    let message = desk
        .say(&thread, &json!({"content": "a secret of ann"}))
        .await;
    let id = message["id"].as_str().unwrap();
    for path in [
        format!("/v1/threads/{thread}?user_id=bob"),
        format!("/v1/threads/{thread}/messages?user_id=bob"),
        format!("/v1/memories/{id}?user_id=bob"),
    ] {
        desk.app.get(&path).await.assert_problem(404, "not_found");
    }

    let path = format!("/v1/threads/{thread}/messages?user_id=bob");
    desk.app
        .post(&path, &json!({"content": "mine"}))
        .await
        .assert_problem(404, "not_found");
    desk.delete(&format!("/v1/threads/{thread}?user_id=bob"))
        .await
        .assert_problem(404, "not_found");
    let body = json!({"query": "secret", "user_id": "bob", "thread_id": thread});
    desk.app
        .post("/v1/context", &body)
        .await
        .assert_problem(404, "not_found");
    let found = desk
        .context(&json!({"query": "secret", "user_id": "bob"}))
        .await;
    assert_eq!(found["memories"], json!([]));
    assert_eq!(
        desk.app.get("/v1/threads?user_id=bob").await.json()["items"],
        json!([])
    );

    for path in [
        format!("/v1/threads/{thread}"),
        format!("/v1/memories/{id}"),
    ] {
        let request = desk
            .app
            .request(Method::GET, &path)
            .header("X-Memoir-Space", "other");
        send(request).await.assert_problem(404, "not_found");
    }

    let nobody = desk.delete("/v1/users/bob").await.json();
    assert_eq!(
        (&nobody["threads"], &nobody["messages"]),
        (&json!(0), &json!(0))
    );
    let fact = json!({"user_id": "ann", "type": "preference", "content": "Likes tea"});
    assert_eq!(
        desk.app.post("/v1/memories", &fact).await.status.as_u16(),
        201
    );
    let receipt = desk.delete("/v1/users/ann").await.json();
    assert_eq!(
        (
            &receipt["threads"],
            &receipt["messages"],
            &receipt["memories"]
        ),
        (&json!(1), &json!(1), &json!(1))
    );
    assert_eq!(receipt["jobs"], 1);
    desk.app
        .get(&format!("/v1/memories/{id}"))
        .await
        .assert_problem(404, "not_found");
    desk.app.finish().await;
}

#[tokio::test]
async fn invalid_requests_name_their_fields() {
    let desk = Desk::open().await;
    let thread = desk.thread("ann", None).await;
    let path = format!("/v1/threads/{thread}/messages");
    for (body, field) in [
        (json!({"content": "x", "role": "robot"}), "role"),
        (json!({"content": " "}), "content"),
        (json!({}), "content"),
        (json!({"content": "x", "source": "fax"}), "source"),
        (
            json!({"content": "x", "created_at": "yesterday"}),
            "created_at",
        ),
        (json!({"messages": []}), "messages"),
        (json!([]), "messages"),
        (
            json!([{"content": "x"}, {"content": ""}]),
            "messages[1].content",
        ),
        (json!({"content": "x", "messages": []}), "messages"),
        (json!({"content": "x", "file_sha256": "12"}), "file_sha256"),
        (
            json!({"messages": [{"content": "x"}], "with_context": true}),
            "with_context",
        ),
    ] {
        let reply = desk.app.post(&path, &body).await;
        reply.assert_problem(422, "invalid_request");
        assert_eq!(reply.json()["errors"][0]["field"], field, "{body}");
    }

    desk.app
        .post(&path, &json!([["user", "x"]]))
        .await
        .assert_problem(422, "invalid_request");
    desk.app
        .post("/v1/threads/none/messages", &json!({"content": "x"}))
        .await
        .assert_problem(404, "not_found");
    for (path, body, field) in [
        ("/v1/threads", json!({"id": "7"}), "id"),
        ("/v1/threads", json!({"title": ""}), "title"),
        (
            "/v1/memories",
            json!({"content": "x", "type": "message"}),
            "type",
        ),
        (
            "/v1/memories",
            json!({"content": "x", "importance": 1.2}),
            "importance",
        ),
        (
            "/v1/memories",
            json!({"content": "x", "topics": ["foo"]}),
            "topics",
        ),
        (
            "/v1/memories",
            json!({"content": "x", "category": "foo"}),
            "category",
        ),
        ("/v1/context", json!({"query": ""}), "query"),
        (
            "/v1/context",
            json!({"query": "x", "max_tokens": 1}),
            "max_tokens",
        ),
        (
            "/v1/context",
            json!({"query": "x", "user_id": ""}),
            "user_id",
        ),
    ] {
        let reply = desk.app.post(path, &body).await;
        reply.assert_problem(422, "invalid_request");
        assert_eq!(reply.json()["errors"][0]["field"], field, "{body}");
    }

    desk.app.finish().await;
}

/// A prepared statement keeps the types of the values of its first use, and a missing importance
/// has a type, too.
#[tokio::test]
async fn memories_with_and_without_importance_can_be_stored_and_changed() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        for round in 0..6 {
            let add = async |importance: Value| {
                let body =
                    json!({"user_id": "ann", "content": "Has a cat", "importance": importance});
                let reply = desk.app.post("/v1/memories", &body).await;
                assert_eq!(reply.status.as_u16(), 201, "{round} {}", reply.text);
                reply.json()["id"].as_str().unwrap().to_owned()
            };
            let plain = add(Value::Null).await;
            let rated = add(json!(0.5)).await;

            for (id, change, expected) in [
                (&plain, json!({"pinned": true}), Value::Null),
                (&plain, json!({"important": true}), json!(0.9)),
                (&rated, json!({"importance": 0.7}), json!(0.7)),
                (&rated, json!({"importance": null}), Value::Null),
            ] {
                let reply = desk.patch(&format!("/v1/memories/{id}"), &change).await;
                assert_eq!(reply.status.as_u16(), 200, "{round} {}", reply.text);
                assert_eq!(reply.json()["importance"], expected, "{change}");
            }
        }

        desk.app.finish().await;
    }
}

#[tokio::test]
async fn an_importance_may_be_missing_before_it_is_given() {
    for database in TestDatabase::each().await {
        let engine = database.engine;
        let desk = Desk::on(database, &[]).await;
        // A connection keeps its statements, also those that began with a missing number.
        for (importance, wanted) in [(Value::Null, Value::Null), (json!(0.7), json!(0.7))] {
            for n in 0..12 {
                let body = json!({"user_id": "ann", "content": format!("Fact {n}"), "importance": importance});
                let reply = desk.app.post("/v1/memories", &body).await;
                assert_eq!(reply.status.as_u16(), 201, "{engine:?}: {}", reply.text);
                assert_eq!(reply.json()["importance"], wanted, "{engine:?}");
            }
        }

        desk.app.finish().await;
    }
}

#[tokio::test]
async fn facts_can_be_replaced_and_restored() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        let add = async |body: Value| {
            let reply = desk.app.post("/v1/memories", &body).await;
            assert_eq!(reply.status.as_u16(), 201, "{}", reply.text);
            reply.json()
        };
        let old = add(json!({"user_id": "ann", "content": "Lives in Bonn", "created_at": "2025-01-01T00:00:00Z"})).await;
        let id = old["id"].as_str().unwrap();
        let new = add(json!({"user_id": "ann", "content": "Lives in Rome", "created_at": "2025-06-01T00:00:00Z", "supersedes": id})).await;
        assert_eq!(new["supersedes"], id);
        let texts = async |query: &str| {
            let list = desk
                .app
                .get(&format!("/v1/memories?user_id=ann{query}"))
                .await
                .json();
            let items = list["items"].as_array().unwrap().clone();
            items
                .iter()
                .map(|item| item["content"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(texts("").await, ["Lives in Rome"]);
        assert_eq!(
            texts("&as_of=2025-03-01T00:00:00Z").await,
            ["Lives in Bonn"]
        );
        assert_eq!(
            texts("&as_of=2025-07-01T00:00:00Z").await,
            ["Lives in Rome"]
        );
        assert_eq!(texts("&superseded=true").await.len(), 2);

        let path = format!("/v1/memories/{id}");
        assert_eq!(desk.memory(id).await["superseded_by"], new["id"]);
        let change = async |body: Value| {
            let reply = desk.patch(&path, &body).await;
            assert_eq!(reply.status.as_u16(), 200, "{body}: {}", reply.text);
            reply.json()
        };
        change(json!({"restore": true})).await;
        assert_eq!(texts("").await.len(), 2);

        let marked = change(json!({"important": true, "tags": ["home"]})).await;
        assert_eq!(marked["importance"], 0.9, "{marked}");
        assert_eq!(texts("&tag=home").await, ["Lives in Bonn"]);
        assert_eq!(desk.delete(&path).await.status.as_u16(), 200);
        assert_eq!(texts("&superseded=true").await, ["Lives in Rome"]);
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn a_memory_whose_labels_cannot_be_read_hides_nothing() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[("LLM__MODEL", "local:embedded")]).await;
        let thread = desk.thread("ann", None).await;
        for content in ["The boat lies in the harbour", "The harbour is cold"] {
            desk.say(&thread, &json!({"content": content, "enrich": false}))
                .await;
        }

        let broken = "UPDATE memories SET labels_json = '{\"tags\": 7}', evidence_json = '[' WHERE content LIKE '%boat%'";
        desk.app.database.execute(broken).await;
        let listed = desk.app.get("/v1/memories?user_id=ann&type=message").await;
        assert_eq!(listed.status, 200, "{}", listed.text);
        assert_eq!(listed.json()["items"].as_array().unwrap().len(), 2);
        let found = desk
            .context(&json!({"query": "the boat in the harbour", "user_id": "ann"}))
            .await;
        assert_eq!(found["memories"].as_array().unwrap().len(), 2);
        desk.app.finish().await;
    }
}
