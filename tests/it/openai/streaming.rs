//! Streams pass through event by event, and their usage is known without being shown.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Talk, user};
use crate::support::app::send;

async fn usage(talk: &Talk) -> Value {
    talk.desk
        .app
        .get("/v1/usage?stage=openai_chat")
        .await
        .json()["items"][0]
        .clone()
}

#[tokio::test]
async fn a_stream_passes_through_while_it_is_written() {
    let talk = Talk::open().await;
    talk.desk.model.edit_script(|script| script.piece_ms = 40);
    let body = json!({"model": super::MODEL, "messages": [user("Some words to be repeated.")], "stream": true});
    let begun = Instant::now();
    let mut reply = talk
        .post("/openai/v1/chat/completions", "s", &body)
        .send()
        .await
        .unwrap();
    assert_eq!(reply.headers()["content-type"], "text/event-stream");
    assert!(reply.headers().contains_key("x-memoir-thread-id"));
    let mut times = Vec::new();
    let mut text = String::new();
    while let Some(piece) = reply.chunk().await.unwrap() {
        times.push(begun.elapsed());
        text.push_str(std::str::from_utf8(&piece).unwrap());
    }

    assert!(times.len() >= 5, "{times:?}");
    let spread = times.last().unwrap().saturating_sub(times[0]);
    assert!(spread > Duration::from_millis(150), "{times:?}");
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    assert!(!text.contains("usage"), "{text}");
    let sent = &talk.desk.model.requests()[0].body["stream_options"];
    assert_eq!(sent["include_usage"], true);
    let usage = usage(&talk).await;
    let stats = talk.desk.model.stats();
    assert_eq!(usage["tokens_prompt"], stats.prompt_tokens);
    assert_eq!(usage["tokens_completion"], stats.completion_tokens);
    assert_eq!(
        talk.stored("s").await[1]["content"],
        "You said: Some words to be repeated."
    );
    talk.desk.app.finish().await;
}

#[tokio::test]
async fn usage_is_shown_to_a_client_that_asks_for_it() {
    let talk = Talk::open().await;
    let body = json!({"model": super::MODEL, "messages": [user("Hi")], "stream": true, "stream_options": {"include_usage": true}});
    let reply = send(talk.post("/openai/v1/chat/completions", "", &body)).await;
    let events: Vec<&str> = reply
        .text
        .split("\n\n")
        .filter(|event| !event.is_empty())
        .collect();
    let last: Value =
        serde_json::from_str(events[events.len() - 2].strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(last["choices"], json!([]));
    assert!(last["usage"]["prompt_tokens"].as_i64().unwrap() > 0);
    talk.desk.app.finish().await;
}

#[tokio::test]
async fn a_provider_without_stream_options_is_asked_without_them() {
    let talk = Talk::open().await;
    talk.desk.model.edit_script(|script| {
        script.reject_parameters = vec!["stream_options".to_owned()];
    });
    for requests in [2, 3] {
        let body = json!({"model": super::MODEL, "messages": [user("Hi")], "stream": true});
        let reply = send(talk.post("/openai/v1/chat/completions", "", &body)).await;
        assert!(reply.text.ends_with("data: [DONE]\n\n"), "{}", reply.text);
        assert_eq!(
            talk.desk.model.requests().len(),
            requests,
            "learnt after the first"
        );
    }
    assert!(
        usage(&talk).await["tokens_prompt"].as_i64().unwrap() > 0,
        "estimated"
    );
    talk.desk.app.finish().await;
}
