//! Users: everything of one goes, and nothing brings it back.

use memoir::model::erasure::SubjectKind;
use memoir::scripted_model::Fault;
use serde_json::{Value, json};

use super::{MARK, all_noted, assert_gone, delete, hash, holders, ingest, keyed, marked_text};
use crate::support::app::TestApp;
use crate::support::database::TestDatabase;
use crate::support::ingest::{Ingest, document};

/// Writes everything that a user can have, with the mark in it.
async fn fill(app: &TestApp, user: &str) {
    ingest(app, &marked_text(user)).await;
    let body = json!({"user_id": user, "title": format!("About {MARK}")});
    let thread = keyed(app, "thread", "/v1/threads", &body).await.json();
    let thread = thread["id"].as_str().unwrap();
    let messages = format!("/v1/threads/{thread}/messages");
    let said =
        json!({"content": format!("I sail to {MARK} on Friday, with my dog."), "extract": true});
    let said = keyed(app, "message", &messages, &said).await;
    assert_eq!(said.status, 201, "{}", said.text);
    let memory = json!({"user_id": user, "content": format!("Likes {MARK}"), "tags": [MARK]});
    let memory = keyed(app, "memory", "/v1/memories", &memory).await;
    assert_eq!(memory.status, 201, "{}", memory.text);
    let question = json!({"query": format!("Where is {MARK}?"), "user_id": user, "scope": "both"});
    let asked = keyed(app, "query", "/v1/queries", &question).await;
    assert_eq!(asked.status, 200, "{}", asked.text);
    let mut later = question.clone();
    later["wait"] = json!(false);
    assert_eq!(app.post("/v1/queries", &later).await.status, 202);
    let context = json!({"query": format!("When do I go to {MARK}?"), "user_id": user});
    assert_eq!(app.post("/v1/context", &context).await.status, 200);
}

#[tokio::test]
async fn a_deleted_user_leaves_nothing() {
    for noted in [true, false] {
        for database in TestDatabase::each().await {
            let app = TestApp::on(database, &[]).await;
            if noted {
                all_noted(&app).await;
            }

            let user = format!("ann-{MARK}");
            fill(&app, &user).await;
            // Another caller, who asks about everything.
            let question = json!({"query": "Who lights the lamp of the lighthouse?"});
            let other = app.post("/v1/queries", &question).await.json();
            assert!(other.to_string().contains(MARK), "{other:#}");

            let receipt = delete(&app, &format!("/v1/users/{user}")).await;
            for kind in [
                "threads", "messages", "memories", "terms", "vectors", "jobs", "sources",
            ] {
                assert!(receipt[kind].as_u64() > Some(0), "{kind}: {receipt}");
            }
            assert!(receipt["stored_responses"].as_u64() >= Some(4), "{receipt}");
            assert_eq!(receipt["subject_sha256"], hash(SubjectKind::User, &user));
            assert!(!receipt.to_string().contains(MARK));
            assert_gone(&app, MARK).await;

            let id = other["id"].as_str().unwrap();
            let kept = app.get(&format!("/v1/queries/{id}")).await.json();
            assert_eq!(kept["state"], "erased", "{kept:#}");
            let all = app.get("/v1/queries").await.json();
            assert_eq!(all["items"].as_array().unwrap().len(), 1, "{all:#}");
            let body = json!({"user_id": user, "title": format!("About {MARK}")});
            let again = keyed(&app, "thread", "/v1/threads", &body).await;
            again.assert_problem(410, "erased");
            app.finish().await;
        }
    }
}

