//! Spans go to the configured collector, use the names of the OpenTelemetry conventions, and never
//! contain text.

use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::http::HeaderMap;
use memoir::llm::Session;
use memoir::model::call::CallContext;
use memoir::scripted_model::Fault;

use crate::support::door::{Door, call, chunks};

type Received = Arc<Mutex<Vec<Bytes>>>;

async fn collector() -> (String, Received) {
    let received: Received = Arc::default();
    let kept = Arc::clone(&received);
    let take = move |headers: HeaderMap, body: Bytes| async move {
        assert_eq!(headers["content-type"], "application/x-protobuf");
        kept.lock().unwrap().push(body);
    };

    let router = axum::Router::new().route("/v1/traces", axum::routing::post(take));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    #[expect(clippy::disallowed_methods, reason = "ends with the test")]
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });

    (url, received)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_attempt_is_a_span_without_text() {
    let (url, received) = collector().await;
    let door = Door::with(&[("TELEMETRY__OTLP_ENDPOINT", &url)]).await;
    door.model.push(Fault::Status {
        status: 500,
        headers: [].into(),
        body: String::new(),
    });

    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let session = Session::of_caller(CallContext {
        traceparent: Some(traceparent.to_owned()),
        ..call()
    });
    door.llm
        .ask(
            &session,
            chunks(&["a most secret chunk"], &["Hidden Shelf"], true),
        )
        .await
        .unwrap();

    door.llm.close().await;

    let bytes: Vec<u8> = received.lock().unwrap().concat();
    let holds = |text: &str| {
        bytes
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    };

    for name in [
        "chat m",
        "memoir",
        "gen_ai.operation.name",
        "gen_ai.provider.name",
        "gen_ai.request.model",
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.output_tokens",
        "gen_ai.output.type",
        "error.type",
        "server_error",
        "memoir.stage",
        "classify",
    ] {
        assert!(holds(name), "{name}");
    }

    let trace: Vec<u8> = (0..16)
        .map(|at| u8::from_str_radix(&traceparent[3 + at * 2..5 + at * 2], 16).unwrap())
        .collect();
    assert!(
        bytes.windows(16).any(|window| window == trace),
        "the caller's trace is carried on"
    );

    for text in ["secret chunk", "Hidden Shelf", "sk-test", "You file chunks"] {
        assert!(!holds(text), "{text}");
    }
}

#[tokio::test]
async fn an_unreachable_collector_is_harmless() {
    let door = Door::with(&[("TELEMETRY__OTLP_ENDPOINT", "http://127.0.0.1:1")]).await;
    door.llm
        .ask(&door.session(), chunks(&["one"], &[], true))
        .await
        .unwrap();

    tokio::time::timeout(std::time::Duration::from_secs(30), door.llm.close())
        .await
        .unwrap();
}
