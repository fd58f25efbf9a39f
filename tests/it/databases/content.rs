//! What the stored databases contain: something of every kind, in two spaces and of two users.

use memoir::scripted_model::{Fault, Reply};
use reqwest::Method;
use serde_json::{Value, json};

use super::{Caller, stable, text};
use crate::conversation::answering;
use crate::support::app::{TestApp, send};
use crate::support::ingest::Ingest;

/// Several lines, quotation marks, backslashes, a semicolon at the end of a line, and characters of
/// every length in UTF-8.
const LIGHTHOUSE: &str = "# The lighthouse\n\nThe lighthouse on the northern cape was built in 1843;\n\
    its lamp is a \"Fresnel lens\" of 1.2 m. The keeper's log says: 'C:\\logs\\1843' 🗼 — ça marche.\n\n\
    # The harbour\n\nThe harbour freezes from December to March. Boats wait in the bay until the ice breaks.\n\n\
    # The pilots\n\nTwo pilots guide every ship through the strait. They are paid per metre of length.\n";
const TEXTS: [(&str, &str, &str); 5] = [
    (
        "/notes/bread.md",
        "Sourdough bread",
        "Feed the sourdough starter with rye flour every morning. Bake the loaf at 230 degrees for forty minutes.",
    ),
    (
        "/notes/taxes.md",
        "Income tax",
        "The income tax return is due on the thirty-first of July. Deduct travel expenses and the home office.",
    ),
    (
        "/notes/violin.md",
        "Violin practice",
        "Practise the violin scales slowly with a metronome. The second concerto needs a softer bow.",
    ),
    (
        "/notes/garden.md",
        "The garden",
        "Prune the apple trees in February. The tomatoes need warm soil and plenty of compost.",
    ),
    (
        "/notes/engine.md",
        "The boat engine",
        "The diesel engine of the boat needs an oil change after 200 hours. The impeller was replaced in May.",
    ),
];

/// Fills the spaces, and returns what a later build is asked to do with them.
pub async fn write(ingest: &Ingest) -> Value {
    let here = Caller {
        app: &ingest.app,
        space: "default",
    };
    let known = json!({
        "source_id": sources(here).await,
        "thread_id": conversation(ingest, here).await,
        "failed": failed(ingest, here).await,
        "awaiting": awaiting(here).await,
        "queries": queries(here).await,
        "idempotent": idempotent(here).await,
        "key": key(here).await,
    });

    settings(here).await;
    reads(here, &known).await;
    second(&ingest.app).await;
    known
}

async fn ingested(here: Caller<'_>, body: Value) -> Value {
    let mut body = body;
    body["wait"] = json!(true);
    let job = here.post("/v1/ingestions", &body).await;
    assert_eq!(job["state"], "succeeded", "{job:#}");
    job
}

/// Sources of two users with versions, tags, metadata, helpers and categories. Returns the one with
/// three versions.
async fn sources(here: Caller<'_>) -> String {
    let options = json!({"chunk_min_tokens": 10, "chunk_max_tokens": 40});
    let mut lighthouse = json!({
        "path": "/notes/lighthouse.md", "text": LIGHTHOUSE, "user_id": "ann", "tags": ["coast", "history"],
        "title": "The lighthouse", "topic": "Lighthouses", "note": "Copied from the log.", "author": "Ada Example",
        "date": "1843-05-01", "provider": "archive", "mtime": "2025-06-01T10:00:00Z", "options": options,
    });
    let first = ingested(here, lighthouse.clone()).await;
    let id = text(&first, "source_id");
    lighthouse["text"] =
        json!(LIGHTHOUSE.replace("built in 1843", "built in 1843 and raised in 1901"));
    ingested(here, lighthouse.clone()).await;
    ingested(here, lighthouse).await;

    for (path, title, content) in TEXTS {
        ingested(
            here,
            json!({"path": path, "title": title, "text": content, "user_id": "ann"}),
        )
        .await;
    }

    let of_ben = json!({"path": "/notes/bread.md", "text": "Ben bakes rye bread on Fridays.", "user_id": "ben"});
    let of_ben = text(&ingested(here, of_ben).await, "source_id");
    let keyword = json!({
        "path": "/notes/raw.txt", "text": "Stored without any index.", "options": {"indexes": []},
    });
    ingested(here, keyword).await;

    let helper = json!({"text": "Ben's notes about bread, in his own words."});
    here.put(&format!("/v1/sources/{of_ben}/helper"), &helper)
        .await;
    let hidden = ingested(
        here,
        json!({"path": "/notes/old.md", "text": "An outdated list of boats."}),
    )
    .await;
    here.patch(
        &format!("/v1/sources/{}", text(&hidden, "source_id")),
        &json!({"eligible": false}),
    )
    .await;

    let roots = here.get("/v1/categories?level=1").await;
    let root = roots["items"][0]["id"].as_i64().unwrap();
    here.patch(
        &format!("/v1/categories/{root}"),
        &json!({"name": "Renamed by a user"}),
    )
    .await;
    id
}

