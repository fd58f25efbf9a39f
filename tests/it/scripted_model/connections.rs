//! Connections: closed, reset, stalled, abandoned by the client, reused, and ended.

use std::time::{Duration, Instant};

use super::common::*;
use memoir::scripted_model::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends a raw request, to see the bytes of the response.
async fn dial(model: &ScriptedModel) -> TcpStream {
    let mut stream = TcpStream::connect(model.url().trim_start_matches("http://"))
        .await
        .unwrap();
    let body = request(Protocol::OpenAi, OutputMode::Native, SELECT).to_string();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );

    stream.write_all((head + &body).as_bytes()).await.unwrap();
    stream
}

fn promised(head: &str) -> usize {
    let line = head
        .lines()
        .find(|line| line.starts_with("content-length"))
        .unwrap();
    line.split_once(": ").unwrap().1.trim().parse().unwrap()
}

#[tokio::test]
async fn close_sends_nothing() {
    let model = model().await;
    model.push(Fault::Close);
    let mut bytes = Vec::new();
    dial(&model).await.read_to_end(&mut bytes).await.unwrap();
    assert!(bytes.is_empty(), "{}", String::from_utf8_lossy(&bytes));
    assert_eq!(model.requests()[0].outcome, Outcome::Broken);
    model.push(Fault::Close);
    assert!(
        post(
            &model,
            Protocol::OpenAi,
            &request(Protocol::OpenAi, OutputMode::Tool, SELECT)
        )
        .await
        .is_err()
    );

    assert_eq!((model.stats().in_flight, model.stats().abandoned), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_happens_after_half_of_the_body() {
    let model = model().await;
    for _ in 0..20 {
        model.push(Fault::ResetMidBody);
        let mut stream = dial(&model).await;
        let mut bytes = Vec::new();
        let error = stream.read_to_end(&mut bytes).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();

        assert_eq!(body.len(), promised(head) / 2);
    }

    assert_eq!(model.stats().broken, 20);
}

#[tokio::test]
async fn a_stall_lasts_until_the_client_leaves() {
    let model = model().await;
    model.push(Fault::Stall);
    let mut stream = dial(&model).await;
    assert!(model.wait_for_requests(1, SOON).await);
    let read = tokio::time::timeout(Duration::from_millis(100), stream.read_u8()).await;

    assert!(read.is_err());
    assert_eq!(model.requests()[0].outcome, Outcome::Pending);
    drop(stream);
    assert!(
        model
            .wait_until(|stats| stats.abandoned == 1 && stats.in_flight == 0, SOON)
            .await
    );

    assert_eq!(model.requests()[0].outcome, Outcome::Abandoned);
}

#[tokio::test]
async fn a_stall_in_the_body_lasts_until_the_client_leaves() {
    let model = model().await;
    model.push(Fault::StallMidBody);
    let mut stream = dial(&model).await;
    let mut text = String::new();
    let half = async {
        while text
            .split_once("\r\n\r\n")
            .is_none_or(|(head, body)| body.len() < promised(head) / 2)
        {
            text.push(char::from(stream.read_u8().await.unwrap()));
        }
    };

    tokio::time::timeout(SOON, half).await.unwrap();
    let read = tokio::time::timeout(Duration::from_millis(100), stream.read_u8()).await;
    assert!(read.is_err(), "more than half came");
    drop(stream);

    assert!(model.wait_until(|stats| stats.abandoned == 1, SOON).await);
}

#[tokio::test]
async fn a_client_that_does_not_wait_is_counted() {
    let model = model().await;
    model.edit_script(|script| script.latency_ms = 10_000);
    let body = request(Protocol::Anthropic, OutputMode::Tool, SELECT);
    tokio::select! {
        _ = post(&model, Protocol::Anthropic, &body) => panic!("it was to wait"),
        came = model.wait_for_requests(1, SOON) => assert!(came),
    }

    assert!(model.wait_until(|stats| stats.abandoned == 1, SOON).await);
    model.push(Fault::Huge {
        bytes: 50_000_000,
        chunked: false,
    });

    model.edit_script(|script| script.latency_ms = 0);
    drop(post(&model, Protocol::Anthropic, &body).await.unwrap());
    assert!(model.wait_until(|stats| stats.abandoned == 2, SOON).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_in_flight_are_counted() {
    let model = model().await;
    for _ in 0..3 {
        ask(&model, Protocol::OpenAi, OutputMode::Native).await;
    }

    assert_eq!(model.stats().max_in_flight, 1);
    model.edit_script(|script| script.latency_ms = 1000);
    let ask = || ask(&model, Protocol::OpenAi, OutputMode::Native);
    tokio::join!(ask(), ask(), ask(), ask());
    assert_eq!(
        (model.stats().max_in_flight, model.stats().in_flight),
        (4, 0)
    );

    model.clear();
    assert_eq!(model.stats(), Stats::default());
    assert!(!model.wait_for_requests(1, Duration::from_millis(10)).await);
}

#[tokio::test]
async fn stopping_ends_stalled_requests_and_frees_the_port() {
    let mut times = Vec::new();
    for _ in 0..5 {
        let model = model().await;
        model.always(Fault::Stall);
        let mut stream = dial(&model).await;
        assert!(model.wait_for_requests(1, SOON).await);
        let url = model.url();
        let start = Instant::now();

        model.stop().await;
        times.push(start.elapsed());
        assert!(
            matches!(stream.read_u8().await, Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof)
        );
        assert!(
            crate::support::client::client()
                .get(url)
                .send()
                .await
                .is_err()
        );

        // It does not wait for the client, which would take a second. One success is enough,
        // because the machine may be busy.
        if times.last().unwrap() < &Duration::from_millis(900) {
            return;
        }
    }

    panic!("it waits: {times:?}");
}

#[tokio::test]
async fn dropping_the_handle_ends_the_server() {
    let model = model().await;
    let url = model.url();
    drop(model);

    for _ in 0..1000 {
        if crate::support::client::client()
            .get(&url)
            .send()
            .await
            .is_err()
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    panic!("still serving");
}

#[tokio::test]
async fn a_connection_is_kept_between_requests() {
    let model = model().await;
    let mut stream = dial(&model).await;
    let body = request(Protocol::OpenAi, OutputMode::Native, SELECT).to_string();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );

    let message = head + &body;
    let mut buffer = vec![0; 16 * 1024];
    let mut times = Vec::new();
    assert!(stream.read(&mut buffer).await.unwrap() > 0);

    for _ in 0..500 {
        let start = Instant::now();
        stream.write_all(message.as_bytes()).await.unwrap();
        let count = stream.read(&mut buffer).await.unwrap();
        times.push(start.elapsed());

        // One read returns everything, because head and body are sent in one write.
        let text = std::str::from_utf8(&buffer[..count]).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert_eq!(body.len(), promised(head));
    }

    times.sort();
    // A delayed acknowledgement would cost 40 ms each time. A busy machine slows down some
    // requests, not all.
    assert!(times[50] < Duration::from_millis(20), "{:?}", times[50]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_stay_exact_under_load() {
    let model = std::sync::Arc::new(model().await);
    let client = crate::support::client::client();
    let mut asking = tokio::task::JoinSet::new();

    for worker in 0..16 {
        let (model, client) = (model.clone(), client.clone());
        asking.spawn(async move {
            let protocol = PROTOCOLS[worker % 3];
            let body = request(protocol, MODES[worker % 2], SELECT);
            for _ in 0..50 {
                let url = format!("{}{}", model.url(), path(protocol));
                client
                    .post(url)
                    .json(&body)
                    .send()
                    .await
                    .unwrap()
                    .bytes()
                    .await
                    .unwrap();
            }
        });
    }

    asking.join_all().await;
    let stats = model.stats();
    assert_eq!(
        (stats.requests, stats.answered, stats.in_flight),
        (800, 800, 0)
    );

    assert!(stats.max_in_flight <= 16);
    assert!(
        model
            .requests()
            .iter()
            .all(|seen| seen.outcome == Outcome::Answered(200))
    );
}
