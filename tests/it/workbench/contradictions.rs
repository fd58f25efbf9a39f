//! Statements that contradict an injected file, each other or the chat.

use memoir::scripted_model::Reply as ModelReply;
use serde_json::{Value, json};

use super::{Bench, answer};

const TASK: &str = "When is the deadline of the bridge?";
const OLD: &str = "The deadline of the bridge is 3 May.";
const NEW: &str = "The deadline of the bridge is 9 June.";

/// The condenser takes the statement of each chunk as it is.
async fn bench() -> Bench {
    let bench = Bench::open().await;
    bench.test.model.set_rule(|seen| {
        if seen.stage != "condense" {
            return answer(seen);
        }
        let chunks = seen.user.split("\nChunk ").skip(1);
        let facts = (1..).zip(chunks).filter_map(|(number, chunk)| {
            let (id, rest) = chunk.split_once(':')?;
            let id: i64 = id.trim().parse().ok()?;
            let text = rest.lines().find(|line| line.contains("deadline"))?;
            Some(json!({"id": format!("F{number}"), "text": text, "citations": [id]}))
        });
        let facts: Vec<Value> = facts.collect();
        ModelReply::json(json!({"facts": facts, "constraints": [], "open_issues": []}))
    });
    bench
}

async fn say(bench: &Bench, content: &str) -> String {
    let reply = bench.test.app.post("/v1/threads", &json!({})).await;
    let id = reply.json()["id"].as_str().unwrap().to_owned();
    go_on(bench, &id, "user", content).await;
    id
}

async fn go_on(bench: &Bench, thread: &str, role: &str, content: &str) {
    bench.test.app.clock.advance_seconds(60);
    let path = format!("/v1/threads/{thread}/messages");
    let body = json!({"role": role, "content": content, "enrich": false});
    let reply = bench.test.app.post(&path, &body).await;
    assert_eq!(reply.status.as_u16(), 201, "{}", reply.text);
}

fn conflict_of<'p>(prompt: &'p Value, text: &str) -> &'p Value {
    let facts = prompt["s_ctx"]["facts"].as_array().unwrap();
    let fact = facts.iter().find(|fact| fact["text"] == text);
    &fact.unwrap_or_else(|| panic!("{text}: {}", prompt["s_ctx"]))["conflict"]
}

#[tokio::test]
async fn of_two_sources_the_older_one_is_marked() {
    let bench = bench().await;
    bench.file("/docs/bridge.md", OLD).await;
    bench.test.app.clock.advance_seconds(60);
    bench.file("/notes/bridge.md", NEW).await;

    let prompt = bench.compose(&json!({"task": TASK})).await;
    assert_eq!(conflict_of(&prompt, NEW), &Value::Null);
    let mark = conflict_of(&prompt, OLD).as_str().unwrap();
    assert!(
        mark.starts_with("contradicted by F") && mark.ends_with("which is newer"),
        "{mark}"
    );
    assert!(
        prompt["prompt"]
            .as_str()
            .unwrap()
            .contains(&format!("] ({mark})"))
    );
    let conflicts = prompt["transparency"]["conflicts"].as_array().unwrap();
    assert_eq!(conflicts.len(), 1, "{conflicts:?}");
    assert_eq!(conflicts[0]["winner"], "chunk");
    let sides = [0, 1].map(|side| &conflicts[0]["sides"][side]["text"]);
    assert_eq!(sides, [&json!(OLD), &json!(NEW)]);
    bench.test.app.finish().await;
}

