//! Every attempt is written down, without anybody waiting for it.
//!
//! Attempts go to one writer, which puts all that have come meanwhile into one transaction. [`Ledger::flush`] waits
//! until everything handed in before it is written; the daily caps and the end of a job ask for that.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use crate::base::ids::Space;
use crate::model::llm_call::{CallOwner, LlmCall};
use crate::store::{Store, StoreError};

/// Most attempts in one transaction.
const MOST_AT_ONCE: usize = 200;
/// Most attempts that are held while the database is away.
const MOST_HELD: usize = 100_000;
/// How long the database is left alone after it failed.
const PAUSE: Duration = Duration::from_secs(1);

/// One attempt and whose it is.
#[derive(Debug, Clone)]
pub struct Entry {
    pub space: Space,
    pub owner: CallOwner,
    pub call: LlmCall,
}

enum Message {
    Write(Box<Entry>),
    Flush(oneshot::Sender<Result<(), StoreError>>),
}

/// Takes attempts; cheap to clone.
#[derive(Clone)]
pub struct Ledger {
    sender: mpsc::UnboundedSender<Message>,
}

impl Ledger {
    /// Starts the writer, which ends when the last copy of the ledger is gone.
    pub fn start(store: Store) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        TaskTracker::new().spawn(Writer { store, receiver, held: Vec::new() }.run());
        Self { sender }
    }

    /// Hands in an attempt; never waits.
    pub fn add(&self, entry: Entry) {
        let _ = self.sender.send(Message::Write(Box::new(entry)));
    }

    /// Waits until everything handed in so far is written.
    ///
    /// # Errors
    /// The database is away. What was handed in is kept and written when it is back.
    pub async fn flush(&self) -> Result<(), StoreError> {
        let (done, waiting) = oneshot::channel();
        let _ = self.sender.send(Message::Flush(done));
        waiting.await.unwrap_or(Ok(()))
    }
}

struct Writer {
    store: Store,
    receiver: mpsc::UnboundedReceiver<Message>,
    held: Vec<Entry>,
}

impl Writer {
    async fn run(mut self) {
        let mut messages = Vec::with_capacity(MOST_AT_ONCE);
        loop {
            let waiting = self.receiver.recv_many(&mut messages, MOST_AT_ONCE);
            let count = if self.held.is_empty() {
                waiting.await
            } else {
                // Something is left over from when the database was away.
                let Ok(count) = tokio::time::timeout(PAUSE, waiting).await else {
                    let _ = self.write().await;
                    continue;
                };
                count
            };
            if count == 0 {
                let _ = self.write().await;
                return;
            }
            self.take(&mut messages).await;
        }
    }

    async fn take(&mut self, messages: &mut Vec<Message>) {
        let mut waiting = Vec::new();
        for message in messages.drain(..) {
            match message {
                Message::Write(entry) if self.held.len() < MOST_HELD => self.held.push(*entry),
                Message::Write(_) => tracing::error!("the ledger is full: a model call is not recorded"),
                Message::Flush(done) => waiting.push(done),
            }
        }
        let mut written = self.write().await;
        for done in waiting {
            let answer = std::mem::replace(&mut written, Ok(()));
            let failed = answer.is_err();
            let _ = done.send(answer);
            if failed {
                written = Err(StoreError::Contended { cause: "the ledger could not be written".to_owned() });
            }
        }
    }

    async fn write(&mut self) -> Result<(), StoreError> {
        while !self.held.is_empty() {
            let next = &self.held[..self.held.len().min(MOST_AT_ONCE)];
            let rows: Vec<_> = next.iter().map(|entry| (&entry.space, &entry.owner, &entry.call)).collect();
            if let Err(error) = self.store.add_llm_calls(&rows).await {
                tracing::warn!(%error, waiting = self.held.len(), "model calls could not be recorded yet");
                return Err(error);
            }
            let count = next.len();
            self.held.drain(..count);
        }
        Ok(())
    }
}
