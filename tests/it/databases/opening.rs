//! Opens copies of the stored databases with the current build.

use std::path::{Path, PathBuf};

use reqwest::Method;
use serde_json::{Value, json};

use super::{Caller, SETTINGS, STABLE, stored, text};
use crate::support::app::send;
use crate::support::database::TestDatabase;
use crate::support::ingest::Ingest;

fn folders() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(stored::folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    all.sort_unstable();
    assert!(!all.is_empty(), "there is no stored database");
    all
}

async fn load(folder: &Path, database: &TestDatabase) -> Value {
    stored::load(database, folder).await;
    let known = std::fs::read_to_string(stored::answers(folder, database.engine)).unwrap();
    serde_json::from_str(&known).unwrap()
}

#[tokio::test]
async fn a_database_of_an_earlier_build_is_migrated_read_and_continued() {
    for folder in folders() {
        for database in TestDatabase::each().await {
            eprintln!("{} {:?}", folder.display(), database.engine);
            let known = load(&folder, &database).await;

            // Without workers, so that nothing changes while it is read.
            let settings = [&SETTINGS[..], &[("JOBS__WORKERS", "0")]].concat();
            let ingest = Ingest::on(database, &settings).await;
            answers_as_before(&ingest, &known).await;
            finds_what_is_stored(&ingest, &known).await;
            replays_and_repeats(&ingest, &known).await;

            let ingest = ingest.restart(&SETTINGS).await;
            continues_the_work(&ingest, &known).await;
            takes_in_more(&ingest, &known).await;
            ingest.app.finish().await;
        }
    }
}

