//! Writes model calls and job records in shared transactions.
//!
//! Model calls go to one writer, which collects them for a moment and writes them in one
//! transaction; callers do not wait for it. [`Journal::flush`] waits until everything passed in
//! before is written; the daily caps and the end of a job need this. [`Journal::record`] writes
//! what a job derived from its calls, never before the calls themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::llm_calls::Row;
use super::{Store, StoreError, add_retries, count_retries};
use crate::base::ids::Space;
use crate::model::job::JobRecord;
use crate::model::llm_call::{LlmCall, Payer};

/// Maximum attempts in one transaction.
const MAX_AT_ONCE: usize = 200;
/// Maximum attempts that are kept while the database is unreachable.
const MAX_HELD: usize = 100_000;
/// How long attempts are collected before they are written, unless a caller waits for them. A query
/// makes several within this time, and a transaction for each would cost more than the query
/// itself.
const GATHERING: Duration = Duration::from_millis(50);
/// The pause after the database failed.
const PAUSE: Duration = Duration::from_secs(1);

/// One attempt and its payer.
#[derive(Debug, Clone)]
pub struct CallEntry {
    pub space: Space,
    pub payer: Payer,
    pub call: LlmCall,
    pub part: CallPart,
}

/// What is written about an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallPart {
    /// A row, and its share of the sums by day.
    Whole,
    /// Only the sums, because the attempt is written with its job.
    Sums,
    /// Only the row, because the sums have counted it.
    Row,
    /// Its share of the sums, and a row if it belongs to a job that has not ended.
    WhileUnended,
}

enum Message {
    Write(Box<CallEntry>),
    Flush(oneshot::Sender<Result<(), StoreError>>),
    Record(Arc<JobRecord>, Recorded),
}

/// Reports whether a record was written, and how often the database was retried for it.
type Recorded = oneshot::Sender<(Result<bool, StoreError>, i64)>;

/// Accepts attempts; cheap to clone.
#[derive(Clone)]
pub struct Journal {
    sender: mpsc::UnboundedSender<Message>,
    keeps_records: bool,
}

impl Journal {
    /// Starts the writer, which ends when the last copy of the journal is dropped. Unless it keeps
    /// records, an attempt has a row only as long as a job may need it.
    pub fn start(store: Store, keeps_records: bool) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        TaskTracker::new().spawn(
            Writer {
                store,
                receiver,
                held: Vec::new(),
            }
            .run(),
        );

        Self {
            sender,
            keeps_records,
        }
    }

    /// Adds an attempt; never waits.
    pub fn add(&self, mut entry: CallEntry) {
        if !self.keeps_records {
            entry.part = match (entry.part, &entry.payer) {
                // A query that runs as a job has the job's id.
                (CallPart::Whole, Payer::Job(_) | Payer::Query(_)) => CallPart::WhileUnended,
                (CallPart::Row, _) => return,
                _ => CallPart::Sums,
            };
        }

        let _ = self.sender.send(Message::Write(Box::new(entry)));
    }

    /// Waits until everything added so far is written.
    ///
    /// # Errors
    /// The database is unreachable. Everything added is kept and written once it responds.
    pub async fn flush(&self) -> Result<(), StoreError> {
        let (done, waiting) = oneshot::channel();
        let _ = self.sender.send(Message::Flush(done));
        waiting.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Flushes, and writes in the same transaction what a job derived from its calls; `false` if the
    /// job is no longer ours.
    ///
    /// # Errors
    /// As for [`Journal::flush`]; the record itself is not kept.
    pub async fn record(&self, record: Arc<JobRecord>) -> Result<bool, StoreError> {
        let (done, waiting) = oneshot::channel();
        let _ = self.sender.send(Message::Record(record, done));
        let (written, asked_again) = waiting.await.unwrap_or_else(|_| (Err(ended()), 0));
        add_retries(asked_again);

        written
    }
}

fn ended() -> StoreError {
    StoreError::Broken {
        cause: "the journal writer has stopped".to_owned(),
    }
}

struct Writer {
    store: Store,
    receiver: mpsc::UnboundedReceiver<Message>,
    held: Vec<CallEntry>,
}

