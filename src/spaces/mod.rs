//! Whole spaces, for operators: list, count and delete.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio_util::task::TaskTracker;

use crate::base::clock::Timestamp;
use crate::base::ids::Space;
use crate::jobs::Jobs;
use crate::llm::Llm;
use crate::model::llm_call::UsageDay;
use crate::store::{SpaceSize, Store, StoreError};

/// The worker of a cancelled job notices within a second, and stops.
const WORKERS_STOP: Duration = Duration::from_secs(2);
/// Rows written while a space is deleted are deleted in the next pass.
const PASSES: usize = 3;

/// Entry point of spaces; cheap to clone.
#[derive(Clone)]
pub struct Spaces {
    store: Store,
    jobs: Jobs,
    llm: Llm,
    removals: TaskTracker,
}

/// The counts of a space.
#[derive(Debug)]
pub struct Measured {
    pub size: SpaceSize,
    /// Its model usage; the text fields are empty.
    pub usage: UsageDay,
}

/// What was deleted.
#[derive(Debug)]
pub struct Removed {
    pub jobs_cancelled: usize,
    /// Rows, by table.
    pub rows: BTreeMap<&'static str, u64>,
}

impl Spaces {
    #[must_use]
    pub fn new(store: Store, jobs: Jobs, llm: Llm) -> Self {
        Self {
            store,
            jobs,
            llm,
            removals: TaskTracker::new(),
        }
    }

    /// Names of spaces with data, after the given one.
    ///
    /// # Errors
    /// The store's.
    pub async fn list(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.store.list_spaces(after, limit).await
    }

    /// Whether a space has any data.
    ///
    /// # Errors
    /// The store's.
    pub async fn exists(&self, space: &Space) -> Result<bool, StoreError> {
        self.store.has_space(space).await
    }

    /// # Errors
    /// The store's.
    pub async fn measure(&self, space: &Space) -> Result<Measured, StoreError> {
        self.llm.flush().await?;
        let size = self.store.find_space_size(space).await?;
        Ok(Measured {
            size,
            usage: self.store.find_space_usage(space).await?,
        })
    }

    /// Deletes everything in a space. It continues if the caller disconnects, and is safe to repeat
    /// if the process dies.
    ///
    /// # Errors
    /// The store's; repeating the call deletes the rest.
    pub async fn remove(&self, space: &Space, now: Timestamp) -> Result<Removed, StoreError> {
        let (this, space) = (self.clone(), space.clone());
        let removing = self
            .removals
            .spawn(async move { this.remove_all(&space, now).await });
        removing.await.unwrap_or_else(|error| {
            Err(StoreError::Broken {
                cause: error.to_string(),
            })
        })
    }

    async fn remove_all(&self, space: &Space, now: Timestamp) -> Result<Removed, StoreError> {
        // First, so that no worker adds data in the meantime.
        let cancelled = self.store.cancel_space_jobs(space, now).await?;
        self.jobs.announce_cancelled(&cancelled);
        if !cancelled.is_empty() {
            tokio::time::sleep(WORKERS_STOP).await;
        }

        let mut rows = BTreeMap::new();
        for _ in 0..PASSES {
            // Otherwise calls that are not written yet would reappear as rows of the space.
            self.llm.flush().await?;
            let pass = self.store.remove_space(space).await?;
            let found = pass.values().any(|count| *count > 0);
            for (table, count) in pass {
                *rows.entry(table).or_default() += count;
            }

            if !found {
                break;
            }
        }

        tracing::info!(rows = rows.values().sum::<u64>(), "space deleted");
        Ok(Removed {
            jobs_cancelled: cancelled.len(),
            rows,
        })
    }
}
