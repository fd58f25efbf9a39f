//! Prompts that are estimated, sent, cancelled and exported.

use std::time::{Duration, Instant};

use memoir::scripted_model::{Fault, Reply, Step};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::support::app::send;
use crate::support::database::TestDatabase;
use crate::support::events::{EventReader, named, text_of};
use crate::support::library::Desk;

const PROMPT: &str = "## Hard Rules\nBe brief.\n\n## Task\nName a lighthouse: \"why\" & 世界?";

fn sending(desk: &Desk, body: &Value) -> RequestBuilder {
    desk.app
        .request(Method::POST, "/v1/prompts/send")
        .json(body)
}

async fn thread(desk: &Desk) -> String {
    let made = desk
        .app
        .post("/v1/threads", &json!({"user_id": "ann"}))
        .await;
    made.json()["id"].as_str().unwrap().to_owned()
}

async fn messages(desk: &Desk, thread: &str) -> Vec<Value> {
    let listed = desk
        .app
        .get(&format!("/v1/threads/{thread}/messages"))
        .await;
    listed.json()["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_prompt_is_sent_as_it_is_and_its_reply_goes_to_the_thread() {
    for database in TestDatabase::each().await {
        let desk = Desk::on(database, &[]).await;
        desk.model.set_rule(|seen| match seen.stage.as_str() {
            "send" => Reply::text("The one on the cape."),
            _ => Reply::sensible(seen),
        });
        let thread = thread(&desk).await;
        let body = json!({
            "prompt": PROMPT, "system": "Answer as a sailor.", "thread_id": thread, "user_id": "ann",
            "user_message": "Which lighthouse?",
        });
        let reply = desk.app.post("/v1/prompts/send", &body).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let sent = reply.json();
        assert_eq!(sent["reply"], "The one on the cape.");
        assert_eq!(sent["warnings"], json!([]));
        assert_eq!(sent["estimate"]["model"], "stub:gpt-4o");
        assert!(sent["estimate"]["tokens"].as_i64().unwrap() > 20);
        assert_eq!(sent["responses"][0]["stage"], "send");
        assert_eq!(sent["responses"][0]["llm_output"], Value::Null);

        let seen = &desk.seen("send")[0];
        assert_eq!(
            (seen.user.as_str(), seen.system.as_str()),
            (PROMPT, "Answer as a sailor.")
        );
        let kept = messages(&desk, &thread).await;
        let told: Vec<(&Value, &Value, &Value)> = kept
            .iter()
            .map(|one| (&one["role"], &one["content"], &one["source"]))
            .collect();
        assert_eq!(
            told,
            [
                (&json!("user"), &json!("Which lighthouse?"), &json!("chat")),
                (
                    &json!("assistant"),
                    &json!("The one on the cape."),
                    &json!("chat")
                ),
            ]
        );

        let usage = desk.app.get("/v1/usage").await.json();
        let stages: Vec<&Value> = usage["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|day| &day["stage"])
            .collect();
        assert!(stages.contains(&&json!("send")), "{usage}");
        desk.close().await;
    }
}

#[tokio::test]
async fn an_external_reply_is_stored_once_and_nothing_is_sent() {
    let desk = Desk::open().await;
    let thread = thread(&desk).await;
    let body = json!({"external_reply": "From another page.", "thread_id": thread});
    for duplicate in [false, true] {
        let sent = desk.app.post("/v1/prompts/send", &body).await.json();
        assert_eq!(
            (&sent["external"], &sent["responses"]),
            (&json!(true), &json!([]))
        );
        assert_eq!(sent["messages"][0]["source"], "external");
        assert_eq!(sent["messages"][0]["duplicate"], duplicate, "{sent}");
    }

    let kept = messages(&desk, &thread).await;
    assert_eq!((kept.len(), &kept[0]["source"]), (1, &json!("external")));
    assert!(desk.seen("send").is_empty());
    desk.close().await;
}

#[tokio::test]
async fn a_reply_is_streamed_and_returned_as_a_whole_at_the_end() {
    let desk = Desk::open().await;
    desk.model.edit_script(|script| script.piece_ms = 20);
    let body = json!({"prompt": PROMPT});
    let events = EventReader::open(sending(&desk, &body)).await.all().await;
    let (first, last) = (&events[0], events.last().unwrap());
    assert_eq!((first.0.as_str(), last.0.as_str()), ("started", "result"));
    assert_eq!(first.1["run_id"], last.1["run_id"]);
    assert_eq!(first.1["estimate"]["within_ceiling"], true);
    assert!(named(&events, "reply").len() > 3, "{events:?}");
    assert_eq!(text_of(&events, "reply"), last.1["reply"].as_str().unwrap());
    let first_token = last.1["first_token_ms"].as_f64().unwrap();
    assert!(first_token < last.1["timings"]["total_ms"].as_f64().unwrap());

    let whole = json!({"prompt": PROMPT, "stream": true});
    let asked = sending(&desk, &whole).send().await.unwrap();
    assert_eq!(asked.headers()["content-type"], "text/event-stream");
    desk.close().await;
}

#[tokio::test]
async fn a_cancelled_run_ends_at_once_on_the_wire() {
    let desk = Desk::open().await;
    desk.model.set_rule(|_| Reply::text("x".repeat(4000)));
    for stream in [true, false] {
        desk.model.clear();
        desk.model.edit_script(|script| {
            script.piece_ms = 100;
            script.latency_ms = if stream { 0 } else { 60_000 };
        });
        let run = format!("0199a7e0-0000-7000-8000-00000000000{}", u8::from(stream));
        let body = json!({"prompt": PROMPT, "stream": stream, "run_id": run});
        #[expect(clippy::disallowed_methods, reason = "ends with the test")]
        let asking = tokio::spawn(send(sending(&desk, &body)));
        let begun = desk.model.wait_for_requests(1, Duration::from_secs(20));
        assert!(begun.await);

        let before = Instant::now();
        let cancelled = desk
            .app
            .post(&format!("/v1/runs/{run}/cancel"), &json!({}))
            .await;
        assert_eq!(cancelled.status, 200, "{}", cancelled.text);
        assert_eq!(cancelled.json()["kind"], "send");
        let answer = asking.await.unwrap();
        assert!(before.elapsed() < Duration::from_secs(5));
        if stream {
            assert!(answer.text.contains("event: problem"), "{}", answer.text);
            assert!(answer.text.contains("run_cancelled"), "{}", answer.text);
        } else {
            answer.assert_problem(409, "run_cancelled");
        }

        let ended = desk
            .model
            .wait_until(|stats| stats.abandoned == 1, Duration::from_secs(5));
        assert!(ended.await, "stream: {stream}");
    }

    desk.model.clear();
    desk.model
        .edit_script(|script| (script.piece_ms, script.latency_ms) = (0, 0));
    let next = desk
        .app
        .post("/v1/prompts/send", &json!({"prompt": PROMPT}))
        .await;
    assert_eq!(next.status, 200, "the next run works");
    desk.close().await;
}

#[tokio::test]
async fn a_client_that_goes_away_ends_the_call() {
    let desk = Desk::open().await;
    desk.model.set_rule(|_| Reply::text("x".repeat(4000)));
    desk.model.edit_script(|script| script.piece_ms = 100);
    let mut reader = EventReader::open(sending(&desk, &json!({"prompt": PROMPT}))).await;
    while reader.next().await.expect("a reply").0 != "reply" {}
    drop(reader);
    let ended = desk
        .model
        .wait_until(|stats| stats.abandoned == 1, Duration::from_secs(5));
    assert!(ended.await);
    desk.close().await;
}

#[tokio::test]
async fn ceilings_refuse_before_a_call() {
    let desk = Desk::open().await;
    let low = json!({"prompt": PROMPT, "ceilings": {"tokens": 5}});
    let refused = desk.app.post("/v1/prompts/send", &low).await;
    refused.assert_problem(422, "prompt_over_ceiling");
    assert_eq!(refused.json()["context"]["ceiling"], 5);

    let put = desk.app.request(Method::PUT, "/v1/workspace");
    let put = send(put.json(&json!({"ceilings": {"tokens": 10}}))).await;
    assert!(put.status.is_success(), "{}", put.text);
    for stream in [false, true] {
        let body = json!({"prompt": PROMPT, "stream": stream, "ceilings": {"tokens": 1000}});
        let refused = desk.app.post("/v1/prompts/send", &body).await;
        refused.assert_problem(422, "prompt_over_ceiling");
    }

    let estimate = desk
        .app
        .post("/v1/prompts/estimate", &json!({"prompt": PROMPT}))
        .await;
    assert_eq!(estimate.status, 200, "{}", estimate.text);
    let estimate = estimate.json();
    assert_eq!(estimate["within_ceiling"], false);
    assert_eq!(estimate["ceiling_tokens"], 10);
    assert!(desk.model.requests().is_empty(), "nothing was sent");
    desk.close().await;
}

#[tokio::test]
async fn a_model_that_fails_is_replaced_once_and_the_reason_is_told() {
    let settings = [
        ("LLM__FALLBACK_MODEL", "stub:small"),
        ("LLM__TRANSPORT__TRIES", "1"),
    ];
    let desk = Desk::with(&settings).await;
    let broken = || Fault::Status {
        status: 500,
        headers: std::collections::BTreeMap::default(),
        body: String::new(),
    };
    desk.model.always(Step::new(broken()).only_model("gpt-4o"));
    let sent = desk
        .app
        .post("/v1/prompts/send", &json!({"prompt": PROMPT}))
        .await;
    assert_eq!(sent.status, 200, "{}", sent.text);
    let models: Vec<String> = desk
        .model
        .requests()
        .iter()
        .map(|one| one.model.clone())
        .collect();
    assert_eq!(models, ["gpt-4o", "small"]);

    desk.model.always(Step::new(broken()).only_model("small"));
    let failed = desk
        .app
        .post("/v1/prompts/send", &json!({"prompt": PROMPT}))
        .await;
    failed.assert_problem(502, "llm_unavailable");
    desk.close().await;
}

#[tokio::test]
async fn bad_requests_say_what_to_do() {
    let desk = Desk::open().await;
    for (body, field) in [
        (json!({}), "prompt"),
        (json!({"prompt": " "}), "prompt"),
        (
            json!({"prompt": "a", "external_reply": "b"}),
            "external_reply",
        ),
        (json!({"external_reply": "b"}), "thread_id"),
        (json!({"prompt": "a", "user_message": "b"}), "thread_id"),
        (json!({"prompt": "a", "run_id": "x"}), "run_id"),
        (
            json!({"prompt": "a", "ceilings": {"tokens": 0}}),
            "ceilings.tokens",
        ),
    ] {
        let refused = desk.app.post("/v1/prompts/send", &body).await;
        refused.assert_problem(422, "invalid_request");
        assert_eq!(refused.json()["errors"][0]["field"], field, "{body}");
    }

    let nowhere = json!({"prompt": "a", "thread_id": "0199a7e0-0000-7000-8000-000000000000"});
    desk.app
        .post("/v1/prompts/send", &nowhere)
        .await
        .assert_problem(404, "not_found");
    let unknown = json!({"prompt": "a", "model": "nobody:x"});
    desk.app
        .post("/v1/prompts/send", &unknown)
        .await
        .assert_problem(422, "unknown_model");
    desk.app
        .post("/v1/prompts/estimate", &json!({"prompt": ""}))
        .await
        .assert_problem(422, "invalid_request");
    assert!(desk.model.requests().is_empty());
    desk.close().await;
}

#[tokio::test]
async fn an_answer_is_exported_with_its_citations() {
    let desk = Desk::open().await;
    let mut body = json!({
        "title": "When was\nit built?", "answer": "In 1843 [7].\n",
        "citations": [{"chunk_id": 7, "path": "/cape.md", "version": 2, "heading": "Past", "quote": "Built\nin 1843."}],
    });
    let file = desk.app.post("/v1/exports", &body).await;
    assert_eq!(file.header("content-type"), "text/markdown; charset=utf-8");
    assert_eq!(
        file.header("content-disposition"),
        "attachment; filename=\"answer.md\""
    );
    assert_eq!(
        file.text,
        "# When was it built?\n\nIn 1843 [7].\n\n## Sources\n\n- [7] /cape.md, version 2, Past: “Built in 1843.”\n"
    );

    body["format"] = json!("json");
    let file = desk.app.post("/v1/exports", &body).await;
    assert_eq!(
        file.header("content-disposition"),
        "attachment; filename=\"answer.json\""
    );
    assert_eq!(file.json()["citations"], body["citations"]);
    assert_eq!(file.json()["answer"], body["answer"]);
    desk.app
        .post("/v1/exports", &json!({"answer": ""}))
        .await
        .assert_problem(422, "invalid_request");
    desk.close().await;
}

/// Without a key, the embedded model answers from the prompt itself.
#[tokio::test]
async fn the_embedded_model_replies_too() {
    let app = crate::support::app::TestApp::spawn().await;
    let prompt = "The lighthouse on the cape was built in 1843.\n\nWhen was the lighthouse built?";
    let sent = app
        .post("/v1/prompts/send", &json!({"prompt": prompt}))
        .await;
    assert_eq!(sent.status, 200, "{}", sent.text);
    assert!(
        sent.json()["reply"].as_str().unwrap().contains("1843"),
        "{}",
        sent.text
    );
    app.finish().await;
}
