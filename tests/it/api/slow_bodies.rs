//! Clients that open many requests and never send their bodies: others and health probes are
//! served all the same.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use super::connections::problem;
use super::transport::{open, read_one, until_closed};
use crate::support::app::TestApp;

const KEYS: &str = r#"[{"key":"k","space":"*","role":"admin"}]"#;
const ATTACKER: &str = "127.0.0.1:0";
const NEIGHBOUR: &str = "127.0.0.2:0";
/// More than `server.max_connections`.
const MANY: usize = 1500;
/// Well below the time that a body may take.
const QUICK: Duration = Duration::from_secs(4);

/// A request whose body never arrives.
fn slow(head: &str) -> String {
    format!(
        "POST {head} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{"
    )
}

async fn connect_from(source: &str, app: &TestApp) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(source.parse().unwrap()).unwrap();
    socket.connect(app.address).await.unwrap()
}

/// The first line of the response to a request from this address.
async fn ask_from(source: &str, app: &TestApp, path: &str) -> String {
    let began = Instant::now();
    let mut stream = connect_from(source, app).await;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer k\r\nConnection: close\r\n\r\n"
    );

    // A refusal may be sent before the request is read.
    let _ = stream.write_all(request.as_bytes()).await;
    let answer = until_closed(&mut stream).await;
    assert!(
        began.elapsed() < QUICK,
        "{path} took {:?}: {answer}",
        began.elapsed()
    );

    answer.lines().next().unwrap_or_default().to_owned()
}

/// Others get what they ask for, and probes of everybody are answered.
async fn assert_served(app: &TestApp) {
    for (source, path) in [
        (NEIGHBOUR, "/v1/info"),
        (NEIGHBOUR, "/health/live"),
        (NEIGHBOUR, "/health/ready"),
        (ATTACKER, "/health/live"),
        (ATTACKER, "/health/ready"),
    ] {
        let status = ask_from(source, app, path).await;
        assert_eq!(status, "HTTP/1.1 200 OK", "{path} from {source}");
    }
}

/// Opens many slow requests, and looks after others in the meantime.
async fn attack(app: &TestApp) -> Vec<TcpStream> {
    let request = slow("/v1/tokens/count");
    let mut held = Vec::with_capacity(MANY);
    for number in 0..MANY {
        let mut stream = connect_from(ATTACKER, app).await;
        // Connections above the limit are closed at once.
        let _ = stream.write_all(request.as_bytes()).await;
        held.push(stream);
        // Not earlier: the old ones must not end in the meantime.
        if number % 200 == 99 && number > 1024 {
            assert_served(app).await;
        }
    }

    held
}

#[tokio::test]
async fn slow_bodies_of_one_client_leave_room_for_others() {
    let app = TestApp::spawn().await;
    let held = attack(&app).await;
    for _ in 0..5 {
        assert_served(&app).await;
    }

    let answer = ask_from(ATTACKER, &app, "/v1/info").await;
    assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
    drop(held);
}

#[tokio::test]
async fn slow_bodies_without_a_key_leave_room_for_others() {
    let app = TestApp::with(&[("AUTH__KEYS", KEYS)]).await;
    let held = attack(&app).await;
    for _ in 0..5 {
        assert_served(&app).await;
    }

    let mut answered = 0;
    for mut stream in held {
        let mut status = [0; 12];
        if stream.read_exact(&mut status).await.is_ok() {
            answered += 1;
            let status = String::from_utf8_lossy(&status);
            assert!(
                ["HTTP/1.1 401", "HTTP/1.1 429"].contains(&&*status),
                "{status}"
            );
        }
    }
    assert!(answered > 0, "no connection got an answer");
}

/// Without a limit per peer, as behind a proxy, a caller without a key still cannot hold a
/// connection.
#[tokio::test]
async fn a_rejected_request_does_not_wait_for_its_body() {
    let app = TestApp::with(&[("AUTH__KEYS", KEYS)]).await;
    for (request, status) in [
        ("/v1/tokens/count", "401"),
        ("/v1/nothing", "404"),
        ("/health/live", "405"),
    ] {
        let began = Instant::now();
        let mut stream = open(&app, slow(request).as_bytes()).await;
        let answer = until_closed(&mut stream).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}"))
                && answer.contains("connection: close"),
            "{answer}"
        );
        assert!(
            began.elapsed() < QUICK,
            "{request} took {:?}",
            began.elapsed()
        );
    }
}

/// The idle connections of a client make room for its own new ones.
#[tokio::test]
async fn an_idle_connection_of_a_peer_is_closed_before_a_new_one_is_refused() {
    let app = TestApp::with(&[
        ("SERVER__MAX_CONNECTIONS_PER_PEER", "2"),
        ("SERVER__HEADER_TIMEOUT", "3600"),
    ])
    .await;

    let request = b"GET /v1/info HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = open(&app, request).await;
        assert!(read_one(&mut stream).await.starts_with("HTTP/1.1 200"));
        held.push(stream);
    }

    let began = Instant::now();
    let mut new = loop {
        let mut stream = open(&app, request).await;
        let answer = read_one(&mut stream).await;
        if answer.starts_with("HTTP/1.1 200") {
            break stream;
        }

        assert_eq!(
            problem(&answer)["code"],
            "too_many_connections_from_address"
        );
        assert!(began.elapsed() < Duration::from_secs(20), "{answer}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };

    until_closed(&mut held.remove(0)).await;
    new.write_all(request).await.unwrap();
    assert!(read_one(&mut new).await.starts_with("HTTP/1.1 200"));
}

/// Without a setting of its own, one client may use a quarter of the connections.
#[tokio::test]
async fn a_quarter_of_the_connections_is_for_one_peer() {
    let app = TestApp::with(&[("SERVER__MAX_CONNECTIONS", "8")]).await;
    let request = slow("/v1/tokens/count").replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n");
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = connect_from(ATTACKER, &app).await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut told = [0; 12];
        stream.read_exact(&mut told).await.unwrap();
        assert_eq!(&told, b"HTTP/1.1 100");
        held.push(stream);
    }

    let refused = ask_from(ATTACKER, &app, "/v1/info").await;
    assert!(refused.starts_with("HTTP/1.1 429"), "{refused}");
    let served = ask_from(NEIGHBOUR, &app, "/v1/info").await;
    assert_eq!(served, "HTTP/1.1 200 OK");
}
