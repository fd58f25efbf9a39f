//! The memory limit for all request bodies together.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::transport::{busy, open, read_one};
use crate::support::app::{Reply, TestApp, send};

const MIB: usize = 1 << 20;

async fn count(app: &TestApp, bytes: usize) -> Reply {
    app.post("/v1/tokens/count", &json!({"text": "a".repeat(bytes)}))
        .await
}

/// Waits until a body of this size would be rejected. It only announces the body, because a body
/// that is sent uses memory itself.
async fn until_refused(app: &TestApp, bytes: usize) {
    let began = Instant::now();
    loop {
        let mut announced = busy(app, bytes).await;
        // The service waits five seconds for the unsent body of a rejected request.
        let mut answer = [0; 12];
        let answered =
            tokio::time::timeout(Duration::from_secs(7), announced.read_exact(&mut answer)).await;
        if answered.is_ok() {
            assert_eq!(&answer, b"HTTP/1.1 503");
            return;
        }

        assert!(
            began.elapsed() < Duration::from_secs(30),
            "everything is taken"
        );
    }
}

#[tokio::test]
async fn bodies_share_a_budget() {
    let app = TestApp::with(&[("LIMITS__BODY_MEMORY", "1048576")]).await;
    let body = format!(r#"{{"text":"{}"}}"#, "a".repeat(700_000 - 11));
    let mut first = busy(&app, 700_000).await;
    assert_eq!(
        count(&app, 500_000).await.status,
        200,
        "a client that announces a large body and sends nothing blocks no other"
    );

    // A quarter has arrived; the whole size is reserved.
    first.write_all(&body.as_bytes()[..200_000]).await.unwrap();
    until_refused(&app, 500_000).await;
    let refused = count(&app, 500_000).await;
    refused.assert_problem(503, "body_memory_exhausted");
    assert_eq!(
        (
            refused.header("retry-after"),
            &refused.json()["context"]["body_memory"]
        ),
        ("2", &json!(1_048_576))
    );

    let form = app
        .request(Method::POST, "/v1/ingestions")
        .header("content-type", "multipart/form-data; boundary=b");
    send(form.body(vec![b'x'; 500_000]))
        .await
        .assert_problem(503, "body_memory_exhausted");

    // A body without an announced length is rejected once it is too large.
    let mut growing = open(
        &app,
        b"POST /v1/tokens/count HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
          Transfer-Encoding: chunked\r\n\r\n",
    )
    .await;

    for _ in 0..50 {
        growing.write_all(b"2710\r\n").await.unwrap();
        growing.write_all(&[b' '; 10_000]).await.unwrap();
        growing.write_all(b"\r\n").await.unwrap();
    }

    growing.write_all(b"0\r\n\r\n").await.unwrap();
    let answer = read_one(&mut growing).await;
    assert!(
        answer.starts_with("HTTP/1.1 503") && answer.contains("body_memory_exhausted"),
        "{answer}"
    );

    // Bodies that fit, and small ones, are accepted.
    assert_eq!(count(&app, 300_000).await.status, 200);
    assert_eq!(count(&app, 10_000).await.status, 200);

    first.write_all(&body.as_bytes()[200_000..]).await.unwrap();
    assert!(read_one(&mut first).await.starts_with("HTTP/1.1 200"));
    assert_eq!(count(&app, 900_000).await.status, 200);
}

#[tokio::test]
async fn a_disconnected_client_releases_its_memory() {
    let app = TestApp::with(&[("LIMITS__BODY_MEMORY", "1048576")]).await;
    let mut vanishing = busy(&app, 1_000_000).await;
    vanishing.write_all(&vec![b' '; 300_000]).await.unwrap();
    until_refused(&app, 500_000).await;
    drop(vanishing);
    let began = Instant::now();

    while count(&app, 500_000).await.status != 200 {
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "it was never given back"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_single_body_always_fits() {
    let app = TestApp::with(&[
        ("LIMITS__BODY_MEMORY", "1048576"),
        ("LIMITS__MAX_BODY_BYTES", "4194304"),
    ])
    .await;

    assert_eq!(count(&app, 3 * MIB).await.status, 200);
    let text = "a".repeat(5 * MIB);
    app.post("/v1/tokens/count", &json!({"text": text}))
        .await
        .assert_problem(413, "body_too_large");
}
