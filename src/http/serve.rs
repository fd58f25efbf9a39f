//! The accept loop: timeouts, a cap on connections, and a stop that lets requests finish.
//!
//! Written by hand because axum's own has no timeout for a client that sends half a request's head.

mod patient;

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::base::metrics as names;
use crate::config::Server;
use patient::Patient;

/// A head that fills this is refused; as bytes are read in gulps, some up to twice as long pass.
const MAX_HEAD_BYTES: usize = 32 << 10;

/// Even a service whose jobs used up all the time gives open requests this long.
const LEAST_GRACE: Duration = Duration::from_secs(2);

/// Serves until `closing`, then gives open requests what is left of `server.shutdown_grace`, which began at `stop`.
pub async fn run(
    listener: TcpListener,
    router: Router,
    config: &Server,
    stop: CancellationToken,
    closing: CancellationToken,
) {
    let connections = TaskTracker::new();
    let places = Arc::new(Semaphore::new(usize::try_from(config.max_connections).unwrap_or(Semaphore::MAX_PERMITS)));
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(config.header_timeout));
    builder.max_buf_size(MAX_HEAD_BYTES);
    let service = TowerToHyperService::new(router);
    let patience = Duration::from_secs(config.write_timeout);

    let mut asked = None;
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled(), if asked.is_none() => {
                asked = Some(Instant::now());
                continue;
            }
            () = closing.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            // Out of file descriptors, most likely: wait for some to come free.
            tracing::warn!("a connection could not be accepted");
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            metrics::counter!(names::HTTP_CONNECTIONS_REFUSED_TOTAL).increment(1);
            connections.spawn(refuse(stream));
            continue;
        };
        let _ = stream.set_nodelay(true);
        let connection = builder.serve_connection(TokioIo::new(Patient::new(stream, patience)), service.clone());
        connections.spawn(attend(connection, closing.clone(), place));
    }
    drop(listener);
    connections.close();
    let left = Duration::from_secs(config.shutdown_grace)
        .saturating_sub(asked.map_or(Duration::ZERO, |asked| asked.elapsed()));
    let _ = tokio::time::timeout(left.max(LEAST_GRACE), connections.wait()).await;
}

/// Sees one connection through to its end.
async fn attend<C>(connection: C, stop: CancellationToken, place: OwnedSemaphorePermit)
where
    C: Future + GracefulStop,
{
    metrics::gauge!(names::HTTP_CONNECTIONS).increment(1.0);
    let mut connection = pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => {}
        () = stop.cancelled() => {
            connection.as_mut().stop();
            connection.await;
        }
    }
    metrics::gauge!(names::HTTP_CONNECTIONS).decrement(1.0);
    drop(place);
}

/// Finishing the request in hand and taking no other.
trait GracefulStop {
    fn stop(self: std::pin::Pin<&mut Self>);
}

impl<I, S> GracefulStop for http1::Connection<I, S>
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin,
    S: hyper::service::HttpService<hyper::body::Incoming, ResBody = axum::body::Body>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    fn stop(self: std::pin::Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// Tells a client that there is no place, without reading what it wants.
async fn refuse(mut stream: TcpStream) {
    let body = concat!(
        r#"{"type":"urn:memoir:problem:too_many_connections","title":"Too many connections","status":503,"#,
        r#""detail":"all connections are taken","code":"too_many_connections","#,
        r#""remediation":"Try again shortly, reuse connections, or raise server.max_connections.","request_id":""}"#
    );
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\
         retry-after: 2\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let _ = tokio::time::timeout(Duration::from_secs(1), stream.write_all((head + body).as_bytes())).await;
    let _ = stream.shutdown().await;
}
