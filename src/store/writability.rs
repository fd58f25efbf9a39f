//! Whether the database can be written, for readiness: tried now and then, remembered in between.
//!
//! A full disk lets reads through, so a round trip proves nothing. The try writes a filler to a
//! table of its own and removes it: enough for SQLite to need new pages and room in its log, as a
//! small request does.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Store, StoreError};
use crate::base::ids::new_uuid;

/// How long a try that worked is remembered. A write that fails for want of room ends this at once.
const KEEP_GOOD: Duration = Duration::from_secs(30);
/// How long a try that failed is remembered.
const KEEP_BAD: Duration = Duration::from_secs(1);
const FILLER_BYTES: usize = 64 * 1024;

/// What the last try showed.
#[derive(Default)]
pub struct Writability {
    last: Mutex<Last>,
    /// Held during a try, so that one runs at a time.
    trying: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct Last {
    outcome: Option<StoreError>,
    /// None: the next probe tries.
    tried: Option<Instant>,
}

impl Writability {
    /// Forgets that writing worked: something has failed since.
    pub fn doubt(&self) {
        self.last().tried = None;
    }

    /// What is remembered, if it is fresh enough.
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
    /// Tells whether the database can be written, by a try that is at most some seconds old. When a
    /// new try takes longer than `patience`, by the one before: a writer that is busy is no reason
    /// to be out of service.
    ///
    /// # Errors
    /// The disk is full, or the database takes no writes.
    pub async fn check_writable(&self, patience: Duration) -> Result<(), StoreError> {
        let writability = &self.backend.writability;
        if let Some(outcome) = writability.fresh() {
            return outcome;
        }

        let store = self.clone();
        // A probe that hangs up must not end a try halfway: that would close the connection.
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
            // Others were in the way: they write.
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
        // One that was left behind.
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