async fn answers_as_before(ingest: &Ingest, known: &Value) {
    let mut wrong = Vec::new();
    for (space, answers) in known["answers"].as_object().unwrap() {
        let caller = Caller {
            app: &ingest.app,
            space,
        };
        for (path, before) in answers.as_object().unwrap() {
            let now = caller.get(path).await;
            compare(&format!("{space} {path}"), before, &now, &mut wrong);
        }
    }

    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Lists what was there before and is not there now, or not the same.
fn compare(at: &str, before: &Value, now: &Value, wrong: &mut Vec<String>) {
    match (before, now) {
        // The defaults of the retrieval policy have changed, and with them their version.
        (Value::Object(before), _)
            if before.get("name") == Some(&"retrieval".into())
                && before.get("version") == Some(&0.into()) => {}
        (Value::Object(before), Value::Object(now)) => {
            for (name, value) in before {
                let at = format!("{at}.{name}");
                match (value, now.get(name)) {
                    (Value::Object(_) | Value::Array(_), Some(now)) => {
                        compare(&at, value, now, wrong);
                    }
                    (_, now) if STABLE.contains(&name.as_str()) && now != Some(value) => {
                        wrong.push(format!("{at}: {value} was {now:?}"));
                    }
                    _ => {}
                }
            }
        }
        (Value::Array(before), Value::Array(now)) => {
            for (place, value) in before.iter().enumerate() {
                let same = |other: &&Value| value["id"].is_null() || other["id"] == value["id"];
                let found = if value["id"].is_null() {
                    now.get(place)
                } else {
                    now.iter().find(same)
                };
                match found {
                    Some(now) => compare(&format!("{at}[{place}]"), value, now, wrong),
                    None => wrong.push(format!("{at}[{place}] is missing: {value}")),
                }
            }
        }
        // The text of a version.
        (Value::String(_), _) if before != now => wrong.push(format!("{at}: {before} was {now}")),
        _ => {}
    }
}

async fn finds_what_is_stored(ingest: &Ingest, known: &Value) {
    let here = Caller {
        app: &ingest.app,
        space: "default",
    };
    for kind in ["keyword", "semantic", "hybrid"] {
        let body = json!({"query": "the Fresnel lens of the lighthouse lamp", "type": kind});
        let found = here.post("/v1/search", &body).await;
        assert!(
            has(&found["items"], "source_id", &known["source_id"]),
            "{kind}: {found:#}"
        );

        let body = json!({
            "query": "a boat called Skua", "type": kind, "scope": "memories", "filters": {"user_id": "ann"},
        });
        let found = here.post("/v1/search", &body).await.to_string();
        assert!(found.contains("My boat is called Skua"), "{kind}: {found}");
        assert!(!found.contains("second space"), "{kind}: {found}");
    }

    let body = json!({"query": "When was the lighthouse built?", "reuse": false});
    let answer = here.post("/v1/queries", &body).await;
    assert!(text(&answer, "answer").contains("1843"), "{answer:#}");

    let body = json!({
        "query": "What is my boat called?", "user_id": "ann", "thread_id": known["thread_id"], "rank": "search",
    });
    let context = here.post("/v1/context", &body).await;
    assert!(text(&context, "context").contains("Skua"), "{context:#}");

    let body = json!({"meta": {"filename": "lighthouse.md"}, "user_id": "ann"});
    let document = here.post("/v1/documents/retrieve", &body).await;
    assert!(document.to_string().contains("raised in 1901"));
}

fn has(items: &Value, field: &str, wanted: &Value) -> bool {
    let mut items = items.as_array().unwrap().iter();
    items.any(|item| item[field] == *wanted)
}

async fn replays_and_repeats(ingest: &Ingest, known: &Value) {
    let here = Caller {
        app: &ingest.app,
        space: "default",
    };
    for query in known["queries"].as_array().unwrap() {
        let path = format!("/v1/queries/{}/replay", text(query, "id"));
        let replay = here.post(&path, &json!({"mode": "recorded"})).await;
        assert_eq!(replay["identical"], true, "{replay:#}");
        assert_eq!(replay["result"]["answer"], query["answer"], "{replay:#}");
    }

    for repeat in known["idempotent"].as_array().unwrap() {
        let request = here
            .request(Method::POST, &text(repeat, "path"))
            .header("idempotency-key", text(repeat, "key"));
        let reply = send(request.json(&repeat["body"])).await;
        assert_eq!(reply.status.as_u16(), repeat["status"], "{}", reply.text);
        assert_eq!(reply.json()["id"], repeat["id"], "{}", reply.text);
    }

    let request = ingest.app.request(Method::GET, "/v1/sources");
    let reply = send(request.bearer_auth(text(known, "key"))).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
}

async fn continues_the_work(ingest: &Ingest, known: &Value) {
    for job in known["queued"].as_array().unwrap() {
        let (space, id) = (text(job, "space"), text(job, "id"));
        let caller = Caller {
            app: &ingest.app,
            space: &space,
        };
        let job = caller.settled(&id).await;
        assert_eq!(job["state"], "succeeded", "{job:#}");
    }

    let here = Caller {
        app: &ingest.app,
        space: "default",
    };
    let failed = text(known, "failed");
    here.post(&format!("/v1/jobs/{failed}/retry"), &json!({}))
        .await;
    let awaiting = text(known, "awaiting");
    let helper = json!({"date": "unknown", "author": "unknown", "topic": "Walruses", "description": "A note about a walrus."});
    here.put(&format!("/v1/jobs/{awaiting}/helper"), &helper)
        .await;
    here.post(&format!("/v1/jobs/{awaiting}/helper/confirm"), &Value::Null)
        .await;
    for id in [failed, awaiting] {
        let job = here.settled(&id).await;
        assert_eq!(job["state"], "succeeded", "{job:#}");
    }

    // Also what was queued without a response, such as the classification of messages.
    let jobs = here.get("/v1/jobs?limit=200").await;
    for job in jobs["items"].as_array().unwrap() {
        let job = here.settled(&text(job, "id")).await;
        let ended = ["succeeded", "failed", "cancelled"];
        assert!(ended.contains(&job["state"].as_str().unwrap()), "{job:#}");
    }

    for (query, path) in [
        ("heron in the reeds", "/notes/queued.md"),
        ("lighthouse closed in 2020", "/notes/lighthouse.md"),
        ("the walrus on the pier", "/notes/waiting.md"),
    ] {
        let found = here.post("/v1/search", &json!({"query": query})).await;
        assert_eq!(found["items"][0]["path"], path, "{found:#}");
    }
}

async fn takes_in_more(ingest: &Ingest, known: &Value) {
    let here = Caller {
        app: &ingest.app,
        space: "default",
    };
    let body = json!({
        "path": "/notes/new.md", "text": "A puffin digs its burrow on the cliff.", "user_id": "ann", "wait": true,
    });
    let job = here.post("/v1/ingestions", &body).await;
    assert_eq!(job["state"], "succeeded", "{job:#}");
    let found = here
        .post("/v1/search", &json!({"query": "puffin burrow"}))
        .await;
    assert_eq!(found["items"][0]["path"], "/notes/new.md", "{found:#}");

    let path = format!("/v1/threads/{}/messages", text(known, "thread_id"));
    let said = json!({"role": "user", "content": "The puffin is my favourite bird."});
    here.post(&path, &said).await;
    let body = json!({
        "query": "favourite bird puffin", "scope": "memories", "filters": {"user_id": "ann"},
    });
    let found = here.post("/v1/search", &body).await.to_string();
    assert!(found.contains("my favourite bird"), "{found}");

    let source = format!("/v1/sources/{}", text(known, "source_id"));
    assert_eq!(here.get(&source).await["latest_version"], 4);
}
