//! More connections than `server.max_connections`.

use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};

use super::transport::{busy, open, read_one, until_closed};
use crate::support::app::TestApp;

const PATIENCE: Duration = Duration::from_secs(20);

async fn finish(mut stream: TcpStream) -> String {
    stream.write_all(br#"{"text":"a"}"#).await.unwrap();
    read_one(&mut stream).await
}

/// The response to a request on its own connection.
async fn ask(app: &TestApp, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    until_closed(&mut open(app, request.as_bytes()).await).await
}

/// Repeats the request until the response has this status.
async fn ask_until(app: &TestApp, path: &str, status: &str) -> String {
    let began = Instant::now();
    loop {
        let answer = ask(app, path).await;
        if answer.starts_with(&format!("HTTP/1.1 {status}")) {
            return answer;
        }

        assert!(began.elapsed() < PATIENCE, "{answer}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub fn problem(answer: &str) -> serde_json::Value {
    serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap()
}

#[tokio::test]
async fn the_longest_idle_connection_is_closed_first() {
    // No connection reaches its timeout while this test runs.
    let app = TestApp::with(&[
        ("SERVER__MAX_CONNECTIONS", "8"),
        ("SERVER__MAX_CONNECTIONS_PER_PEER", "0"),
        ("SERVER__HEADER_TIMEOUT", "3600"),
    ])
    .await;

    let request = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut held = Vec::new();
    for bytes in [
        &b"GET /v1/in"[..],
        b"",
        request,
        b"GET / HTTP/1.1\r\nX: ",
        b"",
        b"",
        request,
        b"",
    ] {
        let mut stream = open(&app, bytes).await;
        if bytes == request {
            read_one(&mut stream).await;
        }
        held.push(stream);
    }

    let last = held.len() - 1;
    for given in 0..3 {
        ask_until(&app, "/v1/info", "200").await;
        let mut first = held.remove(0);
        until_closed(&mut first).await;

        // Its slot is used again, so that the next connection is closed.
        held.push(open(&app, b"").await);
        let untouched = &mut held[last - 1 - given];
        untouched.write_all(request).await.unwrap();
        assert!(read_one(untouched).await.starts_with("HTTP/1.1 200"));

        assert!(ask(&app, "/health/live").await.starts_with("HTTP/1.1 200"));
    }
}

#[tokio::test]
async fn running_requests_keep_their_connection_and_health_probes_are_answered() {
    let app = TestApp::with(&[
        ("SERVER__MAX_CONNECTIONS", "3"),
        ("SERVER__MAX_CONNECTIONS_PER_PEER", "0"),
    ])
    .await;
    let mut working = [
        busy(&app, 12).await,
        busy(&app, 12).await,
        busy(&app, 12).await,
    ]
    .into_iter();

    // Longer than the time after which an idle connection may be closed.
    tokio::time::sleep(Duration::from_millis(700)).await;

    let answer = ask(&app, "/v1/info").await;
    assert!(
        answer.starts_with("HTTP/1.1 503") && answer.contains("retry-after: 2"),
        "{answer}"
    );

    assert_eq!(problem(&answer)["code"], "too_many_connections");
    for path in ["/health/live", "/health/ready"] {
        assert!(ask(&app, path).await.starts_with("HTTP/1.1 200"), "{path}");
    }

    let done = finish(working.next().unwrap()).await;
    assert!(
        done.starts_with("HTTP/1.1 200") && done.contains(r#""tokens":1"#),
        "{done}"
    );

    ask_until(&app, "/v1/info", "200").await;
    for stream in working {
        assert!(finish(stream).await.starts_with("HTTP/1.1 200"));
    }
}

#[tokio::test]
async fn idle_connections_do_not_use_up_the_reserve() {
    let app = TestApp::with(&[
        ("SERVER__MAX_CONNECTIONS", "2"),
        ("SERVER__MAX_CONNECTIONS_PER_PEER", "0"),
        ("SERVER__HEADER_TIMEOUT", "3600"),
    ])
    .await;

    let working = [busy(&app, 12).await, busy(&app, 12).await];
    let mut idle = Vec::new();
    // More than the reserve has.
    for _ in 0..100 {
        idle.push(open(&app, b"GET /health/li").await);
    }

    ask_until(&app, "/health/ready", "200").await;
    let answer = ask_until(&app, "/v1/info", "503").await;
    assert_eq!(problem(&answer)["code"], "too_many_connections");
    for stream in working {
        assert!(finish(stream).await.starts_with("HTTP/1.1 200"));
    }
}

#[tokio::test]
async fn connections_per_peer_can_be_limited() {
    let app = TestApp::with(&[("SERVER__MAX_CONNECTIONS_PER_PEER", "2")]).await;
    let working = [busy(&app, 12).await, busy(&app, 12).await];
    let answer = ask(&app, "/v1/info").await;
    assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
    assert_eq!(
        problem(&answer)["code"],
        "too_many_connections_from_address"
    );

    assert!(ask(&app, "/health/live").await.starts_with("HTTP/1.1 200"));

    let other = TcpSocket::new_v4().unwrap();
    other.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut other = other.connect(app.address).await.unwrap();
    other
        .write_all(b"GET /v1/info HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await
        .unwrap();

    assert!(read_one(&mut other).await.starts_with("HTTP/1.1 200"));

    drop(working);
    ask_until(&app, "/v1/info", "200").await;
}
