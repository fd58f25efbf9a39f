//! Model servers on this machine are noticed at the start, and nothing but their list is requested.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc;

use memoir::scripted_model::ScriptedModel;
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::binary::Binary;
use crate::support::ingest::until;

const LIST: &str = r#"{"object":"list","data":[{"id":"nomic-embed-text"},{"id":"qwen2.5:7b"}]}"#;

/// A server that answers every request with a list of models and passes on what it was sent.
fn model_server() -> (SocketAddr, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, requests) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
                head.push(byte[0]);
            }

            let _ = sender.send(String::from_utf8(head).unwrap());
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{LIST}",
                LIST.len()
            );
        }
    });

    (address, requests)
}

/// The noticed models of the provider of a test; a developer may run servers on the usual ports.
fn noticed(info: &Value) -> Vec<Value> {
    let all = info["llm"]["local_models"].as_array().unwrap();
    let ours = all
        .iter()
        .filter(|found| found["model"].as_str().unwrap().starts_with("mine:"));
    ours.cloned().collect()
}

#[tokio::test]
async fn a_model_on_this_machine_is_noticed_and_only_asked_for_its_list() {
    let (address, requests) = model_server();
    let app = TestApp::with(&[
        ("LLM__NOTICE_LOCAL_MODELS", "true"),
        (
            "LLM__PROVIDERS__MINE__BASE_URL",
            &format!("http://{address}/v1"),
        ),
        ("LLM__PROVIDERS__MINE__API_KEY", "sk-very-secret"),
    ])
    .await;

    until("a noticed model", async || {
        !noticed(&app.get("/v1/info").await.json()).is_empty()
    })
    .await;

    assert_eq!(
        noticed(&app.get("/v1/info").await.json()),
        [json!({
            "model": "mine:qwen2.5:7b",
            "how_to_use": "mine has a model on this machine; to use it, set \
                           MEMOIR__LLM__MODEL=mine:qwen2.5:7b and restart memoir",
        })]
    );

    app.finish().await;
    let sent: Vec<String> = requests.try_iter().collect();
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert!(
        sent[0].starts_with("GET /v1/models HTTP/1.1\r\n"),
        "{sent:?}"
    );
    assert!(!sent[0].contains("sk-very-secret"), "{sent:?}");
}

#[tokio::test]
async fn a_silent_server_does_not_delay_the_start() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", silent.local_addr().unwrap());
    let app = TestApp::with(&[
        ("LLM__NOTICE_LOCAL_MODELS", "true"),
        ("LLM__PROVIDERS__MINE__BASE_URL", &url),
    ])
    .await;

    // The connection is accepted by the system, so the server has not refused: it is still asked.
    let info = app.get("/v1/info").await;
    assert_eq!((info.status.as_u16(), noticed(&info.json())), (200, vec![]));
}

#[tokio::test]
async fn nothing_is_asked_when_switched_off_or_when_another_model_is_used() {
    for (switch, model) in [("false", "local:embedded"), ("true", "mine:other")] {
        let (address, requests) = model_server();
        let url = format!("http://{address}/v1");
        let app = TestApp::with(&[
            ("LLM__NOTICE_LOCAL_MODELS", switch),
            ("LLM__PROVIDERS__MINE__BASE_URL", &url),
            ("LLM__MODEL", model),
        ])
        .await;

        let info = app.get("/v1/info").await.json();
        assert!(noticed(&info).is_empty(), "{switch} {model}");
        app.finish().await;
        assert_eq!(requests.try_iter().count(), 0, "{switch} {model}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_says_how_to_use_it() {
    let model = ScriptedModel::local().await.unwrap();
    let memoir = Binary::new().env(
        "MEMOIR__LLM__PROVIDERS__MINE__BASE_URL",
        &model.openai_url(),
    );

    let running = tokio::task::block_in_place(|| memoir.serve());
    until("the line of the log", async || {
        memoir
            .log()
            .contains("MEMOIR__LLM__MODEL=mine:scripted and restart memoir")
    })
    .await;

    drop(running);
    assert!(model.requests().is_empty());
}
