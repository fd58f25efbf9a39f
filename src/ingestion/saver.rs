//! Saves finished answers with the job, all that are waiting in one transaction.
//!
//! A call counts as running until its answer is saved: its caller waits here. So a killed process
//! loses at most the running calls, and a fast model does not need a commit for each answer. The
//! answers of the embedded model cost nothing, so nobody waits for them to be saved.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::jobs::{JobContext, JobError};
use crate::llm::{Llm, Session};
use crate::model::batch::Batch;
use crate::model::job::{Detail, Record};

/// How often progress is reported.
const REPORTS: Duration = Duration::from_millis(500);

pub struct Saver<'a> {
    context: &'a JobContext,
    llm: &'a Llm,
    session: &'a Session,
    pending: Mutex<Vec<Pending>>,
    writing: tokio::sync::Mutex<Progress>,
}

struct Pending {
    entry: Saved,
    done: oneshot::Sender<Result<(), JobError>>,
}

/// One finished answer.
pub struct Saved {
    /// Its name and value.
    pub step: (String, Value),
    pub batch: Batch,
    /// How many levels it settles, counted for each chunk.
    pub decisions: i64,
}

/// The progress of filing.
#[derive(Debug, Clone, Copy)]
struct Progress {
    depth: i64,
    chunks: i64,
    /// Decisions, one for each chunk and level.
    done: i64,
    reported: Option<Instant>,
}

impl<'a> Saver<'a> {
    pub fn new(
        context: &'a JobContext,
        llm: &'a Llm,
        session: &'a Session,
        chunks: i64,
        depth: i64,
    ) -> Self {
        let progress = Progress {
            depth,
            chunks,
            done: 0,
            reported: None,
        };
        Self {
            context,
            llm,
            session,
            pending: Mutex::default(),
            writing: tokio::sync::Mutex::new(progress),
        }
    }

    /// What was saved under this name before.
    pub fn saved(&self, step: &str) -> Option<Value> {
        self.context.saved(step)
    }

    /// Restarts the count, because everything is repeated.
    pub async fn restart(&self) {
        self.writing.lock().await.done = 0;
    }

    /// Counts decisions that were saved before.
    pub async fn count(&self, decisions: usize) {
        self.writing.lock().await.done += i64::try_from(decisions).unwrap_or(0);
    }

    /// Saves an answer, together with others that are waiting.
    ///
    /// # Errors
    /// [`JobError::LeaseLost`], or the store's.
    pub async fn save(&self, entry: Saved) -> Result<(), JobError> {
        let (done, waiting) = oneshot::channel();
        self.pending
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Pending { entry, done });

        let mut progress = self.writing.lock().await;
        let some =
            std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner));

        // Empty if the previous save included ours.
        if !some.is_empty() {
            let (entries, waiting): (Vec<Saved>, Vec<_>) = some
                .into_iter()
                .map(|pending| (pending.entry, pending.done))
                .unzip();

            let written = self.write(entries, &mut progress).await;
            for done in waiting {
                let _ = done.send(written.clone());
            }
        }

        drop(progress);
        waiting.await.unwrap_or(Err(JobError::Interrupted))
    }

    async fn write(&self, some: Vec<Saved>, progress: &mut Progress) -> Result<(), JobError> {
        let level = some.iter().map(|saved| saved.batch.level).max();
        let done: i64 = some.iter().map(|saved| saved.decisions).sum();
        let is_useless = some.iter().all(|saved| saved.batch.successes == 0);
        let (steps, details) = some
            .into_iter()
            .map(|saved| (saved.step, Detail::Batch(saved.batch)))
            .unzip();

        progress.done += done;
        if progress
            .reported
            .is_none_or(|last| last.elapsed() >= REPORTS)
        {
            progress.reported = Some(Instant::now());
            self.context
                .report("classifying", self.shown(*progress, level));
        }

        let record = Record {
            steps,
            details,
            without_progress: is_useless,
            ..Record::default()
        };

        if self.llm.files_for_free(self.session) {
            self.context.record_later(record);
            return Ok(());
        }

        self.context.record_paid(self.llm.journal(), record).await
    }

    fn shown(&self, progress: Progress, level: Option<i64>) -> Value {
        let spent = self.session.spent();
        json!({
            "chunks": progress.chunks, "chunks_filed": progress.done / progress.depth.max(1),
            "level": level, "depth": progress.depth, "done": progress.done,
            "total": progress.chunks * progress.depth, "llm_calls": spent.calls, "tokens": spent.tokens,
            "cost_usd": spent.usd,
        })
    }
}
