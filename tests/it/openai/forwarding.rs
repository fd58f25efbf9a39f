//! Requests and replies pass through with every byte that memory does not need to change.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Uri, header};
use axum::response::IntoResponse;
use axum::routing::post;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{Talk, user};
use crate::support::app::{TestApp, send};

type Received = Arc<Mutex<Vec<(String, HeaderMap, String)>>>;

/// A provider that records what it gets and answers with fixed bytes.
async fn provider(answer: &'static str, kind: &'static str) -> (String, Received) {
    let received = Received::default();
    let answer = move |State(received): State<Received>,
                       uri: Uri,
                       headers: HeaderMap,
                       body: Bytes| async move {
        let body = String::from_utf8(body.to_vec()).unwrap();
        received
            .lock()
            .unwrap()
            .push((uri.path().to_owned(), headers, body));
        ([(header::CONTENT_TYPE, kind)], answer).into_response()
    };
    let app = Router::new()
        .fallback(post(answer))
        .with_state(received.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    #[expect(clippy::disallowed_methods, reason = "ends with the test")]
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    (url, received)
}

async fn app(url: &str) -> TestApp {
    TestApp::with(&[
        ("LLM__PROVIDERS__MINE__KIND", "openai"),
        ("LLM__PROVIDERS__MINE__BASE_URL", url),
        ("LLM__PROVIDERS__MINE__API_KEY", "sk-of-the-service"),
        ("LLM__PROVIDERS__MINE__MODEL", "m"),
        ("LLM__PROVIDERS__MINE__RESPONSES", "true"),
    ])
    .await
}

#[tokio::test]
async fn unknown_fields_pass_in_both_directions() {
    let answer = r#"{ "id":"c", "x":1.50, "choices":[{"index":1,"message":{"content":"no"}},{"index":0,"message":{"content":"yes","y":null},"finish_reason":"stop"}]}"#;
    let (url, received) = provider(answer, "application/json; charset=utf-8").await;
    let app = app(&url).await;
    let body = r#"{"model":"m", "messages":[{"role":"user","content":"h\u0069","z":1e2}], "n":2, "stop":["a"], "response_format":{"type":"json_object"}, "new":{"b":1.0}}"#;
    let request = app.request(Method::POST, "/openai/u/ann/t/t%2F1/v1/chat/completions");
    let request = request
        .header("content-type", "application/json")
        .header("authorization", "Bearer mine");
    let reply = send(request.body(body)).await;
    assert_eq!(reply.text, answer);
    assert_eq!(
        reply.header("content-type"),
        "application/json; charset=utf-8"
    );
    let (path, headers, sent) = received.lock().unwrap()[0].clone();
    assert_eq!(path, "/v1/chat/completions");
    assert_eq!(headers["authorization"], "Bearer sk-of-the-service");
    assert_eq!(
        headers
            .keys()
            .find(|name| name.as_str().starts_with("x-memoir")),
        None
    );
    assert_eq!(sent, body.replace(", \"", ",\""));

    let threads = app
        .get("/v1/threads?user_id=ann&external_id=t/1")
        .await
        .json();
    assert_eq!(threads["items"][0]["message_count"], 2);
    assert_eq!(
        threads["items"][0]["id"],
        reply.header("x-memoir-thread-id")
    );
    app.finish().await;
}

#[tokio::test]
async fn responses_pass_whole_and_streamed() {
    let whole = r#"{"id":"r","status":"completed","output":[{"type":"reasoning"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Ahoy"}]}],"usage":{"input_tokens":7,"output_tokens":3}}"#;
    let stream = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"Ahoy\"}\n\nevent: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"status\":\"completed\",\"output\":[{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"Ahoy\"}]}],\"usage\":{\"input_tokens\":7,\"output_tokens\":3}}}\n\n";
    for (answer, kind) in [(whole, "application/json"), (stream, "text/event-stream")] {
        let (url, received) = provider(answer, kind).await;
        let app = app(&url).await;
        let body = json!({"model": "mine:m", "stream": answer == stream, "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Greet me"}]},
        ]});
        let request = app
            .request(Method::POST, "/openai/v1/responses")
            .json(&body);
        let reply = send(request.header("X-Memoir-Thread", "t")).await;
        assert_eq!(reply.text, answer);
        assert_eq!(received.lock().unwrap()[0].0, "/v1/responses");
        let thread = reply.header("x-memoir-thread-id");
        let stored = app
            .get(&format!("/v1/threads/{thread}/messages"))
            .await
            .json();
        assert_eq!(stored["items"][0]["content"], "Greet me");
        assert_eq!(stored["items"][1]["content"], "Ahoy");
        let usage = app.get("/v1/usage?stage=openai_responses").await.json();
        assert_eq!(usage["items"][0]["tokens_prompt"], 7);

        for name in ["previous_response_id", "conversation", "background"] {
            let mut body = json!({"model": "mine:m", "input": "x"});
            body[name] = json!("r_1");
            let reply = app.post("/openai/v1/responses", &body).await;
            assert_eq!(reply.status, 400);
            let error = &reply.json()["error"];
            assert_eq!(
                (&error["code"], &error["param"]),
                (&json!("unsupported_parameter"), &json!(name))
            );
        }
        app.finish().await;
    }
}

#[tokio::test]
async fn models_and_embeddings_are_served() {
    let talk = Talk::open().await;
    let models = talk.desk.app.get("/openai/v1/models").await.json();
    let ids: Vec<&str> = models["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].as_str().unwrap())
        .collect();
    assert!(
        !ids.iter()
            .any(|id| id.starts_with("local:") || id.starts_with("anthropic:")),
        "{ids:?}"
    );
    for path in ["/openai/v1/embeddings", "/openai/u/ann/t/x/v1/embeddings"] {
        let body = json!({"model": super::MODEL, "input": ["one", "two"]});
        let reply = talk.desk.app.post(path, &body).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        assert_eq!(reply.json()["data"].as_array().unwrap().len(), 2);
    }
    let usage = talk
        .desk
        .app
        .get("/v1/usage?stage=openai_embeddings")
        .await
        .json();
    assert_eq!(usage["items"][0]["calls"], 2);
    assert_eq!(talk.stored("x").await, Vec::<Value>::new());
    talk.chat("", &[user("Hi")]).await;
    talk.desk.app.finish().await;
}
