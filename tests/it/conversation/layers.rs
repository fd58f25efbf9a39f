//! The layers of a thread: its window, older turns, summaries, the lexicon; and memories by search.

use reqwest::Method;
use serde_json::{Value, json};

use super::{Desk, answering, classified, intent};
use crate::support::app::{TestApp, send};
use crate::support::database::TestDatabase;

fn turns(count: usize) -> Value {
    let each = (1..=count).flat_map(|n| {
        [
            json!({"role": "user", "content": format!("question {n}")}),
            json!({"role": "assistant", "content": format!("answer {n}")}),
        ]
    });
    json!({"messages": each.collect::<Vec<_>>(), "enrich": false})
}

#[tokio::test]
async fn the_window_holds_exactly_the_last_turns() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        let thread = desk.thread("ann", None).await;
        desk.say(&thread, &turns(10)).await;
        desk.say(
            &thread,
            &json!({"role": "system", "content": "a rule", "enrich": false}),
        )
        .await;
        let window = desk
            .app
            .get(&format!("/v1/threads/{thread}/window?k=3"))
            .await
            .json();
        let shown: Vec<&str> = window["turns"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|turn| turn["messages"].as_array().unwrap())
            .map(|message| message["content"].as_str().unwrap())
            .collect();
        assert_eq!(
            shown,
            [
                "question 8",
                "answer 8",
                "question 9",
                "answer 9",
                "question 10",
                "answer 10"
            ]
        );
        assert_eq!(
            desk.app
                .get(&format!("/v1/threads/{thread}/window"))
                .await
                .json()["turns"]
                .as_array()
                .unwrap()
                .len(),
            4
        );
        desk.app
            .get(&format!("/v1/threads/{thread}/window?k=0"))
            .await
            .assert_problem(422, "invalid_request");

        // Old turns become a summary; the originals and the last turns stay.
        let path = format!("/v1/threads/{thread}/summaries");
        desk.model.set_rule(|seen| match seen.stage.as_str() {
            "rollup" => memoir::scripted_model::Reply::json(
                json!({"title": "Early questions", "summary": "Six answers."}),
            ),
            _ => memoir::scripted_model::Reply::sensible(seen),
        });
        let reply = desk.app.post(&path, &json!({"pinned": true})).await;
        assert_eq!(reply.status.as_u16(), 201, "{}", reply.text);
        let summary = reply.json();
        assert_eq!(
            (&summary["type"], &summary["title"]),
            (&json!("summary"), &json!("Early questions"))
        );
        assert_eq!(
            summary["evidence"]["message_ids"].as_array().unwrap().len(),
            12
        );
        let asked = desk.seen("rollup").pop().unwrap();
        assert!(
            asked.user.contains("question 6") && !asked.user.contains("question 7"),
            "{}",
            asked.user
        );
        let window = desk
            .app
            .get(&format!("/v1/threads/{thread}/window"))
            .await
            .json();
        assert_eq!(window["pinned_summary"]["id"], summary["id"]);
        assert_eq!(window["thread"]["message_count"], 21);
        desk.app
            .post(&path, &json!({}))
            .await
            .assert_problem(422, "invalid_request");
        desk.app.finish().await;
    }
}

