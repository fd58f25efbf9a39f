//! `memoir chat import`, run as a user runs it.

use std::process::Command;

use memoir::config::database::Engine;
use memoir::scripted_model::Reply as ModelReply;
use serde_json::{Value, json};

use super::Desk;
use crate::support::app::TestApp;
use crate::support::database::TestDatabase;
use crate::support::ingest::count;

fn import(desk: &Desk, file: &std::path::Path, more: &[&str]) -> (bool, String, String) {
    let more: Vec<&str> = ["--no-enrich"].iter().chain(more).copied().collect();
    import_into(&desk.app, file, &more)
}

fn import_into(app: &TestApp, file: &std::path::Path, more: &[&str]) -> (bool, String, String) {
    let server = format!("http://{}", app.address);
    let output = Command::new(env!("CARGO_BIN_EXE_memoir"))
        .args(["chat", "import"])
        .arg(file)
        .args(["--user", "ann", "--server", &server])
        .args(more)
        .env_clear()
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.success(),
        text(output.stdout),
        text(output.stderr),
    )
}

async fn messages(desk: &Desk, title: &str) -> Vec<Value> {
    let threads = desk.app.get("/v1/threads?user_id=ann").await.json();
    let threads = threads["items"].as_array().unwrap().clone();
    let thread = threads.iter().find(|thread| thread["title"] == title);
    let id = thread.unwrap()["id"].as_str().unwrap();
    let path = format!("/v1/threads/{id}/messages?limit=500");
    let list = desk.app.get(&path).await.json();
    list["items"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_imported_once_however_often_it_is_sent() {
    let desk = Desk::open().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("turns.jsonl");
    let lines: Vec<String> = (0..1203)
        .map(|number| {
            let role = if number % 2 == 0 { "user" } else { "assistant" };
            json!({"thread": "long", "role": role, "content": "ok", "created_at": "2024-05-01T10:00:00Z"})
                .to_string()
        })
        .collect();
    std::fs::write(&file, lines.join("\n")).unwrap();
    let (succeeded, told, problem) = import(&desk, &file, &[]);
    assert!(succeeded, "{problem}");
    assert_eq!(
        told,
        "1 thread(s): 1203 message(s) stored, 0 already there, 0 skipped\n"
    );
    assert!(problem.contains("thread 1/1: 1203 of 1203"), "{problem}");

    let (_, again, _) = import(&desk, &file, &["--json"]);
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(
        (&again["stored"], &again["duplicates"]),
        (&json!(0), &json!(1203))
    );
    desk.app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_between_people_keeps_who_spoke() {
    let desk = Desk::open().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("family.txt");
    let chat = "[29.12.2023, 00:51:12] Ann Lee: I bought a kayak\nin blue\n\
                [29.12.2023, 00:51:40] Bob: Nice\n";
    std::fs::write(&file, chat).unwrap();
    let (succeeded, _, problem) = import(&desk, &file, &["--me", "Ann Lee"]);
    assert!(succeeded, "{problem}");
    let stored = messages(&desk, "family").await;
    let shown: Vec<Value> = stored
        .iter()
        .map(|one| json!([one["role"], one["name"], one["content"]]))
        .collect();
    assert_eq!(
        shown,
        [
            json!(["user", "Ann Lee", "I bought a kayak\nin blue"]),
            json!(["assistant", "Bob", "Nice"]),
        ]
    );
    assert_eq!(stored[0]["created_at"], "2023-12-29T00:51:12.000000Z");

    // A question finds who spoke.
    let ask = json!({"query": "Bob", "scope": "memories", "type": "keyword", "filters": {"user_id": "ann"}});
    let found = desk.app.post("/v1/search", &ask).await.json();
    assert_eq!(found["items"][0]["text_content"], "Nice", "{found}");

    let other = folder.path().join("other.txt");
    std::fs::write(&other, "only a text").unwrap();
    let (succeeded, _, problem) = import(&desk, &other, &[]);
    assert!(!succeeded, "{problem}");
    for word in ["--format", "JSON Lines", "ChatGPT", "Claude", "WhatsApp"] {
        assert!(problem.contains(word), "{problem}");
    }
    desk.app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_suggests_the_preset_that_fits_better_than_the_built_in_vocabulary() {
    let app = TestApp::on(TestDatabase::sqlite(), &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let import = |name: &str, texts: &[&str], more: &[&str]| {
        let file = folder.path().join(name);
        let lines = texts
            .iter()
            .map(|text| json!({"role": "user", "content": text}).to_string());
        std::fs::write(&file, lines.collect::<Vec<_>>().join("\n")).unwrap();
        let (succeeded, told, problem) = import_into(&app, &file, more);
        assert!(succeeded, "{problem}");
        told
    };
    let life = [
        "My grandson lost his first tooth.",
        "I boiled twelve jars of plum jam.",
        "The doctor changed my blood pressure pills.",
        "Our dog is afraid of thunderstorms.",
        "We hiked across the moor on Saturday.",
        "I am reading a novel about Vikings.",
    ];
    let told = import("life.jsonl", &life, &[]);
    let call = r#"POST /v1/admin/vocabulary/preset {"name": "personal"}"#;
    assert!(
        told.contains(call) && told.contains("of 6 messages"),
        "{told}"
    );
    let told = import("again.jsonl", &life, &["--json"]);
    let result: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(result["suggested_preset"], "personal", "{told}");

    let customers = [
        "I want a refund for the lamp.",
        "When is the shipping of my order?",
        "My payment failed.",
        "How do I cancel the subscription?",
        "Where do I find my billing address?",
    ];
    let told = import("customers.jsonl", &customers, &[]);
    assert!(!told.contains("preset"), "{told}");
    let told = import("quiet.jsonl", &life, &["--no-enrich"]);
    assert!(!told.contains("preset"), "{told}");

    // A vocabulary that was chosen is not questioned.
    let chosen = json!({"name": "project"});
    app.post("/v1/admin/vocabulary/preset", &chosen).await;
    let told = import("later.jsonl", &life, &["--json"]);
    let result: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(result["suggested_preset"], Value::Null, "{told}");
    app.finish().await;
}

#[tokio::test]
async fn the_messages_of_a_thread_are_listed_by_turn_whatever_their_times() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        let thread = desk.thread("ann", None).await;
        let (late, early) = ("2025-05-01T10:00:00Z", "2024-05-01T10:00:00Z");
        let said = json!([
            {"content": "one", "created_at": late},
            {"role": "assistant", "content": "one, answered", "created_at": early},
            {"content": "two", "created_at": late},
            {"role": "assistant", "content": "two, answered", "created_at": late},
            {"content": "three", "created_at": early},
        ]);
        desk.say(&thread, &json!({"messages": said, "enrich": false}))
            .await;
        desk.say(&thread, &json!({"content": "four", "enrich": false}))
            .await;

        let mut order = [
            "one",
            "one, answered",
            "two",
            "two, answered",
            "three",
            "four",
        ];
        for newest_first in [false, true] {
            let mut listed = Vec::new();
            let mut cursor = String::new();
            loop {
                let path = format!(
                    "/v1/threads/{thread}/messages?limit=2&newest_first={newest_first}{cursor}"
                );
                let page = desk.app.get(&path).await.json();
                let items = page["items"].as_array().unwrap().iter();
                listed.extend(items.map(|one| one["content"].as_str().unwrap().to_owned()));
                match page["next_cursor"].as_str() {
                    Some(next) => cursor = format!("&cursor={next}"),
                    None => break,
                }
            }

            assert_eq!(listed, order);
            order.reverse();
        }

        // A summary takes the oldest turns, too.
        let more: Vec<Value> = (5..9).map(|n| json!({"content": format!("{n}")})).collect();
        desk.say(&thread, &json!({"messages": more, "enrich": false}))
            .await;
        desk.model.set_rule(|seen| match seen.stage.as_str() {
            "rollup" => ModelReply::json(json!({"title": "Early", "summary": "One."})),
            _ => ModelReply::sensible(seen),
        });
        let path = format!("/v1/threads/{thread}/summaries");
        let reply = desk.app.post(&path, &json!({"until_turn": 1})).await;
        assert_eq!(reply.status.as_u16(), 201, "{}", reply.text);
        let asked = desk.seen("rollup").pop().unwrap();
        assert!(
            asked.user.find("one").unwrap() < asked.user.find("one, answered").unwrap()
                && !asked.user.contains("two"),
            "{}",
            asked.user
        );
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn an_import_of_more_vectors_than_allowed_is_stored_on_postgres() {
    // Its plans are the worst right after an import; the other engines take the order that is named.
    let all = TestDatabase::each().await.into_iter();
    for database in all.filter(|database| database.engine == Engine::Postgres) {
        let desk = Desk::on(database, &[]).await;
        let thread = desk.thread("ann", None).await;
        for batch in 0..6 {
            let said: Vec<Value> = (0..1000)
                .map(|n| json!({"content": format!("Note {batch} {n}"), "created_at": "2025-05-01T10:00:00Z"}))
                .collect();
            let stored = desk
                .say(&thread, &json!({"messages": said, "enrich": false}))
                .await;
            assert_eq!(stored["stored"], 1000);
        }

        let vectors = "SELECT COUNT(*) FROM embeddings WHERE owner_kind = 'memory'";
        assert_eq!(count(&desk.app.database, vectors).await, 5000);
        let entries = "SELECT COUNT(*) FROM search_entries WHERE owner_kind = 'memory'";
        assert_eq!(count(&desk.app.database, entries).await, 6000);
        desk.app.finish().await;
    }
}
