//! A turn is stored once; replies that broke off are marked, and a new one supersedes them.

use std::time::Duration;

use memoir::scripted_model::{Fault, Reply as ModelReply};
use serde_json::json;

use super::{Talk, assistant, user};
use crate::support::app::send;
use crate::support::database::TestDatabase;

#[tokio::test]
async fn a_repeated_request_is_one_turn_and_its_new_reply_supersedes_the_old_on_every_engine() {
    for database in TestDatabase::each().await {
        let talk = Talk::on(database, &[]).await;
        let question = [user("Name a lighthouse.")];
        talk.chat("r", &question).await;
        talk.chat("r", &question).await;
        assert_eq!(
            talk.stored("r").await.len(),
            2,
            "the same reply is stored once"
        );

        talk.desk
            .model
            .set_rule(|_| ModelReply::text("Skerryvore."));
        let before = talk.stored("r").await;
        talk.chat("r", &question).await;
        let stored = talk.stored("r").await;
        assert_eq!(stored.len(), 2, "a list shows what is in force");
        assert_eq!(stored[0]["id"], before[0]["id"]);
        assert_eq!(stored[1]["content"], "Skerryvore.");
        let old = talk.desk.memory(before[1]["id"].as_str().unwrap()).await;
        assert_eq!(old["superseded_by"], stored[1]["id"]);

        // The same words in another place of the conversation are another turn.
        let again = [
            user("Name a lighthouse."),
            assistant("Skerryvore."),
            user("Name a lighthouse."),
        ];
        talk.chat("r", &again).await;
        let stored = talk.stored("r").await;
        let said: Vec<_> = stored.iter().filter(|one| one["role"] == "user").collect();
        assert_eq!(said.len(), 2);
        talk.desk.app.finish().await;
    }
}

#[tokio::test]
async fn requests_at_the_same_time_are_one_turn_on_every_engine() {
    for database in TestDatabase::each().await {
        let talk = Talk::on(database, &[]).await;
        let question = [user("Name a lighthouse.")];
        let asked = (0..6).map(|_| talk.chat("r", &question));
        futures_util::future::join_all(asked).await;
        let stored = talk.stored("r").await;
        assert_eq!(stored.len(), 2, "{stored:?}");
        let path = format!(
            "/v1/threads/{}/receipts",
            stored[0]["thread_id"].as_str().unwrap()
        );
        let receipts = talk.desk.app.get(&path).await.json();
        assert_eq!(receipts["items"][0]["calls"], 6);
        talk.desk.app.finish().await;
    }
}

#[tokio::test]
async fn a_reply_that_breaks_off_is_stored_with_a_mark() {
    let settings = [("LLM__TRANSPORT__READ_TIMEOUT", "1")];
    for fault in [Fault::ResetMidBody, Fault::StallMidBody] {
        let talk = Talk::on(TestDatabase::sqlite(), &settings).await;
        talk.desk.model.push(fault);
        let text = "A sentence that is long enough for many pieces.";
        let body = json!({"model": super::MODEL, "messages": [user(text)], "stream": true});
        let reply = send(talk.post("/openai/v1/chat/completions", "s", &body)).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        assert!(reply.text.contains("\"error\""), "{}", reply.text);
        assert!(!reply.text.contains("[DONE]"));

        let stored = talk.stored("s").await;
        assert_eq!(stored.len(), 2);
        assert!(
            stored[1]["tags"].to_string().contains("incomplete"),
            "{}",
            stored[1]
        );
        let part = stored[1]["content"].as_str().unwrap();
        assert!("You said: A sentence that is long enough for many pieces.".starts_with(part));

        talk.chat("s", &[user(text)]).await;
        let complete = talk.stored("s").await;
        assert_eq!(complete.len(), 2);
        assert_eq!(complete[1]["tags"], json!([]));
        let old = talk.desk.memory(stored[1]["id"].as_str().unwrap()).await;
        assert_eq!(old["superseded_by"], complete[1]["id"]);
        talk.desk.app.finish().await;
    }
}

