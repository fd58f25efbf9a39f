//! Computes what takes long away from the threads that serve requests: to compile patterns, and to
//! run them over texts. A few computations run at once, and the others wait for a permit. Trials
//! have a permit of their own: whoever may only read must not delay what is stored and retrieved.

use std::num::NonZeroUsize;
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::store::StoreError;

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Permits {
    stored: Arc<Semaphore>,
    trials: Arc<Semaphore>,
}

impl Permits {
    pub fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, NonZeroUsize::get);
        Self {
            stored: Arc::new(Semaphore::new(cores)),
            trials: Arc::new(Semaphore::new(1)),
        }
    }

    /// Computes with a stored policy.
    pub async fn run_stored<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        apart(&self.stored, work).await
    }

    /// Computes for a trial.
    pub async fn run_trial<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        apart(&self.trials, work).await
    }
}

async fn apart<T: Send + 'static>(
    permits: &Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StoreError> {
    let stopped = || StoreError::Broken {
        // A panic message may quote the text.
        cause: "a policy failed because of an internal error".to_owned(),
    };
    let permit = Arc::clone(permits)
        .acquire_owned()
        .await
        .map_err(|_| stopped())?;

    #[expect(
        clippy::disallowed_methods,
        reason = "pure computation with a time limit"
    )]
    let done = tokio::task::spawn_blocking(move || {
        // A caller that goes away must not let in another one before this has ended.
        let _permit = permit;
        work()
    });
    done.await.map_err(|_| stopped())
}
