//! `kill -9` in the middle of streams: what the user said is there once, and a retry completes the
//! turn.

use memoir::scripted_model::{Reply, ScriptedModel};
use serde_json::{Value, json};

use super::{reply, user};
use crate::support::binary::{Binary, Running};
use crate::support::client::client;
use crate::support::database::TestDatabase;

async fn send(running: &Running, body: &Value) -> reqwest::Response {
    let url = format!(
        "http://{}/openai/u/ann/t/k/v1/chat/completions",
        running.address
    );
    client().post(url).json(body).send().await.unwrap()
}

async fn stored(running: &Running) -> Vec<Value> {
    let get = async |path: &str| -> Value {
        let url = format!("http://{}{path}", running.address);
        client()
            .get(url)
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap()
    };
    let threads = get("/v1/threads?user_id=ann&external_id=k").await;
    let Some(id) = threads["items"][0]["id"].as_str() else {
        return Vec::new();
    };
    let messages = get(&format!("/v1/threads/{id}/messages?limit=100")).await;
    messages["items"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_loses_and_doubles_nothing_on_every_engine() {
    for database in TestDatabase::each().await {
        let model = ScriptedModel::local().await.unwrap();
        model.set_rule(reply);
        model.edit_script(|script| script.piece_ms = 20);
        let binary = Binary::new()
            .env("DATABASE_URL", &database.url)
            .env("MEMOIR__LLM__PROVIDERS__STUB__KIND", "openai")
            .env("MEMOIR__LLM__PROVIDERS__STUB__API_KEY", "sk-test")
            .env(
                "MEMOIR__LLM__PROVIDERS__STUB__BASE_URL",
                &model.openai_url(),
            );
        let mut history: Vec<Value> = Vec::new();
        for turn in 0..3 {
            history.push(user(&format!("Turn {turn}: {}", "many words ".repeat(20))));
            let body = json!({"model": "stub:m", "messages": history, "stream": true});
            let running = binary.serve();
            let mut reply = send(&running, &body).await;
            assert_eq!(reply.status(), 200);
            for _ in 0..3 {
                reply.chunk().await.unwrap().unwrap();
            }
            // What the user said is stored while the reply arrives.
            while stored(&running).await.len() < 2 * turn + 1 {}
            running.signal_and_wait("KILL");

            let running = binary.serve();
            assert_eq!(stored(&running).await.len(), 2 * turn + 1, "turn {turn}");
            let whole = send(&running, &body).await.text().await.unwrap();
            assert!(whole.ends_with("data: [DONE]\n\n"), "{whole}");
            let messages = stored(&running).await;
            assert_eq!(messages.len(), 2 * turn + 2, "turn {turn}");
            history
                .push(json!({"role": "assistant", "content": messages[2 * turn + 1]["content"]}));
            running.signal_and_wait("TERM");
        }
        while model.stats().in_flight > 0 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_stalls_does_not_hold_up_a_stop() {
    let database = TestDatabase::sqlite();
    let model = ScriptedModel::local().await.unwrap();
    model.set_rule(|_| Reply::text("x".repeat(100_000)));
    model.edit_script(|script| script.piece_ms = 200);
    let binary = Binary::new()
        .env("DATABASE_URL", &database.url)
        .env("MEMOIR__SERVER__SHUTDOWN_GRACE", "1")
        .env("MEMOIR__LLM__PROVIDERS__STUB__KIND", "openai")
        .env("MEMOIR__LLM__PROVIDERS__STUB__API_KEY", "sk-test")
        .env(
            "MEMOIR__LLM__PROVIDERS__STUB__BASE_URL",
            &model.openai_url(),
        );
    let running = binary.serve();
    let body = json!({"model": "stub:m", "messages": [user("Hello")], "stream": true});
    let mut reply = send(&running, &body).await;
    reply.chunk().await.unwrap().unwrap();
    let begun = std::time::Instant::now();
    assert_eq!(running.signal_and_wait("TERM"), Some(0));
    assert!(begun.elapsed().as_secs() < 8, "{:?}", begun.elapsed());

    let running = binary.serve();
    let messages = stored(&running).await;
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert!(messages[1]["tags"].to_string().contains("incomplete"));
    running.signal_and_wait("TERM");
}