#[tokio::test]
async fn an_injected_file_counts_more_than_a_newer_source_and_a_newer_chat() {
    let bench = bench().await;
    bench.file("/docs/bridge.md", OLD).await;
    bench.test.app.clock.advance_seconds(60);
    bench.file("/notes/bridge.md", NEW).await;
    bench.test.app.clock.advance_seconds(60);
    let thread = say(&bench, NEW).await;

    let body = json!({"task": TASK, "files": [{"path": "/docs/bridge.md"}], "thread_id": thread});
    let prompt = bench.compose(&body).await;
    let mark = "contradicted by ❖ FILES, which counts";
    assert_eq!(conflict_of(&prompt, NEW), mark);
    let conflicts = prompt["transparency"]["conflicts"].as_array().unwrap();
    assert_eq!(conflicts.len(), 2, "{conflicts:?}");
    for conflict in conflicts {
        assert_eq!(conflict["winner"], "❖ FILES");
        assert_eq!(conflict["sides"][1]["text"], OLD);
    }
    let whole = prompt["prompt"].as_str().unwrap();
    assert!(
        whole.contains(&format!("\nuser: {NEW} ({mark})\n")),
        "{whole}"
    );
    bench.test.app.finish().await;
}

#[tokio::test]
async fn of_a_source_and_the_chat_the_older_one_is_marked() {
    let bench = bench().await;
    bench.file("/docs/bridge.md", OLD).await;
    bench.test.app.clock.advance_seconds(60);
    let thread = say(&bench, NEW).await;
    let body = json!({"task": TASK, "thread_id": thread});
    let prompt = bench.compose(&body).await;
    assert_eq!(
        conflict_of(&prompt, OLD),
        "contradicted by the chat, which is newer"
    );
    assert_eq!(prompt["transparency"]["conflicts"][0]["winner"], "chat");

    bench.test.app.clock.advance_seconds(60);
    bench
        .file("/docs/bridge.md", &format!("{OLD}\n\nStill so."))
        .await;
    let prompt = bench.compose(&body).await;
    assert_eq!(conflict_of(&prompt, OLD), &Value::Null);
    assert_eq!(prompt["transparency"]["conflicts"][0]["winner"], "chunk");
    let whole = prompt["prompt"].as_str().unwrap();
    assert!(
        whole.contains(&format!(
            "\nuser: {NEW} (contradicted by F1, which is newer)\n"
        )),
        "{whole}"
    );
    let said = &prompt["transparency"]["history"][0];
    assert_eq!(
        said["reason"],
        "kept: recency window, contradicted by F1, which is newer"
    );
    bench.test.app.finish().await;
}

#[tokio::test]
async fn sources_of_different_things_only_perhaps_contradict_each_other() {
    let bench = bench().await;
    bench.file("/docs/bridge.md", OLD).await;
    bench.test.app.clock.advance_seconds(60);
    bench.file("/docs/ferry.md", NEW).await;

    let prompt = bench.compose(&json!({"task": TASK})).await;
    let mark = conflict_of(&prompt, OLD).as_str().unwrap();
    let wanted = "which is newer, says otherwise, perhaps of something else";
    assert!(mark.ends_with(wanted), "{mark}");
    bench.test.app.finish().await;
}

#[tokio::test]
async fn what_the_user_corrected_or_a_model_said_does_not_outrank_a_source() {
    let bench = bench().await;
    bench.file("/docs/bridge.md", NEW).await;
    let thread = say(&bench, OLD).await;
    go_on(&bench, &thread, "user", NEW).await;
    let body = json!({"task": TASK, "thread_id": thread});
    let prompt = bench.compose(&body).await;
    assert_eq!(conflict_of(&prompt, NEW), &Value::Null);

    let thread = say(&bench, "Hello.").await;
    go_on(&bench, &thread, "assistant", OLD).await;
    let body = json!({"task": TASK, "thread_id": thread});
    let prompt = bench.compose(&body).await;
    assert_eq!(conflict_of(&prompt, NEW), &Value::Null);
    let whole = prompt["prompt"].as_str().unwrap();
    let marked = format!("\nassistant: {OLD} (contradicted by F1)\n");
    assert!(whole.contains(&marked), "{whole}");
    bench.test.app.finish().await;
}
