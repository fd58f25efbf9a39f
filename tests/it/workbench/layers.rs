//! Older turns and the pinned summary in a run: what injected files drop, and what the agents read.

use memoir::scripted_model::Reply as ModelReply;
use serde_json::{Value, json};

use super::{BOAT, Bench, LAMP, answer, chunk_ids, reasons};
use crate::support::database::TestDatabase;

const TOWER: &str = "# The tower\n\nThe lamp of the lighthouse burns whale oil. The stone tower of \
                     the lighthouse is 30 m high.\n";
const TASK: &str = "Describe the lamp and the tower of the lighthouse.";
const QUOTE: &str = "The lamp of the lighthouse burns whale oil.";
const DENIAL: &str = "The lamp of the lighthouse does not burn whale oil.";
const NUMBER: &str = "The stone tower of the lighthouse is 45 m high.";
const HINTED: &str = "The old notes about the lighthouse say more about its lamp.";
const PLAIN: &str = "The keeper of the lighthouse trims the lamp every evening.";

/// A thread whose last turn is a thank you.
async fn thread(bench: &Bench, said: &[Value]) -> String {
    let reply = bench.test.app.post("/v1/threads", &json!({})).await;
    let id = reply.json()["id"].as_str().unwrap().to_owned();
    for message in said.iter().chain([&json!({"content": "Thanks."})]) {
        bench.test.app.clock.advance_seconds(1);
        let mut body = message.clone();
        body["enrich"] = json!(false);
        let path = format!("/v1/threads/{id}/messages");
        let reply = bench.test.app.post(&path, &body).await;
        assert_eq!(reply.status.as_u16(), 201, "{}", reply.text);
    }
    id
}

async fn older(bench: &Bench, thread: &str, more: &Value) -> Value {
    let mut body = json!({"query": TASK, "k": 1});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    let path = format!("/v1/threads/{thread}/episodic");
    let reply = bench.test.app.post(&path, &body).await;
    assert_eq!(reply.status.as_u16(), 200, "{}", reply.text);
    reply.json()
}

fn reason<'v>(found: &'v Value, content: &str) -> &'v str {
    let items = found["items"].as_array().unwrap();
    let item = items.iter().find(|item| item["content"] == content);
    item.unwrap_or_else(|| panic!("{content}: {found}"))["reason"]
        .as_str()
        .unwrap()
}

