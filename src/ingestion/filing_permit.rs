//! How many texts the embedded model files at the same time. Each sees the categories of those that
//! left before it, so more at once would create more categories for the same subjects.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::jobs::JobError;

/// The permit to file a text; free once it is released or dropped.
pub struct FilingPermit(Mutex<Option<OwnedSemaphorePermit>>);

impl FilingPermit {
    /// Waits for a permit.
    ///
    /// # Errors
    /// [`JobError::Interrupted`] if the process stops.
    pub async fn wait(permits: &Arc<Semaphore>) -> Result<Self, JobError> {
        let permit = Arc::clone(permits).acquire_owned().await;
        let permit = permit.map_err(|_| JobError::Interrupted)?;
        Ok(Self(Mutex::new(Some(permit))))
    }

    /// The text is written and visible to others, if not yet on disk, or creates no category.
    pub fn release(&self) {
        let permit = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(permit);
    }
}