impl Writer {
    async fn run(mut self) {
        let mut messages = Vec::with_capacity(MAX_AT_ONCE);
        loop {
            let waiting = self.receiver.recv_many(&mut messages, MAX_AT_ONCE);
            let count = if self.held.is_empty() {
                waiting.await
            } else {
                // Some attempts are left from an outage of the database.
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

            self.gather(&mut messages).await;
            self.take(&mut messages).await;
        }
    }

    /// Waits a moment for more, unless a caller waits for those that have arrived.
    async fn gather(&mut self, messages: &mut Vec<Message>) {
        let end = Instant::now() + GATHERING;
        let patient = |messages: &[Message]| {
            messages
                .iter()
                .all(|message| matches!(message, Message::Write(_)))
        };

        while messages.len() < MAX_AT_ONCE && patient(messages) {
            let room = MAX_AT_ONCE - messages.len();
            match tokio::time::timeout_at(end, self.receiver.recv_many(messages, room)).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }

    async fn take(&mut self, messages: &mut Vec<Message>) {
        let mut waiting = Vec::new();
        let mut records = Vec::new();
        for message in messages.drain(..) {
            match message {
                Message::Write(entry) if self.held.len() < MAX_HELD => self.held.push(*entry),
                Message::Write(_) => {
                    tracing::error!("the journal buffer is full: a model call is not recorded");
                }
                Message::Flush(done) => waiting.push(done),
                Message::Record(record, done) => records.push((record, done)),
            }
        }

        let written = if records.is_empty() {
            self.write().await
        } else {
            self.write_with(records).await
        };

        for done in waiting {
            let _ = done.send(written.clone());
        }
    }

    async fn write(&mut self) -> Result<(), StoreError> {
        while !self.held.is_empty() {
            let count = self.held.len().min(MAX_AT_ONCE);
            if let Err(error) = self.store.add_llm_calls(&rows(&self.held[..count])).await {
                if waits(&error) {
                    self.count_once(&error, count);
                    tracing::warn!(%error, waiting = self.held.len(), "cannot record model calls; will retry");
                    return Err(error);
                }
                self.write_one_by_one(count).await?;
            }

            self.held.drain(..count);
        }
        Ok(())
    }

    /// After an uncertain commit, attempts without a row cannot be recognised. Free ones are not
    /// added to the sums again: they may be missing there rather than count twice. Others may count
    /// twice, so that caps hold.
    fn count_once(&mut self, error: &StoreError, count: usize) {
        if matches!(error, StoreError::Uncertain { .. }) {
            let rest = self.held.split_off(count);
            let is_free = |entry: &CallEntry| entry.part == CallPart::Sums && entry.call.is_free();
            self.held.retain(|entry| !is_free(entry));
            self.held.extend(rest);
        }
    }

    /// Writes the collected attempts together with the records of jobs.
    async fn write_with(
        &mut self,
        records: Vec<(Arc<JobRecord>, Recorded)>,
    ) -> Result<(), StoreError> {
        let shared = Arc::new(AtomicI64::new(0));
        let all: Vec<&JobRecord> = records.iter().map(|(record, _)| &**record).collect();
        let (paid, written) = count_retries(Arc::clone(&shared), self.write_all(&all)).await;
        let shared = shared.load(Ordering::Relaxed);
        for ((_, done), (written, own)) in records.into_iter().zip(written) {
            let _ = done.send((written, shared + own));
        }

        paid
    }

    /// Returns whether the attempts were written, and for each record whether it was written and
    /// how often it was retried separately.
    async fn write_all(
        &mut self,
        all: &[&JobRecord],
    ) -> (Result<(), StoreError>, Vec<(Result<bool, StoreError>, i64)>) {
        let mut uncertain = None;
        if self.held.len() <= MAX_AT_ONCE {
            match self.store.add_paid_records(&rows(&self.held), all).await {
                Ok(written) => {
                    self.held.clear();
                    return (
                        Ok(()),
                        written
                            .into_iter()
                            .map(|written| (Ok(written), 0))
                            .collect(),
                    );
                }
                // A repeated write could duplicate events; the next run of the job finds what was
                // written.
                Err(error @ StoreError::Uncertain { .. }) => {
                    self.count_once(&error, self.held.len());
                    uncertain = Some(error);
                }
                Err(_) => {}
            }
        }

        // One after another, so that an error in one does not affect the others.
        let paid = self.write().await;
        let mut away = uncertain.or_else(|| paid.clone().err());
        let mut each = Vec::with_capacity(all.len());

        for record in all {
            // If the database is unreachable for one record, it is for the others too, so no
            // further caller has to wait.
            if let Some(error) = &away {
                each.push((Err(error.clone()), 0));
                continue;
            }

            let asked_again = Arc::new(AtomicI64::new(0));
            let writing = self.store.add_job_record(record);
            let written = count_retries(Arc::clone(&asked_again), writing).await;
            away = written.as_ref().err().filter(|error| waits(error)).cloned();

            each.push((written, asked_again.load(Ordering::Relaxed)));
        }

        (paid, each)
    }

    /// A row that the database rejects must not block the others indefinitely.
    async fn write_one_by_one(&self, count: usize) -> Result<(), StoreError> {
        for entry in &self.held[..count] {
            match self
                .store
                .add_llm_calls(&rows(std::slice::from_ref(entry)))
                .await
            {
                Err(error) if waits(&error) => return Err(error),
                Err(error) => {
                    tracing::error!(%error, stage = entry.call.stage, "cannot record a model call");
                }
                Ok(()) => {}
            }
        }
        Ok(())
    }
}

/// Whether the attempts can be written later. They may already be written, which is harmless.
fn waits(error: &StoreError) -> bool {
    error.may_pass()
        || matches!(
            error,
            StoreError::Full { .. } | StoreError::CannotOpen { .. }
        )
}

fn rows(entries: &[CallEntry]) -> Vec<Row<'_>> {
    entries
        .iter()
        .map(|entry| (&entry.space, &entry.payer, &entry.call, entry.part))
        .collect()
}
