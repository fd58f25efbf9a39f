//! The accept loop: timeouts, a connection limit, and a graceful shutdown.
//!
//! Implemented here because axum's own loop has no timeout for a client that sends an incomplete
//! request head.

mod connection_service;
mod connection_slots;
mod problem_bodies;
mod raw;
mod write_timeout;

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::base::metrics as names;
use crate::config::Server;
use connection_service::Attended;
use connection_slots::{ConnectionSlot, ConnectionSlots};
use problem_bodies::Explained;
use write_timeout::TimedStream;

/// A request head of this size is rejected; because bytes are read in blocks, some heads of up to
/// twice the size pass.
const MAX_HEAD_BYTES: usize = 32 << 10;

/// Open requests get at least this long, even if jobs have used up the whole grace period.
const MIN_GRACE: Duration = Duration::from_secs(2);

/// How long an evicted connection gets to close in order.
const LEAVING: Duration = Duration::from_millis(250);

/// Serves until `closing`, then gives open requests the rest of `server.shutdown_grace`, which
/// began at `stop`.
pub async fn run(
    listener: TcpListener,
    router: Router,
    config: &Server,
    stop: CancellationToken,
    closing: CancellationToken,
) {
    let connections = TaskTracker::new();
    let slots = ConnectionSlots::new(config);
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(config.header_timeout));
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

        let Ok((stream, peer)) = accepted else {
            // Probably out of file descriptors: wait until some are free.
            tracing::warn!("cannot accept a connection");
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };

        let slot = match slots.slot(peer.ip()) {
            Ok(slot) => slot,
            Err(refusal) => {
                connections.spawn(raw::refuse(stream, refusal.problem()));
                continue;
            }
        };

        let _ = stream.set_nodelay(true);
        let stream = Explained::new(TimedStream::new(
            stream,
            patience,
            Arc::clone(&slot.signals.unread),
        ));

        let attended = Attended {
            slot: Arc::clone(&slot),
            service: service.clone(),
        };

        let connection = builder.serve_connection(TokioIo::new(stream), attended);
        connections.spawn(attend(connection, closing.clone(), slot));
    }

    drop(listener);
    connections.close();
    let left = Duration::from_secs(config.shutdown_grace)
        .saturating_sub(asked.map_or(Duration::ZERO, |asked| asked.elapsed()));
    let _ = tokio::time::timeout(left.max(MIN_GRACE), connections.wait()).await;
}

/// Serves one connection to its end.
async fn attend<C>(connection: C, stop: CancellationToken, slot: Arc<ConnectionSlot>)
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
        () = slot.signals.leave.cancelled() => {
            connection.as_mut().stop();
            // An incomplete head would be waited for; a request that has just arrived is answered.
            let closed = tokio::time::timeout(LEAVING, connection.as_mut()).await;
            if closed.is_err() && slot.is_busy() {
                connection.await;
            }
        }
    }

    metrics::gauge!(names::HTTP_CONNECTIONS).decrement(1.0);
}

/// Finishes the current request and accepts no other.
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