#[tokio::test]
async fn work_that_is_queued_for_a_deleted_user_is_cancelled() {
    for database in TestDatabase::each().await {
        let ingest = Ingest::on(database, &[("JOBS__WORKERS", "1")]).await;
        ingest.model.always(Fault::Stall);
        let body = |number: usize| {
            let more = json!({"user_id": "ann", "path": format!("/{MARK}/{number}.md")});
            document(&["A"], &more)
        };
        let mut ids = Vec::new();
        for number in 0..3 {
            ids.push(ingest.queue(&body(number)).await);
        }
        assert!(
            ingest
                .model
                .wait_for_requests(1, std::time::Duration::from_secs(5))
                .await
        );

        let receipt = delete(&ingest.app, "/v1/users/ann").await;
        assert_eq!(receipt["jobs"], 3, "{receipt}");
        assert_gone(&ingest.app, MARK).await;
        for id in &ids {
            let gone = ingest.app.get(&format!("/v1/jobs/{id}")).await;
            gone.assert_problem(404, "not_found");
        }

        // The worker goes on with others, and nothing comes back.
        ingest.model.clear_faults();
        ingest.succeed(&document(&["B"], &json!({}))).await;
        assert_gone(&ingest.app, MARK).await;
        let sources = ingest.app.get("/v1/sources?user_id=ann").await.json();
        assert_eq!(sources["items"], json!([]));
    }
}

#[tokio::test]
async fn what_failed_and_waits_goes_too() {
    let ingest = Ingest::with(&[("JOBS__MAX_ATTEMPTS", "1")]).await;
    let more = json!({"user_id": "ann", "path": format!("/{MARK}.md")});
    ingest.model.always(Fault::Status {
        status: 400,
        headers: std::collections::BTreeMap::default(),
        body: format!("cannot read {MARK}"),
    });
    let failed = ingest.run(&document(&["A"], &more)).await;
    assert_eq!(failed["state"], "failed", "{failed:#}");
    assert!(!holders(&ingest.app.database, MARK).await.is_empty());
    delete(&ingest.app, "/v1/users/ann").await;
    assert_gone(&ingest.app, MARK).await;
}

/// White space around the id of a user does not count, wherever it stands.
#[tokio::test]
async fn one_rule_for_the_ids_of_users() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        ingest(&app, &marked_text(" sp ")).await;
        let thread = app.post("/v1/threads", &json!({"user_id": "sp "})).await;
        assert_eq!(thread.json()["user_id"], "sp");
        let count = async |path: &str| {
            let list: Value = app.get(path).await.json();
            list["items"].as_array().map(Vec::len)
        };
        for path in ["/v1/sources", "/v1/threads", "/v1/queries"] {
            let spaced = count(&format!("{path}?user_id=%20sp%20")).await;
            assert_eq!(spaced, count(&format!("{path}?user_id=sp")).await, "{path}");
        }
        let id = thread.json()["id"].as_str().unwrap().to_owned();
        let own = app.get(&format!("/v1/threads/{id}?user_id=sp%20")).await;
        assert_eq!(own.status, 200, "{}", own.text);

        let receipt = delete(&app, "/v1/users/sp%20").await;
        assert_eq!(
            (&receipt["sources"], &receipt["threads"]),
            (&json!(1), &json!(1)),
            "{receipt}"
        );
        assert_eq!(receipt["subject_sha256"], hash(SubjectKind::User, "sp"));
        let none = crate::support::app::send(app.request(reqwest::Method::DELETE, "/v1/users/%20"));
        none.await.assert_problem(422, "invalid_request");
        app.finish().await;
    }
}

/// A new field with the id of a user must follow the rule.
#[test]
fn every_field_with_the_id_of_a_user_follows_the_rule() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let areas = [
        "conversation/memories.rs",
        "queries/input.rs",
        "sources/mod.rs",
        "workbench/input.rs",
    ];
    let mut files: Vec<_> = areas.map(|file| root.join(file)).into();
    let mut folders = vec![root.join("http/routes")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }

    let mut fields = 0;
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (place, line) in lines.iter().enumerate() {
            if !line
                .trim_start_matches("pub ")
                .trim()
                .ends_with("user_id: Option<String>,")
            {
                continue;
            }

            let above = &lines[place.saturating_sub(12)..place];
            let is_shown = lines[..place]
                .iter()
                .rfind(|line| line.contains("struct "))
                .is_some_and(|line| line.contains("Response") || line.contains("QuerySettings"));
            let is_trimmed = above.iter().any(|line| line.contains("user_id::trimmed"));
            assert!(is_shown || is_trimmed, "{}:{}", file.display(), place + 1);
            fields += usize::from(is_trimmed);
        }
    }

    assert!(fields >= 18, "{fields}");
}