#[tokio::test]
async fn older_turns_that_repeat_or_contradict_an_injected_file_are_dropped() {
    for database in TestDatabase::each().await {
        let bench = Bench::on(database, &[]).await;
        let source = bench.file("/docs/tower.md", TOWER).await;
        bench.test.app.clock.advance_seconds(60);
        let hinted = json!({"content": HINTED, "file_path": "/docs/tower.md", "file_sha256": "0".repeat(64)});
        let said = [QUOTE, DENIAL, NUMBER, PLAIN].map(|text| json!({"content": text}));
        let id = thread(&bench, &[&said[..], &[hinted]].concat()).await;

        // What is newer than a file that is not injected stays.
        let free = older(&bench, &id, &json!({})).await;
        assert!(
            [QUOTE, DENIAL, NUMBER, HINTED, PLAIN]
                .iter()
                .all(|text| reason(&free, text).starts_with("kept: ")),
            "{free}"
        );
        assert_eq!(free["conflicts"], json!([]));

        let files = json!([{"path": "/docs/tower.md"}]);
        let found = older(&bench, &id, &json!({"files": files})).await;
        for (text, wanted) in [
            (QUOTE, "dropped: duplicate of ❖ FILES"),
            (DENIAL, "dropped: conflicts with ❖ FILES"),
            (NUMBER, "dropped: conflicts with ❖ FILES"),
            (HINTED, "dropped: conflicts with ❖ FILES"),
            (PLAIN, "kept: strong semantic match"),
        ] {
            assert_eq!(reason(&found, text), wanted, "{text}");
        }
        let conflicts = found["conflicts"].as_array().unwrap();
        assert_eq!(conflicts.len(), 3, "{found}");
        for conflict in conflicts {
            assert_eq!(conflict["winner"], "❖ FILES");
            assert_eq!(conflict["sides"][0]["kind"], "chat");
            assert_eq!(conflict["sides"][1]["id"], source.as_str());
        }
        let height = conflicts
            .iter()
            .find(|one| one["sides"][0]["text"] == NUMBER)
            .unwrap();
        let claim = "The stone tower of the lighthouse is 30 m high.";
        assert_eq!(height["sides"][1]["text"], claim);

        // What a file drops takes no room.
        let room = found["tokens_used"].clone();
        let tight = older(&bench, &id, &json!({"files": files, "max_tokens": room})).await;
        assert_eq!(reason(&tight, PLAIN), "kept: strong semantic match");

        // A run drops the same, for the same reasons, and its agents read the rest.
        bench.test.model.clear();
        let body = json!({"task": TASK, "thread_id": id, "k": 1, "files": files});
        let prompt = bench.compose(&body).await;
        let items = prompt["transparency"]["history"].as_array().unwrap();
        let of_layer = |layer: &str| items.iter().filter(|one| one["layer"] == layer).count();
        assert_eq!((of_layer("window"), of_layer("episodic")), (1, 5));
        let mut shown: Vec<&str> = items
            .iter()
            .map(|one| one["reason"].as_str().unwrap())
            .collect();
        shown.sort_unstable();
        assert_eq!(
            shown,
            [
                "dropped: conflicts with ❖ FILES",
                "dropped: conflicts with ❖ FILES",
                "dropped: conflicts with ❖ FILES",
                "dropped: duplicate of ❖ FILES",
                "kept: recency window",
                "kept: strong semantic match",
            ]
        );
        let conflicts = prompt["transparency"]["conflicts"].as_array().unwrap();
        assert_eq!(conflicts.len(), 3, "{}", prompt["transparency"]);
        for stage in ["shape", "audit"] {
            let seen = &bench.asked(stage)[0].user;
            assert!(seen.contains(PLAIN) && seen.contains("Thanks."), "{seen}");
            for text in [DENIAL, NUMBER, HINTED] {
                assert!(!seen.contains(text), "{stage}: {seen}");
            }
        }
        bench.test.app.finish().await;
    }
}

#[tokio::test]
async fn a_file_that_changed_since_a_message_wins_over_it() {
    let bench = Bench::open().await;
    bench.file("/docs/tower.md", TOWER).await;
    let manifest = bench.test.app.get("/v1/manifest").await.json();
    let sha256 = manifest["items"][0]["sha256"].clone();
    bench.test.app.clock.advance_seconds(60);
    let hinted = json!({"content": HINTED, "file_path": "/docs/tower.md", "file_sha256": sha256});
    let id = thread(&bench, &[hinted]).await;
    let kept = "kept: strong semantic match";
    assert_eq!(reason(&older(&bench, &id, &json!({})).await, HINTED), kept);

    bench.test.app.clock.advance_seconds(60);
    let source = bench
        .file("/docs/tower.md", &format!("{TOWER}New.\n"))
        .await;
    let found = older(&bench, &id, &json!({})).await;
    assert_eq!(reason(&found, HINTED), "dropped: superseded by newer file");
    let conflict = &found["conflicts"][0];
    assert_eq!(conflict["winner"], "file");
    assert_eq!(conflict["sides"][1]["id"], source.as_str());

    // The version that the message speaks about is injected: then they agree.
    let first = json!({"files": [{"path": "/docs/tower.md", "version": 1}]});
    let found = older(&bench, &id, &first).await;
    assert_eq!(reason(&found, HINTED), kept);
    assert_eq!(found["conflicts"], json!([]));
    bench.test.app.finish().await;
}

#[tokio::test]
async fn what_was_said_about_a_source_that_is_off_is_ignored_unless_it_is_injected() {
    for database in TestDatabase::each().await {
        let bench = Bench::on(database, &[]).await;
        let source = bench.file("/docs/tower.md", TOWER).await;
        let manifest = bench.test.app.get("/v1/manifest").await.json();
        let sha256 = &manifest["items"][0]["sha256"];
        let by_path = json!({"content": HINTED, "file_path": "/docs/tower.md"});
        let by_hash = json!({"content": PLAIN, "file_sha256": sha256});
        let id = thread(&bench, &[by_path, by_hash]).await;
        let off = json!({"off_source_ids": [source]});
        let found = older(&bench, &id, &off).await;
        for text in [HINTED, PLAIN] {
            assert_eq!(reason(&found, text), "dropped: source file is OFF");
        }

        let injected = json!({"off_source_ids": [source], "files": [{"source_id": source}]});
        let found = older(&bench, &id, &injected).await;
        for text in [HINTED, PLAIN] {
            assert_eq!(reason(&found, text), "kept: strong semantic match");
        }

        let missing = json!({"query": TASK, "files": [{"path": "/docs/none.md"}]});
        let path = format!("/v1/threads/{id}/episodic");
        bench
            .test
            .app
            .post(&path, &missing)
            .await
            .assert_problem(404, "not_found");
        bench.test.app.finish().await;
    }
}

