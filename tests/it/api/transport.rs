//! Clients that are slow, idle, too many, or disconnected.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::app::{TestApp, send};

pub async fn open(app: &TestApp, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(app.address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream
}

/// A request in progress: its handler waits for a body of this size.
pub async fn busy(app: &TestApp, bytes: usize) -> TcpStream {
    let head = format!(
        "POST /v1/tokens/count HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {bytes}\r\nExpect: 100-continue\r\n\r\n"
    );

    let mut stream = open(app, head.as_bytes()).await;
    // Sent when the handler begins to read.
    let mut told = [0; 25];
    stream.read_exact(&mut told).await.unwrap();
    assert_eq!(&told, b"HTTP/1.1 100 Continue\r\n\r\n");

    stream
}

/// Reads until the server closes, for twenty seconds at most.
pub async fn until_closed(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut text)).await;
    let _ = read.expect("the connection stayed open");
    String::from_utf8_lossy(&text).into_owned()
}

#[tokio::test]
async fn closes_incomplete_heads_and_idle_connections_after_the_timeout() {
    let app = TestApp::with(&[("SERVER__HEADER_TIMEOUT", "1")]).await;
    let request = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for bytes in [
        &b"GET /health/li"[..],
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ",
        b"",
        request,
    ] {
        let began = Instant::now();
        let mut stream = open(&app, bytes).await;
        let answer = until_closed(&mut stream).await;
        assert!(
            began.elapsed() >= Duration::from_millis(900),
            "closed too early: {answer}"
        );
        if bytes == request {
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
    }
}

#[tokio::test]
async fn rejects_a_body_that_arrives_too_slowly() {
    let app = TestApp::with(&[("SERVER__BODY_TIMEOUT", "1")]).await;
    let head =
        "POST /v1/tokens/count HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    for length in [
        "Content-Length: 1000\r\n\r\n{",
        "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
    ] {
        let mut stream = open(&app, format!("{head}{length}").as_bytes()).await;
        let answer = until_closed(&mut stream).await;
        assert!(
            answer.starts_with("HTTP/1.1 408") && answer.contains("body_timeout"),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn rejects_an_oversized_or_malformed_head() {
    let app = TestApp::spawn().await;
    let long = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: {}\r\n\r\n",
        "x".repeat(70_000)
    );

    let query = format!(
        "GET /v1/sources?tag={} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "x".repeat(1_000_000)
    );

    for (bytes, codes) in [
        (long.as_bytes(), &["431 head_too_large"][..]),
        (query.as_bytes(), &["431 head_too_large", "414 uri_too_long"]),
        (b"NONSENSE\r\n\r\n", &["400 malformed_request"]),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nNo colon\r\n\r\n", &["400 malformed_request"]),
        // HTTP/2 is not supported; the connection is closed.
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &[""]),
        (
            b"POST /v1/sources HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{}",
            &["400 malformed_request"],
        ),
    ] {
        let mut stream = TcpStream::connect(app.address).await.unwrap();
        // The server may respond and close before everything is written.
        let _ = stream.write_all(bytes).await;
        let answer = until_closed(&mut stream).await;
        let code = answer.split_once("\r\n\r\n").map_or(String::new(), |(head, body)| {
            let problem: serde_json::Value = serde_json::from_str(body).unwrap();
            for header in ["content-type: application/problem+json", "connection: close"] {
                assert!(head.contains(header), "{head}");
            }

            assert!(head.contains(&format!("x-request-id: {}", problem["request_id"].as_str().unwrap())), "{answer}");
            assert!(head.starts_with(&format!("HTTP/1.1 {}", problem["status"])), "{answer}");
            format!("{} {}", problem["status"], problem["code"].as_str().unwrap())
        });
        assert!(codes.contains(&code.as_str()), "{answer}: {}", String::from_utf8_lossy(&bytes[..bytes.len().min(60)]));
    }

    assert_eq!(app.get("/health/live").await.status, 200);
}

/// A response before the body was read must not break the connection for the next request.
#[tokio::test]
async fn a_connection_survives_an_early_response() {
    let app = TestApp::with(&[("AUTH__KEYS", r#"[{"key":"k","space":"*"}]"#)]).await;
    let body = format!(r#"{{"text":"{}"}}"#, "x".repeat(200_000));
    let mut stream = TcpStream::connect(app.address).await.unwrap();

    for path in ["/v1/tokens/count", "/v1/nothing", "/v1/tokens/count"] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );

        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body.as_bytes()).await.unwrap();
        let answer = read_one(&mut stream).await;
        let status = if path == "/v1/nothing" { "404" } else { "401" };
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );

        assert!(!answer.contains("connection: close"), "{answer}");
    }
}

/// Reads one response.
pub async fn read_one(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let mut buffer = [0; 4096];
    loop {
        let length = stream.read(&mut buffer).await.unwrap();
        assert_ne!(length, 0, "the connection was closed after: {text}");
        text.push_str(&String::from_utf8_lossy(&buffer[..length]));

        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let wanted = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .unwrap();
            if body.len() >= wanted.parse().unwrap() {
                return text;
            }
        }
    }
}

/// When the service stops, it finishes running requests and accepts no new ones.
#[tokio::test]
async fn shutdown_waits_for_running_requests() {
    let app = TestApp::spawn().await;
    let mut stream = busy(&app, 12).await;
    stream.write_all(br#"{"text""#).await.unwrap();
    app.stop.cancel();
    tokio::time::sleep(Duration::from_millis(50)).await;
    stream.write_all(br#":"a"}"#).await.unwrap();
    let answer = until_closed(&mut stream).await;

    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains(r#""tokens":1"#),
        "{answer}"
    );

    app.finish().await;
}

#[tokio::test]
async fn disconnected_clients_leave_no_state() {
    let app = TestApp::spawn().await;
    let body = json!({"filename": "gone.md"});
    for n in 0..200_u64 {
        let request = app
            .request(Method::POST, "/v1/sources")
            .json(&body)
            .timeout(Duration::from_micros(n * 20 + 1));
        let _ = request.send().await;
    }

    for _ in 0..50 {
        assert_eq!(app.get("/v1/sources?limit=1").await.status, 200);
        assert_eq!(
            send(app.request(Method::POST, "/v1/sources").json(&body))
                .await
                .status,
            201
        );
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_is_disconnected() {
    let app = TestApp::with(&[
        ("SERVER__MAX_CONNECTIONS", "1"),
        ("SERVER__WRITE_TIMEOUT", "1"),
    ])
    .await;

    let request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(50);
    let _greedy = open(&app, &request).await;
    let began = Instant::now();

    loop {
        let mut next = open(
            &app,
            b"GET /v1/info HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        )
        .await;

        if until_closed(&mut next).await.starts_with("HTTP/1.1 200") {
            break;
        }

        assert!(
            began.elapsed() < Duration::from_secs(20),
            "the place was never given back"
        );

        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    assert!(
        began.elapsed() > Duration::from_millis(500),
        "it was thrown out before its time"
    );
}