/// Threads, messages, facts, preferences and a summary, with a vocabulary and a lexicon.
async fn conversation(ingest: &Ingest, here: Caller<'_>) -> String {
    ingest.model.set_rule(answering(classify, Value::Null));
    here.put(
        "/v1/vocabulary",
        &json!({
            "topics": ["boats", "baking", "music"], "categories": ["question", "statement"],
            "message_types": ["request", "statement"], "entity_types": ["person", "place"],
        }),
    )
    .await;
    here.put(
        "/v1/lexicon",
        &json!({"entries": [{"term": "NVH", "alias": "vehicle acoustics"}]}),
    )
    .await;

    let thread = here
        .post(
            "/v1/threads",
            &json!({"user_id": "ann", "title": "Boats and \"bread\""}),
        )
        .await;
    let thread = text(&thread, "id");
    let path = format!("/v1/threads/{thread}/messages");
    let mut list = vec![
        json!({"role": "user", "content": "My name is Ann and I live in Bergen.\nMy boat is called Skua;\nI like rye bread."}),
        json!({"role": "assistant", "content": "Nice to meet you, Ann. Skua is a fine name for a boat."}),
    ];
    for turn in 1..=8 {
        list.push(json!({"role": "user", "content": format!("Question {turn}: when do I change the oil of the engine?"), "tags": ["engine"]}));
        list.push(json!({"role": "assistant", "content": format!("Answer {turn}: after 200 hours, Ann.")}));
    }

    here.post(&path, &json!({"messages": list, "extract": true}))
        .await;
    here.post(
        &format!("/v1/threads/{thread}/summaries"),
        &json!({"until_turn": 3, "pinned": true}),
    )
    .await;

    let fact = json!({"user_id": "ann", "type": "fact", "content": "Ann's boat is nine metres long.", "topics": ["boats"], "importance": 0.8});
    let fact = text(&here.post("/v1/memories", &fact).await, "id");
    here.post("/v1/memories", &json!({"user_id": "ann", "type": "fact", "content": "Ann's boat is ten metres long.", "supersedes": fact})).await;
    here.post("/v1/memories", &json!({"user_id": "ann", "type": "preference", "content": "Ann prefers short answers.", "tags": ["style"]})).await;

    let other = here
        .post(
            "/v1/threads",
            &json!({"user_id": "ben", "title": "Ben's thread"}),
        )
        .await;
    let other = format!("/v1/threads/{}/messages", text(&other, "id"));
    here.post(
        &other,
        &json!({"role": "user", "content": "I play the violin on Sundays."}),
    )
    .await;
    settle(here).await;
    thread
}

/// Entities, and suggestions for the vocabulary.
fn classify(message: &str) -> Value {
    let mut found = json!({
        "topics": ["boats"], "category": "statement", "message_type": "statement", "entities": [],
        "importance": 0.7, "confidence": "high",
    });
    if message.contains("Skua") {
        found["entities"] =
            json!([{"type": "person", "value": "Ann"}, {"type": "place", "value": "Bergen"}]);
    }
    if message.contains("oil") {
        found["confidence"] = json!("low");
        found["suggested_topic"] = json!("engines");
        found["suggested_category"] = json!("maintenance");
    }

    found
}

/// Waits until nothing runs.
async fn settle(here: Caller<'_>) {
    let jobs = here.get("/v1/jobs?limit=200").await;
    for job in jobs["items"].as_array().unwrap() {
        here.settled(&text(job, "id")).await;
    }
}

