//! Whether the database is writable, for readiness: tested from time to time, and cached in
//! between.
//!
//! A full disk still allows reads, so a round trip proves nothing. The test writes a filler to its
//! own table and deletes it: enough for SQLite to need new pages and space in its log, as a small
//! request does.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Store, StoreError};
use crate::base::ids::new_uuid;

/// How long a successful test is cached. A write that fails for lack of space discards it
/// immediately.
const KEEP_GOOD: Duration = Duration::from_secs(30);
/// How long a failed test is cached.
const KEEP_BAD: Duration = Duration::from_secs(1);
const FILLER_BYTES: usize = 64 * 1024;

/// The result of the last test.
#[derive(Default)]
pub struct Writability {
    last: Mutex<Last>,
    /// Held during a test, so that one runs at a time.
    trying: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct Last {
    outcome: Option<StoreError>,
    /// `None`: the next probe tests.
    tried: Option<Instant>,
}

impl Writability {
    /// Discards a successful test, because a write has failed since.
    pub fn doubt(&self) {
        self.last().tried = None;
    }

    /// The cached result, if it is fresh enough.
    fn fresh(&self) -> Option<Result<(), StoreError>> {
        let last = self.last();
        let keep = if last.outcome.is_none() {
            KEEP_GOOD
        } else {
            KEEP_BAD
        };

        last.tried
            .is_some_and(|tried| tried.elapsed() < keep)
            .then(|| last.verdict())
    }

    fn remember(&self, outcome: &Result<(), StoreError>) {
        let mut last = self.last();
        last.outcome = outcome.as_ref().err().cloned();
        last.tried = Some(Instant::now());
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Last {
    fn verdict(&self) -> Result<(), StoreError> {
        self.outcome.clone().map_or(Ok(()), Err)
    }
}

impl Store {
    /// Returns whether the database is writable, by a test that is at most a few seconds old. If a
    /// new test takes longer than `patience`, the previous result counts: a busy writer is no
    /// reason to be out of service.
    ///
    /// # Errors
    /// The disk is full, or the database rejects writes.
    pub async fn check_writable(&self, patience: Duration) -> Result<(), StoreError> {
        let writability = &self.backend.writability;
        if let Some(outcome) = writability.fresh() {
            return outcome;
        }

        let store = self.clone();
        // A probe that disconnects must not abort a test halfway: that would close the connection.
        #[expect(
            clippy::disallowed_methods,
            reason = "ends by itself; closing the pool waits for its connection"
        )]
        let trying = tokio::spawn(async move { store.try_write_once().await });
        match tokio::time::timeout(patience, trying).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) | Err(_) => writability.last().verdict(),
        }
    }

    async fn try_write_once(&self) -> Result<(), StoreError> {
        let writability = &self.backend.writability;
        let _one_at_a_time = Arc::clone(&writability.trying).lock_owned().await;
        if let Some(outcome) = writability.fresh() {
            return outcome;
        }

        let outcome = match self.try_write().await {
            // Other writers were in the way, so writing works.
            Err(StoreError::Contended { .. }) => Ok(()),
            Err(StoreError::Uncertain { place, cause }) => {
                Err(StoreError::Unavailable { place, cause })
            }
            outcome => outcome,
        };

        writability.remember(&outcome);
        outcome
    }

    async fn try_write(&self) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        // A row left behind by an aborted test.
        tx.execute(tx.sql("DELETE FROM write_probes")).await?;
        let insert = tx.sql("INSERT INTO write_probes (id, filler) VALUES (?, ?)");
        tx.execute(insert.bind(new_uuid()).bind("x".repeat(FILLER_BYTES)))
            .await?;
        tx.commit().await?;

        let mut tx = self.begin().await?;
        tx.execute(tx.sql("DELETE FROM write_probes")).await?;
        tx.commit().await
    }
}
