//! What is remembered is handed over, marked, and the same for every request of a turn.

use serde_json::{Value, json};

use super::{Talk, assistant, user};
use crate::support::database::TestDatabase;

#[tokio::test]
async fn what_was_said_in_one_thread_is_handed_over_in_another_on_every_engine() {
    for database in TestDatabase::each().await {
        let talk = Talk::on(database, &[]).await;
        let first = talk
            .chat("t1", &[user("I moor my boat Albatross in Bergen.")])
            .await;
        assert_eq!(first.header("x-memoir-memories"), "");
        assert_eq!(
            talk.forwarded()[0],
            user("I moor my boat Albatross in Bergen.")
        );
        let reply = first.json()["choices"][0]["message"]["content"].clone();
        assert_eq!(reply, "You said: I moor my boat Albatross in Bergen.");

        let question = "Where do I moor my boat Albatross?";
        let second = talk.chat("t2", &[user(question)]).await;
        let forwarded = talk.forwarded();
        let text = forwarded[0]["content"].as_str().unwrap();
        assert!(text.starts_with("<memoir-context sha256=\""), "{text}");
        assert!(
            text.contains("I moor my boat Albatross in Bergen."),
            "{text}"
        );
        assert!(
            text.ends_with(&format!("</memoir-context>\n\n{question}")),
            "{text}"
        );

        let ids: Vec<&str> = second.header("x-memoir-memories").split(',').collect();
        assert!(!ids[0].is_empty());
        let tokens: i64 = second.header("x-memoir-context-tokens").parse().unwrap();
        assert!(tokens > 5);
        let thread = second.header("x-memoir-thread-id");
        let path = format!("/v1/threads/{thread}/receipts?user_id=ann");
        let receipts = talk.desk.app.get(&path).await.json();
        let receipt = &receipts["items"][0];
        let handed = receipt["memories"].as_array().unwrap().iter();
        let handed: Vec<&str> = handed.map(|one| one["id"].as_str().unwrap()).collect();
        assert_eq!(handed, ids);
        assert_eq!(receipt["context_tokens"], tokens);
        assert_eq!(
            (&receipt["calls"], &receipt["model"]),
            (&json!(1), &json!(super::MODEL))
        );
        assert!(!receipts.to_string().contains("Albatross"), "{receipts}");

        let stored = talk.stored("t2").await;
        assert_eq!(stored.len(), 2);
        assert_eq!(stored[0]["content"], question);
        assert_eq!(stored[1]["content"], format!("You said: {question}"));
        assert_eq!(
            (&receipt["message_id"], &receipt["reply_id"]),
            (&stored[0]["id"], &stored[1]["id"])
        );

        // Another user is told nothing, and cannot see the receipts.
        let body = json!({"model": super::MODEL, "messages": [user(question)], "memoir": {"thread": "t2", "user": "ben"}});
        let other = talk.post("/openai/v1/chat/completions", "", &body);
        let other = crate::support::app::send(other).await;
        assert_eq!(other.header("x-memoir-memories"), "");
        let path = format!("/v1/threads/{thread}/receipts?user_id=ben");
        talk.desk
            .app
            .get(&path)
            .await
            .assert_problem(404, "not_found");

        // The receipt goes with the message.
        let id = stored[0]["id"].as_str().unwrap();
        talk.desk
            .delete(&format!("/v1/memories/{id}?user_id=ann"))
            .await;
        let path = format!("/v1/threads/{thread}/receipts");
        let receipts = talk.desk.app.get(&path).await.json();
        assert_eq!(receipts["items"], json!([]));
        talk.desk.app.finish().await;
    }
}

/// Fifty turns, each with a call of a tool: the requests of a turn are equal up to their end, and the
/// requests of different turns up to the last message of the user.
#[tokio::test]
async fn a_tool_loop_gets_the_same_bytes_and_is_stored_once_on_every_engine() {
    for database in TestDatabase::each().await {
        let talk = Talk::on(database, &[]).await;
        let tools = json!([{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]);
        let mut history: Vec<Value> = vec![json!({"role": "system", "content": "Be brief."})];
        for turn in 0..50 {
            history.push(user(&format!(
                "What is the weather at stop {turn} of my trip to Bergen?"
            )));
            let mut first = Value::Null;
            for step in 0..2 {
                let body = json!({"model": super::MODEL, "messages": history, "tools": tools});
                let reply = talk.post("/openai/v1/chat/completions", "loop", &body);
                let reply = crate::support::app::send(reply).await;
                assert_eq!(reply.status, 200, "{}", reply.text);
                let forwarded = talk.forwarded();
                let place = history
                    .iter()
                    .rposition(|message| message["role"] == "user")
                    .unwrap();
                assert_eq!(forwarded[..place], history[..place], "turn {turn}");
                if step == 0 {
                    first = forwarded[place].clone();
                } else {
                    assert_eq!(forwarded[place], first, "turn {turn}");
                }

                let message = reply.json()["choices"][0]["message"].clone();
                let calls = message["tool_calls"]
                    .as_array()
                    .cloned()
                    .unwrap_or_default();
                history.push(message);
                for call in calls {
                    history.push(json!({"role": "tool", "tool_call_id": call["id"], "content": "Rain, says the tool."}));
                }
            }
            assert_eq!(
                first["content"]
                    .as_str()
                    .unwrap()
                    .contains("<memoir-context"),
                turn > 0,
                "{first}"
            );
        }

        let stored = talk.stored("loop").await;
        assert_eq!(stored.len(), 100);
        for message in &stored {
            let text = message["content"].as_str().unwrap();
            assert!(
                !text.contains("memoir-context") && !text.contains("says the tool"),
                "{text}"
            );
        }
        talk.desk.app.finish().await;
    }
}

#[tokio::test]
async fn a_marked_block_that_comes_back_is_not_stored() {
    let talk = Talk::open().await;
    talk.chat("a", &[user("My cat is called Mimi.")]).await;
    talk.chat("b", &[user("What is my cat called?")]).await;
    let marked = talk.forwarded()[0].clone();
    assert!(
        marked["content"]
            .as_str()
            .unwrap()
            .contains("<memoir-context")
    );
    talk.chat("c", &[marked, assistant("Mimi."), user("Thanks!")])
        .await;
    talk.chat("d", &[talk.forwarded()[0].clone()]).await;
    let stored = talk.stored("d").await;
    assert_eq!(stored[0]["content"], "What is my cat called?");
    talk.desk.app.finish().await;
}

#[tokio::test]
async fn context_can_be_off_and_without_a_thread_nothing_is_remembered() {
    let talk = Talk::open().await;
    talk.chat("a", &[user("My cat is called Mimi.")]).await;
    let question = user("What is my cat called?");
    let body = json!({"model": super::MODEL, "messages": [question], "memoir": {"context": "off"}});
    let reply = talk.post("/openai/v1/chat/completions", "b", &body);
    let reply = crate::support::app::send(reply).await;
    assert_eq!(reply.header("x-memoir-memories"), "");
    assert_eq!(talk.forwarded()[0], question);
    assert_eq!(
        talk.desk
            .model
            .requests()
            .last()
            .unwrap()
            .body
            .get("memoir"),
        None
    );
    assert_eq!(talk.stored("b").await.len(), 2);

    let before = talk.desk.app.get("/v1/threads").await.text;
    let reply = talk.chat("", std::slice::from_ref(&question)).await;
    assert_eq!(reply.headers.get("x-memoir-thread-id"), None);
    assert_eq!(talk.forwarded()[0], question);
    assert_eq!(talk.desk.app.get("/v1/threads").await.text, before);
    talk.desk.app.finish().await;
}