/// A job that failed after it had begun.
async fn failed(ingest: &Ingest, here: Caller<'_>) -> String {
    ingest.model.set_rule(|seen| match seen.stage.as_str() {
        "helper" => Reply::sensible(seen),
        _ => Reply::fault(Fault::RawText {
            text: "{}".to_owned(),
        }),
    });
    let body = json!({
        "path": "/notes/failed.md", "text": "A text whose filing fails.", "user_id": "ann",
        "options": {"model": "openai_stub:m"}, "wait": true,
    });
    let job = here.post("/v1/ingestions", &body).await;
    assert_eq!(job["state"], "failed", "{job:#}");
    ingest.model.set_rule(Reply::sensible);
    text(&job, "id")
}

/// A job that waits for a helper, and one that was cancelled while it waited.
async fn awaiting(here: Caller<'_>) -> String {
    let mut ids = Vec::new();
    for path in ["/notes/cancelled.md", "/notes/waiting.md"] {
        let body = json!({
            "path": path, "text": "A walrus sleeps on the pier.", "user_id": "ann",
            "auto_source_identification": false,
        });
        let id = text(&here.post("/v1/ingestions", &body).await, "id");
        assert_eq!(here.settled(&id).await["state"], "awaiting_helper");
        ids.push(id);
    }

    here.post(&format!("/v1/jobs/{}/cancel", ids[0]), &json!({}))
        .await;
    ids.remove(1)
}

/// Queries of all kinds: answered, only retrieved, by a walk, as a job. Returns their results.
async fn queries(here: Caller<'_>) -> Value {
    let mut results = Vec::new();
    for body in [
        json!({"query": "When was the lighthouse built?", "user_id": "ann"}),
        json!({"query": "When was the lighthouse built?", "mode": "retrieve", "strategy": "wide_branch", "n": 2}),
        json!({"query": "Who bakes rye bread?", "strategy": "one_shot", "user_id": "ben"}),
    ] {
        let result = here.post("/v1/queries", &body).await;
        results.push(json!({
            "id": result["id"], "answer": result["answer"], "chunks": result["used_chunks"],
        }));
    }

    let job = here
        .post(
            "/v1/queries",
            &json!({"query": "When are the apple trees pruned?", "wait": false}),
        )
        .await;
    here.settled(&text(&job, "id")).await;
    Value::Array(results)
}

/// Requests with an idempotency key, each with its response.
async fn idempotent(here: Caller<'_>) -> Value {
    let mut all = Vec::new();
    for (key, path, body) in [
        (
            "kept-source",
            "/v1/sources",
            json!({"path": "/notes/empty.md", "tags": ["empty"]}),
        ),
        (
            "kept-query",
            "/v1/queries",
            json!({"query": "How is the sourdough fed?"}),
        ),
        (
            "kept-thread",
            "/v1/threads",
            json!({"user_id": "ben", "title": "Kept"}),
        ),
    ] {
        let request = here
            .request(Method::POST, path)
            .header("idempotency-key", key)
            .json(&body);
        let reply = send(request).await;
        assert!(reply.status.is_success(), "{}", reply.text);
        let id = &reply.json()["id"];
        all.push(json!({"key": key, "path": path, "body": body, "status": reply.status.as_u16(), "id": id}));
    }

    Value::Array(all)
}

async fn key(here: Caller<'_>) -> String {
    let body = json!({"name": "reader", "role": "read", "limits": {"requests_per_minute": 600}});
    text(&here.post("/v1/admin/keys", &body).await, "secret")
}

/// A policy and a workspace, of two versions each.
async fn settings(here: Caller<'_>) {
    for top_k in [5, 7] {
        let policy = json!({"retrieval": {"topK": top_k, "enableRedaction": true}, "redaction": {"builtIn": ["iban"]}});
        here.put("/v1/admin/memory-settings", &policy).await;
        let rules = format!("Answer in {top_k} sentences.\nNever guess;\n");
        here.put(
            "/v1/workspace",
            &json!({"hard_rules": rules, "project_memory": "Memoir is written in Rust."}),
        )
        .await;
    }
}

