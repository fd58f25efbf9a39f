//! The conversation in a run: the window, older turns, and what is newer than a file.

use memoir::scripted_model::Reply as ModelReply;
use serde_json::{Value, json};

use super::{BOAT, Bench, LAMP, answer, chunk_ids, reasons};

const TASK: &str = "What does the lamp of the lighthouse burn?";

async fn thread(bench: &Bench, messages: &[(&str, &str)]) -> String {
    let reply = bench.test.app.post("/v1/threads", &json!({})).await;
    let id = reply.json()["id"].as_str().unwrap().to_owned();
    for (role, content) in messages {
        bench.test.app.clock.advance_seconds(1);
        let body = json!({"role": role, "content": content});
        let path = format!("/v1/threads/{id}/messages");
        let reply = bench.test.app.post(&path, &body).await;
        assert_eq!(reply.status.as_u16(), 201, "{}", reply.text);
    }
    id
}

#[tokio::test]
async fn both_passes_read_the_window_and_the_prompt_shows_it_on_request() {
    let bench = Bench::open().await;
    bench.file("/docs/lamp.md", LAMP).await;
    let id = thread(
        &bench,
        &[
            ("user", "My name is Odonata."),
            ("assistant", "Welcome, Odonata."),
        ],
    )
    .await;
    bench.test.model.clear();
    let prompt = bench.compose(&json!({"task": TASK, "thread_id": id})).await;
    for stage in ["shape", "audit"] {
        let seen = &bench.asked(stage)[0].user;
        assert!(seen.contains("My name is Odonata."), "{stage}: {seen}");
    }
    let whole = prompt["prompt"].as_str().unwrap();
    let (before, after) = whole.split_once("[Task/Mode]\n").unwrap();
    assert!(
        after.starts_with("RECENT HISTORY\nuser: My name is Odonata.\n"),
        "{after}"
    );

    // What was said is never a fact.
    assert!(!before.contains("Odonata"), "{before}");
    assert!(!prompt["s_ctx"].to_string().contains("Odonata"));
    let item = &prompt["transparency"]["history"][0];
    assert_eq!(
        (&item["layer"], &item["kept"]),
        (&json!("window"), &json!(true))
    );

    let hidden = json!({"task": TASK, "thread_id": id, "include_recent_history": false});
    let hidden = bench.compose(&hidden).await;
    assert!(
        !hidden["prompt"]
            .as_str()
            .unwrap()
            .contains("RECENT HISTORY")
    );
    bench.test.app.finish().await;
}

#[tokio::test]
async fn a_newer_chat_supersedes_a_file_until_it_is_ingested_again() {
    let bench = Bench::open().await;
    bench.file("/docs/lamp.md", LAMP).await;
    bench.file("/docs/boat.md", BOAT).await;
    bench.test.model.set_rule(|seen| {
        if seen.stage != "nli" {
            return answer(seen);
        }
        // The chunk about the lamp contradicts what was said.
        let parts: Vec<&str> = seen.user.split("\nChunk ").collect();
        let verdicts: Vec<Value> = chunk_ids(&format!("\n{}", seen.user))
            .iter()
            .map(|id| {
                let own = parts
                    .iter()
                    .find(|part| part.starts_with(&format!("{id}:")));
                let is_lamp = own.is_some_and(|part| part.contains("30 m above"));
                let label = if is_lamp {
                    "contradiction"
                } else {
                    "entailment"
                };
                json!({"id": id, "label": label, "score": 0.9})
            })
            .collect();
        ModelReply::json(json!({"verdicts": verdicts}))
    });
    bench.test.app.clock.advance_seconds(60);
    let said = "The lamp of the lighthouse burns gas since today.";
    let id = thread(&bench, &[("user", said), ("assistant", "Noted.")]).await;

    let body = json!({"task": TASK, "thread_id": id});
    let prompt = bench.compose(&body).await;
    assert!(bench.asked("nli")[0].user.contains(said));
    let dropped = "dropped: superseded by newer chat";
    assert!(
        reasons(&prompt).iter().any(|one| one.2 == dropped),
        "{}",
        prompt["transparency"]
    );
    let conflict = &prompt["transparency"]["conflicts"][0];
    assert_eq!(conflict["winner"], "chat");
    assert_eq!(conflict["sides"].as_array().unwrap().len(), 2);
    assert!(
        !prompt["prompt"]
            .as_str()
            .unwrap()
            .split("[Task/Mode]")
            .next()
            .unwrap()
            .contains("gas")
    );

    bench.test.app.clock.advance_seconds(60);
    bench
        .file("/docs/lamp.md", &format!("{LAMP}\nStill so.\n"))
        .await;
    let prompt = bench.compose(&body).await;
    assert!(
        reasons(&prompt).iter().all(|one| one.2 != dropped),
        "{}",
        prompt["transparency"]
    );
    assert_eq!(prompt["transparency"]["conflicts"][0]["winner"], "chunk");
    bench.test.app.finish().await;
}
