//! Erases a whole space.

use std::time::Duration;

use super::{Erased, ErasureError, ErasureOrder, Erasures, Running};
use crate::model::erasure::{RowCounts, SubjectKind};
use crate::store::StoreError;

/// The worker of a cancelled job notices within a second, and stops.
const WORKERS_STOP: Duration = Duration::from_secs(2);
/// Rows written while a space is deleted are deleted in the next pass.
const PASSES: usize = 3;

impl Erasures {
    /// Erases everything in the space of the order, except its receipts of erasures.
    ///
    /// # Errors
    /// The store's; repeating the call erases the rest.
    pub async fn space(&self, order: &ErasureOrder) -> Result<Erased, ErasureError> {
        let subject = order.call.space.as_str();
        if let Some(running) = self.unfinished(order, SubjectKind::Space, subject).await? {
            return self.complete(running).await;
        }

        let running = order.begin(SubjectKind::Space, subject);
        self.begin(&running).await?;
        self.complete(running).await
    }

    pub(super) async fn remove_space_rows(&self, running: &mut Running) -> Result<(), StoreError> {
        let call = running.call.clone();
        if self.is_over(running).await? {
            return Ok(());
        }

        // First, so that no worker adds data in the meantime.
        let cancelled = self
            .store
            .cancel_space_jobs(&call.space, running.call.now)
            .await?;
        self.jobs.announce_cancelled(&cancelled);
        running.jobs_cancelled += cancelled.len();
        if !cancelled.is_empty() {
            tokio::time::sleep(WORKERS_STOP).await;
        }

        for _ in 0..PASSES {
            // Otherwise calls that are not written yet would reappear as rows of the space.
            self.llm.flush().await?;
            if self.is_over(running).await? {
                return Ok(());
            }

            let pass = self.store.remove_space(&call.space).await?;
            let found = pass.values().any(|count| *count > 0);
            let counts: RowCounts = pass
                .into_iter()
                .map(|(table, count)| (table.to_owned(), count))
                .collect();
            // The receipt lists every table, also those that were empty.
            for (table, count) in counts {
                *running.erasure.rows.entry(table).or_default() += count;
            }

            if !found {
                break;
            }
        }

        Ok(())
    }
}
