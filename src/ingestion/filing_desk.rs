//! How many texts the embedded model files at the same time. Each sees the categories of those that
//! left before it, so more at once would create more categories for the same subjects.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::jobs::JobError;

/// A place at the desk; free once it is left or dropped.
pub struct FilingDesk(Mutex<Option<OwnedSemaphorePermit>>);

impl FilingDesk {
    /// Waits for a place.
    ///
    /// # Errors
    /// [`JobError::Interrupted`] if the process stops.
    pub async fn take(places: &Arc<Semaphore>) -> Result<Self, JobError> {
        let place = Arc::clone(places).acquire_owned().await;
        let place = place.map_err(|_| JobError::Interrupted)?;
        Ok(Self(Mutex::new(Some(place))))
    }

    /// The text is written and visible to others, if not yet on disk, or creates no category.
    pub fn leave(&self) {
        let place = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(place);
    }
}