/// What leaves records of its own: contexts, retrievals and prompts.
async fn reads(here: Caller<'_>, known: &Value) {
    let thread = &known["thread_id"];
    here.post(
        "/v1/context",
        &json!({"query": "What is my boat called?", "user_id": "ann", "thread_id": thread}),
    )
    .await;
    here.post(
        "/v1/memory/retrieve",
        &json!({"userId": "ann", "sessionId": thread, "useMemory": true, "query": "What is my boat called?"}),
    )
    .await;
    here.post(
        "/v1/prompts",
        &json!({"task": "Plan the oil change.", "user_id": "ann", "thread_id": thread}),
    )
    .await;
    here.post(
        "/v1/prompts/send",
        &json!({"prompt": "Name one lighthouse."}),
    )
    .await;
}

async fn second(app: &TestApp) {
    let there = Caller {
        app,
        space: "second",
    };
    ingested(
        there,
        json!({"path": "/notes/lighthouse.md", "text": "Another lighthouse, of another space.", "user_id": "ann"}),
    )
    .await;
    let thread = there.post("/v1/threads", &json!({"user_id": "ann"})).await;
    let path = format!("/v1/threads/{}/messages", text(&thread, "id"));
    there
        .post(
            &path,
            &json!({"role": "user", "content": "I am the Ann of the second space."}),
        )
        .await;
    there
        .post("/v1/queries", &json!({"query": "Which lighthouse is it?"}))
        .await;
    settle(there).await;
}

/// Queues work of every kind, which nobody runs.
pub async fn queue(app: &TestApp, known: &Value) -> Value {
    let here = Caller {
        app,
        space: "default",
    };
    let there = Caller {
        app,
        space: "second",
    };

    let message = format!("/v1/threads/{}/messages", text(known, "thread_id"));
    let said =
        json!({"role": "user", "content": "I sold the Skua and bought a kayak.", "extract": true});
    here.post(&message, &said).await;

    let new = json!({"path": "/notes/queued.md", "text": "A heron stands in the reeds.", "user_id": "ann"});
    let version =
        json!({"source_id": known["source_id"], "text": "The lighthouse was closed in 2020."});
    let query = json!({"query": "What does the heron do?", "wait": false});
    let other = json!({"path": "/notes/queued.md", "text": "An otter swims.", "user_id": "ann"});
    let mut jobs = Vec::new();
    for (caller, path, body) in [
        (here, "/v1/ingestions", new),
        (here, "/v1/ingestions", version),
        (here, "/v1/queries", query),
        (there, "/v1/ingestions", other),
    ] {
        let job = caller.post(path, &body).await;
        jobs.push(json!({"space": caller.space, "id": text(&job, "id")}));
    }

    Value::Array(jobs)
}

/// What the service answers about a space, by path.
pub async fn read(app: &TestApp, space: &str) -> Value {
    let caller = Caller { app, space };
    let mut paths: Vec<String> = [
        "/v1/sources",
        "/v1/categories",
        "/v1/categories/tree",
        "/v1/categories/changes",
        "/v1/jobs",
        "/v1/queries",
        "/v1/threads",
        "/v1/memories?user_id=ann",
        "/v1/memories?user_id=ben",
        "/v1/vocabulary",
        "/v1/vocabulary/suggestions",
        "/v1/lexicon",
        "/v1/policies",
        "/v1/admin/memory-settings",
        "/v1/workspace",
        "/v1/admin/keys",
        "/v1/usage",
        "/v1/manifest",
    ]
    .map(ToOwned::to_owned)
    .into();

    let items = async |path: &str| {
        let list = caller.get(path).await;
        list["items"].as_array().unwrap().clone()
    };
    for source in items("/v1/sources?limit=200").await {
        let (id, versions) = (text(&source, "id"), source["latest_version"].as_i64());
        paths.extend(
            ["", "/chunks", "/helpers", "/versions"].map(|part| format!("/v1/sources/{id}{part}")),
        );
        for version in 1..=versions.unwrap_or_default() {
            paths.push(format!("/v1/sources/{id}/versions/{version}"));
            paths.push(format!("/v1/sources/{id}/versions/{version}/content"));
        }
    }

    for (list, parts) in [
        ("threads", &["", "/messages", "/window"][..]),
        ("queries", &[""]),
        ("jobs", &[""]),
    ] {
        for item in items(&format!("/v1/{list}?limit=200")).await {
            let id = text(&item, "id");
            paths.extend(parts.iter().map(|part| format!("/v1/{list}/{id}{part}")));
        }
    }

    let mut answers = json!({});
    for path in paths {
        answers[&path] = stable(&caller.get(&path).await);
    }

    answers
}