#[tokio::test]
async fn a_client_that_disconnects_ends_the_call_and_keeps_what_came() {
    let talk = Talk::open().await;
    talk.desk.model.edit_script(|script| script.piece_ms = 50);
    let body = json!({"model": super::MODEL, "messages": [user(&"many words ".repeat(200))], "stream": true});
    let mut reply = talk
        .post("/openai/v1/chat/completions", "gone", &body)
        .send()
        .await
        .unwrap();
    for _ in 0..4 {
        reply.chunk().await.unwrap().unwrap();
    }
    drop(reply);

    let stored = talk.stored_at_least("gone", 2).await;
    assert!(
        stored[1]["tags"].to_string().contains("incomplete"),
        "{}",
        stored[1]
    );
    while talk.desk.model.stats().in_flight > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(talk.desk.model.stats().abandoned, 1);

    // A whole reply that nobody waits for any more is not stored, and its call ends too.
    talk.desk.model.push(Fault::Stall);
    let body = json!({"model": super::MODEL, "messages": [user("Hello")]});
    let waiting = talk
        .post("/openai/v1/chat/completions", "stalled", &body)
        .send();
    let _ = tokio::time::timeout(Duration::from_millis(300), waiting).await;
    while talk.desk.model.stats().in_flight > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(talk.stored("stalled").await.len(), 0);
    let usage = talk
        .desk
        .app
        .get("/v1/usage?stage=openai_chat")
        .await
        .json();
    assert_eq!(usage["items"][0]["calls"], 2, "{usage}");
    talk.desk.app.finish().await;
}

#[tokio::test]
async fn secrets_and_long_texts_are_stored_as_far_as_they_may() {
    let talk = Talk::open().await;
    let key = format!("sk-{}", "a1B2c3D4".repeat(4));
    talk.chat("k", &[user(&format!("My key is {key}."))]).await;
    let forwarded = talk.forwarded()[0]["content"].to_string();
    assert!(
        forwarded.contains(&key),
        "the model gets what the user said"
    );
    let stored = talk.stored("k").await;
    assert_eq!(stored[0]["content"], "My key is [REDACTED].");
    assert_eq!(stored[1]["content"], "You said: My key is [REDACTED].");

    talk.chat("long", &[user(&"word ".repeat(60_000))]).await;
    let stored = talk.stored("long").await;
    assert_eq!(stored[0]["content"].as_str().unwrap().len(), 200_000);
    talk.chat("nul", &[user("a\u{0}b")]).await;
    assert_eq!(talk.stored("nul").await[0]["content"], "ab");
    talk.desk.app.finish().await;
}

#[tokio::test]
async fn the_same_words_in_a_later_conversation_are_another_turn_on_every_engine() {
    for database in TestDatabase::each().await {
        let talk = Talk::on(database, &[]).await;
        let question = [user("What is on my list?")];
        talk.chat("fixed", &question).await;
        talk.desk.app.clock.advance_seconds(300);
        talk.chat("fixed", &question).await;
        assert_eq!(talk.stored("fixed").await.len(), 2, "a retry");

        for conversation in 2..=4 {
            talk.desk.app.clock.advance_seconds(3600);
            talk.chat("fixed", &question).await;
            // A step of its tool loop.
            talk.desk.app.clock.advance_seconds(60);
            talk.chat("fixed", &question).await;
            let stored = talk.stored("fixed").await;
            assert_eq!(stored.len(), 2 * conversation, "{stored:?}");
        }
        talk.desk.app.finish().await;
    }
}

#[tokio::test]
async fn a_block_in_an_input_that_is_a_text_is_not_stored() {
    let talk = Talk::open().await;
    talk.chat("first", &[user("My boat is called Petrel.")])
        .await;
    talk.chat("second", &[user("What is my boat called?")])
        .await;
    let forwarded = talk.forwarded();
    let with_block = forwarded[0]["content"].as_str().unwrap();
    assert!(with_block.contains("Petrel"), "{with_block}");

    let body = json!({"model": super::MODEL, "input": with_block});
    let reply = send(talk.post("/openai/v1/responses", "third", &body)).await;
    assert_ne!(reply.status, 500, "{}", reply.text);
    let stored = talk.stored("third").await;
    for message in &stored {
        let text = message["content"].as_str().unwrap();
        assert!(!text.contains("memoir-context"), "{text}");
    }
    talk.desk.app.finish().await;
}

#[tokio::test]
async fn what_enrichment_adds_changes_no_byte_within_a_turn() {
    let talk = Talk::open().await;
    talk.chat("first", &[user("I prefer answers in metric units.")])
        .await;
    let question = [user("Which units do I prefer?")];
    talk.chat("second", &question).await;
    let before = talk.forwarded();
    assert!(before[0].to_string().contains("metric"), "{before:?}");
    let memory = talk.stored("first").await[0]["id"].clone();
    let path = format!("/v1/memories/{}", memory.as_str().unwrap());
    let change = talk.desk.app.request(reqwest::Method::PATCH, &path);
    let change = send(change.json(&json!({"category": "user_preference"}))).await;
    assert_eq!(change.status, 200, "{}", change.text);
    talk.chat("second", &question).await;
    assert_eq!(talk.forwarded(), before);
    talk.desk.app.finish().await;
}