#[tokio::test]
async fn locked_files_and_the_older_turns_change_no_number_of_calls() {
    let bench = Bench::open().await;
    bench.file("/docs/tower.md", TOWER).await;
    let id = thread(&bench, &[json!({"content": PLAIN})]).await;
    let mut calls = Vec::new();
    for tokens in [0, 800] {
        bench.test.model.clear();
        let body = json!({"task": TASK, "thread_id": id, "k": 1, "episodic_tokens": tokens});
        bench.compose(&body).await;
        calls.push(bench.test.model.requests().len());
    }
    assert_eq!(calls[0], calls[1]);

    let body = json!({"task": TASK, "thread_id": id, "k": 1, "lock": true, "files": [{"path": "/docs/tower.md"}]});
    let prompt = bench.compose(&body).await;
    let items = prompt["transparency"]["history"].as_array().unwrap();
    assert!(
        items.iter().all(|one| one["layer"] == "window"),
        "{items:?}"
    );
    bench.test.app.finish().await;
}

#[tokio::test]
async fn the_pinned_summary_is_read_and_no_memory_changes() {
    let bench = Bench::open().await;
    bench.file("/docs/lamp.md", LAMP).await;
    let id = thread(&bench, &[json!({"content": PLAIN})]).await;
    let pinned = "They agreed to call the lighthouse Aurora.";
    let summary = json!({"type": "summary", "thread_id": id, "content": pinned, "pinned": true});
    let reply = bench.test.app.post("/v1/memories", &summary).await;
    assert_eq!(reply.status.as_u16(), 201, "{}", reply.text);

    let stored = async || {
        let path = format!("/v1/threads/{id}/messages");
        let messages = bench.test.app.get(&path).await;
        let memories = bench.test.app.get("/v1/memories").await;
        (messages.json(), memories.json())
    };
    let before = stored().await;
    bench.test.model.clear();
    let prompt = bench.compose(&json!({"task": TASK, "thread_id": id})).await;
    for stage in ["shape", "audit"] {
        let seen = &bench.asked(stage)[0].user;
        assert!(seen.contains(pinned), "{stage}: {seen}");
    }
    assert!(!prompt["s_ctx"].to_string().contains("Aurora"));
    assert_eq!(stored().await, before);
    bench.test.app.finish().await;
}

#[tokio::test]
async fn a_chunk_that_contradicts_an_injected_file_is_dropped_and_shown() {
    let bench = Bench::open().await;
    bench.file("/docs/lamp.md", LAMP).await;
    let boat = bench.file("/docs/boat.md", BOAT).await;
    bench.test.model.set_rule(|seen| {
        if seen.stage != "nli" {
            return answer(seen);
        }
        let verdict = |id: &i64| json!({"id": id, "label": "contradiction", "score": 0.9});
        let verdicts: Vec<Value> = chunk_ids(&seen.user).iter().map(verdict).collect();
        ModelReply::json(json!({"verdicts": verdicts}))
    });
    let prompt = bench
        .compose(&json!({"task": TASK, "files": [{"path": "/docs/boat.md"}]}))
        .await;
    let mut shown: Vec<String> = reasons(&prompt).into_iter().map(|one| one.2).collect();
    shown.sort_unstable();
    assert_eq!(
        shown,
        [
            "dropped: contradicts ❖ FILES",
            "dropped: duplicate of ❖ FILES"
        ]
    );
    let conflict = &prompt["transparency"]["conflicts"][0];
    assert_eq!(
        (&conflict["winner"], &conflict["sides"][1]["id"]),
        (&json!("❖ FILES"), &json!(boat))
    );
    bench.test.app.finish().await;
}
