//! The way of a forwarded reply to the client, who may go away or read too slowly.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::Instant;

use super::reading::Reading;

/// A part of a reply for the client.
#[derive(Debug)]
pub enum Part {
    /// The reply begins; its type.
    Begun(String),
    Bytes(Vec<u8>),
}

/// The channel of a reply, and what was read of it.
pub struct Outlet {
    pub client: Sender<Part>,
    /// Notified when the provider begins to reply.
    pub begun: Notify,
    /// Notified when the client has read too slowly.
    too_slow: Notify,
    /// How long the client has kept the reply waiting, in microseconds.
    waited: AtomicU64,
    streaming: AtomicBool,
    reading: Mutex<Reading>,
}

impl Outlet {
    pub fn new(client: Sender<Part>) -> Self {
        Self {
            client,
            begun: Notify::new(),
            too_slow: Notify::new(),
            waited: AtomicU64::new(0),
            streaming: AtomicBool::new(false),
            reading: Mutex::default(),
        }
    }

    /// What was read so far.
    pub fn reading(&self) -> MutexGuard<'_, Reading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a stream has begun, so that an error can only be its last event.
    pub fn is_streaming(&self) -> bool {
        self.streaming.load(Ordering::Relaxed)
    }

    /// Waits until the client is gone, or has read too slowly. The caller then drops the request.
    pub async fn gone(&self) {
        tokio::select! {
            () = self.client.closed() => {}
            () = self.too_slow.notified() => {}
        }
    }

    pub(super) fn begin_stream(&self) {
        self.streaming.store(true, Ordering::Relaxed);
    }

    /// Passes a part on. Does not return if the client is gone, or keeps the whole reply waiting for
    /// longer than this: it holds a place at the provider, where others wait.
    pub(super) async fn send(&self, part: Part, patience: Duration) {
        let part = match self.client.try_send(part) {
            Ok(()) => return,
            Err(TrySendError::Full(part) | TrySendError::Closed(part)) => part,
        };

        let begun = Instant::now();
        let waited = Duration::from_micros(self.waited.load(Ordering::Relaxed));
        let left = patience.saturating_sub(waited);
        match tokio::time::timeout(left, self.client.send(part)).await {
            Ok(Ok(())) => {
                let waited = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
                self.waited.fetch_add(waited, Ordering::Relaxed);
            }
            Ok(Err(_)) => std::future::pending::<()>().await,
            Err(_) => {
                self.too_slow.notify_one();
                std::future::pending::<()>().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::channel;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_too_slowly_is_given_up() {
        let (client, mut parts) = channel(1);
        let out = Outlet::new(client);
        let sending = async {
            for _ in 0..10 {
                out.send(Part::Bytes(Vec::new()), PATIENCE).await;
            }
        };
        let reading = async {
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_secs(20)).await;
                parts.recv().await;
            }
        };

        let begun = Instant::now();
        tokio::select! {
            () = sending => {}
            () = reading => {}
            () = out.gone() => {}
        }
        assert_eq!(begun.elapsed().as_secs(), 30, "all waiting is counted");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_disconnects_is_gone() {
        let (client, parts) = channel(1);
        let out = Outlet::new(client);
        drop(parts);
        tokio::select! {
            () = out.send(Part::Bytes(Vec::new()), PATIENCE) => panic!("it was sent"),
            () = out.gone() => {}
        }
    }
}
