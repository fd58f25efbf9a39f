//! The control paths, as another process uses them.

use super::common::*;
use memoir::scripted_model::*;
use serde_json::{Value, json};

async fn get(model: &ScriptedModel, path: &str) -> Value {
    crate::support::client::get(&format!("{}{path}", model.url()))
        .await
        .unwrap()
        .json()
        .await
        .unwrap()
}

async fn send(model: &ScriptedModel, path: &str, body: &Value) -> (u16, String) {
    let url = format!("{}{path}", model.url());
    let response = crate::support::client::client()
        .post(url)
        .json(body)
        .send()
        .await
        .unwrap();

    (response.status().as_u16(), response.text().await.unwrap())
}

async fn delete(model: &ScriptedModel, path: &str) {
    crate::support::client::client()
        .delete(format!("{}{path}", model.url()))
        .send()
        .await
        .unwrap();
}

#[tokio::test]
async fn requests_and_counts_can_be_read_and_cleared() {
    let model = model().await;
    ask(&model, Protocol::Gemini, OutputMode::Tool).await;
    let seen = get(&model, "/_requests").await;
    assert_eq!(seen[0]["stage"], "select");
    assert_eq!(seen[0]["protocol"], "gemini");
    assert_eq!(seen[0]["outcome"], json!({"answered": 200}));
    assert_eq!(get(&model, "/_stats").await["by_status"], json!({"200": 1}));
    delete(&model, "/_requests").await;
    assert_eq!(get(&model, "/_requests").await, json!([]));

    assert_eq!(get(&model, "/_stats").await["requests"], 0);
}

#[tokio::test]
async fn scripts_and_faults_can_be_set() {
    let model = model().await;
    let script = json!({"latency_ms": 1, "rule": {"kind": "by_stage", "answers": {"select": {"selections": []}}},
        "usage": {"prompt_tokens": 5}});
    assert_eq!(send(&model, "/_script", &script).await.0, 204);
    let (_, body) = ask(&model, Protocol::OpenAi, OutputMode::Native).await;
    assert_eq!(text(Protocol::OpenAi, &body), Some(r#"{"selections":[]}"#));
    assert_eq!(body["usage"]["prompt_tokens"], 5);

    let steps = json!([{"kind": "status", "status": 418}, {"kind": "html", "only_stage": "answer"},
        {"kind": "empty", "always": true}]);
    assert_eq!(send(&model, "/_faults", &steps).await.0, 204);
    assert_eq!(
        ask(&model, Protocol::OpenAi, OutputMode::Native).await.0,
        418
    );

    let (_, body) = ask(&model, Protocol::OpenAi, OutputMode::Native).await;
    assert_eq!(text(Protocol::OpenAi, &body), Some(""));
    delete(&model, "/_faults").await;
    assert_eq!(get(&model, "/_stats").await["faults_queued"], 0);
}

#[tokio::test]
async fn mistakes_in_control_bodies_are_named() {
    let model = model().await;
    let (status, text) = send(&model, "/_script", &json!({"latency": 1})).await;
    assert_eq!(status, 400);
    assert!(text.contains("unknown field `latency`"), "{text}");
    let (status, text) = send(&model, "/_faults", &json!([{"kind": "explode"}])).await;

    assert_eq!(status, 400);
    assert!(text.contains("explode"), "{text}");
}

#[tokio::test]
async fn models_are_listed_and_other_paths_unknown() {
    let model = model().await;
    assert_eq!(get(&model, "/v1/models").await["data"][0]["id"], "scripted");
    for (path, body) in [
        ("/v1/completions", json!({})),
        ("/v1beta/models/m:countTokens", json!({})),
    ] {
        let (status, text) = send(&model, path, &body).await;
        assert_eq!(status, 404);
        assert!(serde_json::from_str::<Value>(&text).unwrap()["error"]["message"].is_string());
    }

    let response = crate::support::client::get(&format!("{}/v1/messages", model.url()))
        .await
        .unwrap();
    assert_eq!(response.status(), 404);
}

#[tokio::test]
async fn the_record_keeps_the_newest() {
    let model = model().await;
    model.edit_script(|script| script.record_limit = 2);
    for _ in 0..5 {
        ask(&model, Protocol::OpenAi, OutputMode::Native).await;
    }

    let seen: Vec<_> = model
        .requests()
        .iter()
        .map(|seen| (seen.number, seen.outcome))
        .collect();

    assert_eq!(
        seen,
        [(4, Outcome::Answered(200)), (5, Outcome::Answered(200))]
    );

    assert_eq!(model.stats().requests, 5);
}