#[tokio::test]
async fn older_turns_are_chosen_by_meaning_lexicon_recency_and_importance() {
    let app = TestApp::spawn().await;
    let thread = app
        .post("/v1/threads", &json!({"user_id": "ann"}))
        .await
        .json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("/v1/threads/{thread}/messages");
    let say = async |text: &str| {
        app.post(&path, &json!({"content": text, "enrich": false}))
            .await
            .json()
    };
    say("The vehicle acoustics report is due in March").await;
    let off = say("My cat sleeps all day on the sofa").await;
    for n in 0..6 {
        say(&format!("Turn {n}")).await;
    }

    let lexicon = app
        .request(Method::PUT, "/v1/lexicon")
        .header("content-type", "text/csv")
        .body("term,alias\nNVH,vehicle acoustics\n");
    let stored = send(lexicon).await;
    assert_eq!(
        stored.json()["entries"],
        json!([{"term": "NVH", "alias": "vehicle acoustics"}]),
        "{}",
        stored.text
    );
    let select = async |body: Value| {
        app.post(&format!("/v1/threads/{thread}/episodic"), &body)
            .await
            .json()
    };
    let found = select(json!({"query": "NVH deadline"})).await;
    let first = &found["items"][0];
    assert_eq!(
        first["content"],
        "The vehicle acoustics report is due in March"
    );
    assert_eq!(
        (&first["kept"], &first["reason"]),
        (&json!(true), &json!("kept: lexicon match"))
    );
    assert_eq!(first["turn_distance"], 7);
    let parts = &first["score_parts"];
    let sum: f64 = ["semantic", "lexicon", "recency", "importance"]
        .iter()
        .map(|name| parts[*name].as_f64().unwrap())
        .sum();
    assert!((sum - first["score"].as_f64().unwrap()).abs() < 1e-9);
    let items = found["items"].as_array().unwrap();
    assert!(
        items
            .iter()
            .all(|item| item["turn_index"].as_i64().unwrap() <= 4),
        "not the window: {found}"
    );

    // A larger budget only adds.
    let kept = |found: &Value| {
        found["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|item| item["kept"] == true)
            .count()
    };
    let none = select(json!({"query": "NVH deadline", "max_tokens": 1})).await;
    assert_eq!(kept(&none), 0);
    assert!(kept(&found) >= 1);

    let id = off["id"].as_str().unwrap();
    let mark = app
        .request(Method::PATCH, &format!("/v1/memories/{id}"))
        .json(&json!({"important": true}));
    assert_eq!(send(mark).await.json()["importance"], 0.9);
    let found = select(json!({"query": "NVH deadline"})).await;
    let marked = found["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|item| item["id"] == id)
        .unwrap();
    assert_eq!(marked["kept"], true, "{marked}");
    let bad = app
        .request(Method::PUT, "/v1/lexicon")
        .json(&json!({"entries": [{"term": "", "alias": "x"}]}));
    send(bad).await.assert_problem(422, "invalid_request");
    app.finish().await;
}

#[tokio::test]
async fn a_search_finds_memories_with_what_was_said_around_them() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        desk.model.set_rule(answering(
            |_| classified(&["shipping"], 0.5),
            intent(&["refund"], false),
        ));
        let (here, there) = (
            desk.thread("ann", None).await,
            desk.thread("ann", Some("Trip")).await,
        );
        let foreign = desk.thread("bob", None).await;
        desk.say(
            &here,
            &json!({"content": "something else entirely", "enrich": false}),
        )
        .await;
        desk.say(
            &there,
            &json!({"messages": [
            {"content": "When did you see the zeppelin museum?"},
            {"role": "assistant", "content": "Yes, last Tuesday"},
            {"content": "The weather was fine"},
        ], "enrich": false}),
        )
        .await;
        desk.say(
            &foreign,
            &json!({"content": "the zeppelin museum of bob", "enrich": false}),
        )
        .await;

        let ask = |expand: u8| json!({"query": "zeppelin museum", "user_id": "ann", "thread_id": here, "rank": "search", "expand": expand});
        let found = desk.context(&ask(0)).await;
        let texts: Vec<&str> = found["memories"]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| m["content"].as_str().unwrap())
            .collect();
        assert_eq!(texts[0], "When did you see the zeppelin museum?");
        assert!(texts.iter().all(|text| !text.contains("bob")), "{texts:?}");
        assert!(
            found["memories"][0]["score_parts"]["search"]
                .as_f64()
                .unwrap()
                > 59.0
        );
        let searched = |text: &str| {
            let place = texts.iter().position(|one| *one == text).unwrap();
            found["memories"][place]["score_parts"]["search"]
                .as_f64()
                .unwrap()
        };
        assert!(
            searched("Yes, last Tuesday") > searched("something else entirely"),
            "{found}"
        );
        assert!(
            found["context"]
                .as_str()
                .unwrap()
                .contains("(from: Trip) When did you see")
        );
        let more = desk.context(&ask(1)).await;
        assert!(
            more["context"]
                .as_str()
                .unwrap()
                .contains("Yes, last Tuesday")
        );
        desk.app.finish().await;
    }
}
