//! Summaries of one thread, asked for several times at once: one model call, one summary.

use std::time::Duration;

use memoir::scripted_model::{Fault, Reply as ModelReply, Step};
use reqwest::Method;
use serde_json::{Value, json};

use super::{Desk, busy};
use crate::support::app::{Reply, send};
use crate::support::database::TestDatabase;

/// A thread of ten turns, of which six can be summarised.
async fn long_thread(desk: &Desk) -> String {
    let thread = desk.thread("ann", None).await;
    let said: Vec<Value> = (1..=10)
        .map(|n| json!({"content": format!("question {n}")}))
        .collect();
    desk.say(&thread, &json!({"messages": said, "enrich": false}))
        .await;
    desk.model.set_rule(|seen| match seen.stage.as_str() {
        "rollup" => ModelReply::json(json!({"title": "Early", "summary": "Six questions."})),
        _ => ModelReply::sensible(seen),
    });
    thread
}

async fn at_once(desk: &Desk, thread: &str, bodies: &[Value]) -> Vec<Reply> {
    let path = format!("/v1/threads/{thread}/summaries");
    let mut asking = tokio::task::JoinSet::new();
    for body in bodies {
        asking.spawn(send(desk.app.request(Method::POST, &path).json(body)));
    }

    asking.join_all().await
}

async fn summaries(desk: &Desk, thread: &str) -> Vec<Value> {
    let path = format!("/v1/memories?user_id=ann&type=summary&thread_id={thread}");
    let list = desk.app.get(&path).await.json();
    list["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn four_requests_at_once_summarise_once() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        let thread = long_thread(&desk).await;
        desk.model.always(Step::new(Fault::Delay { ms: 1500 }));
        let replies = at_once(&desk, &thread, &vec![json!({}); 4]).await;
        for reply in &replies {
            assert_eq!(reply.status.as_u16(), 201, "{}", reply.text);
            assert_eq!(reply.json()["id"], replies[0].json()["id"]);
            let place = format!("/v1/memories/{}", reply.json()["id"].as_str().unwrap());
            assert_eq!(reply.header("location"), place);
        }

        assert_eq!(desk.seen("rollup").len(), 1);
        assert_eq!(summaries(&desk, &thread).await.len(), 1);

        // Later there is nothing left, and the thread is free again.
        desk.model.clear_faults();
        let path = format!("/v1/threads/{thread}/summaries");
        let later = desk.app.post(&path, &json!({})).await;
        later.assert_problem(422, "invalid_request");
        desk.say(&thread, &json!({"content": "question 11", "enrich": false}))
            .await;
        let next = desk.app.post(&path, &json!({})).await;
        assert_eq!(next.status.as_u16(), 201, "{}", next.text);
        assert_eq!(
            next.json()["evidence"]["message_ids"]
                .as_array()
                .unwrap()
                .len(),
            1
        );
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn a_request_that_fails_leaves_the_thread_to_the_next() {
    let desk = Desk::open().await;
    let thread = long_thread(&desk).await;
    desk.model.push(Step::new(busy()).only_stage("rollup"));
    let replies = at_once(&desk, &thread, &vec![json!({}); 2]).await;
    let mut states: Vec<u16> = replies.iter().map(|one| one.status.as_u16()).collect();
    states.sort_unstable();
    assert_eq!(states, [201, 502]);
    assert_eq!(summaries(&desk, &thread).await.len(), 1);

    // Each covers what the other left.
    let other = long_thread(&desk).await;
    desk.model.always(Step::new(Fault::Delay { ms: 500 }));
    let spans = [json!({"until_turn": 2}), json!({"until_turn": 6})];
    for reply in at_once(&desk, &other, &spans).await {
        assert_eq!(reply.status.as_u16(), 201, "{}", reply.text);
    }

    let covered: usize = summaries(&desk, &other)
        .await
        .iter()
        .map(|one| one["evidence"]["message_ids"].as_array().unwrap().len())
        .sum();
    assert_eq!(covered, 6, "each message once");
    desk.app.finish().await;
}

#[tokio::test]
async fn a_message_deleted_meanwhile_is_in_no_summary() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        let thread = long_thread(&desk).await;
        desk.model.always(Step::new(Fault::Delay { ms: 1000 }));
        let messages = format!("/v1/threads/{thread}/messages");
        let messages = desk.app.get(&messages).await.json();
        let third = format!(
            "/v1/memories/{}",
            messages["items"][2]["id"].as_str().unwrap()
        );
        let path = format!("/v1/threads/{thread}/summaries");
        let body = json!({});
        let summarising = desk.app.post(&path, &body);
        let deleting = async {
            let asked = desk.model.wait_for_requests(1, Duration::from_secs(10));
            assert!(asked.await);
            desk.delete(&third).await
        };
        let (summarised, deleted) = tokio::join!(summarising, deleting);
        assert_eq!(deleted.status, 200, "{}", deleted.text);
        summarised.assert_problem(410, "erased");
        assert!(summaries(&desk, &thread).await.is_empty());

        let again = desk.app.post(&path, &body).await;
        assert_eq!(again.status, 201, "{}", again.text);
        let covered = again.json()["evidence"]["message_ids"]
            .as_array()
            .unwrap()
            .len();
        assert_eq!(covered, 5);
        desk.app.finish().await;
    }
}