/// Calls are written a moment after they were made; not after the deletion.
#[tokio::test]
async fn the_call_of_a_context_just_before_is_deleted_too() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        for attempt in 0..5 {
            let context = json!({"query": "Where do I sail on Friday?", "user_id": "ann"});
            let asked = app.post("/v1/context", &context).await;
            assert_eq!(asked.status, 200, "{}", asked.text);
            delete(&app, "/v1/users/ann").await;
            let again = delete(&app, "/v1/users/ann").await;
            let left = &again["removed"]["llm_calls"];
            assert!(left.as_u64().unwrap_or(0) == 0, "{attempt}: {again}");
        }
        app.finish().await;
    }
}

/// A receipt that the deletion of a source has emptied still names its user.
#[tokio::test]
async fn receipts_that_were_emptied_before_are_deleted_too() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        all_noted(&app).await;
        let user = format!("ann-{MARK}");
        let source = ingest(&app, &marked_text(&user)).await;
        let question = json!({"query": "Who lights the lamp?", "user_id": user});
        let key = format!("{user}:1");
        let asked = keyed(&app, &key, "/v1/queries", &question).await;
        assert_eq!(asked.status, 200, "{}", asked.text);
        delete(&app, &format!("/v1/sources/{source}")).await;
        let again = keyed(&app, &key, "/v1/queries", &question).await;
        again.assert_problem(410, "erased");
        let path = format!("/v1/queries?user_id={user}");
        let kept = app.get(&path).await.json();
        assert_eq!(kept["items"][0]["state"], "erased", "{kept:#}");

        delete(&app, &format!("/v1/users/{user}")).await;
        assert_eq!(app.get(&path).await.json()["items"], json!([]));
        assert_gone(&app, MARK).await;
        app.finish().await;
    }
}

/// Clients make keys of the ids of people. Earlier builds stored keys as they were sent.
#[tokio::test]
async fn an_idempotency_key_of_an_earlier_build_is_found_and_becomes_its_hash() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        let user = format!("ann-{MARK}");
        ingest(&app, &marked_text(&user)).await;
        let question = json!({"query": "Who lights the lamp?", "user_id": user});
        let body = json!({"user_id": user, "title": "Lamps"});
        let mut first = Vec::new();
        for (path, body) in [("/v1/queries", &question), ("/v1/threads", &body)] {
            let key = format!("{MARK}:{path}");
            let reply = keyed(&app, &key, path, body).await;
            assert!(reply.status.is_success(), "{}", reply.text);
            let hash = memoir_text::hash::sha256_hex(key.as_bytes());
            for table in [
                "idempotency_keys SET idempotency_key",
                "text_uses SET holder_id",
            ] {
                let column = table.rsplit(' ').next().unwrap();
                let sql = format!("UPDATE {table} = '{key}' WHERE {column} = 'sha256 {hash}'");
                app.database.execute(&sql).await;
            }

            let again = keyed(&app, &key, path, body).await;
            assert_eq!(again.text, reply.text);
            assert_eq!(again.header("idempotency-replayed"), "true");
            first.push((key, path, body, reply));
        }
        let found = holders(&app.database, MARK).await;
        assert!(
            found.contains(&"idempotency_keys.idempotency_key".to_owned()),
            "{found:?}"
        );

        delete(&app, &format!("/v1/users/{user}")).await;
        assert_gone(&app, MARK).await;
        for (key, path, body, _) in first {
            let again = keyed(&app, &key, path, body).await;
            again.assert_problem(410, "erased");
        }
        app.finish().await;
    }
}

/// A key that holds nothing of the user still names them.
#[tokio::test]
async fn no_table_holds_an_idempotency_key_as_it_was_sent() {
    for database in TestDatabase::each().await {
        let app = TestApp::on(database, &[]).await;
        let body = json!({"user_id": "ann", "title": "Lamps"});
        let created = keyed(&app, MARK, "/v1/threads", &body).await;
        assert_eq!(created.status, 201, "{}", created.text);
        let question = json!({"query": "Who lights the lamp?", "user_id": "ann"});
        let asked = keyed(&app, &format!("{MARK}-2"), "/v1/queries", &question).await;
        assert_eq!(asked.status, 200, "{}", asked.text);
        assert_gone(&app, MARK).await;
        app.finish().await;
    }
}
