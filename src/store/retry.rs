//! Retries an operation when the connection was lost or another transaction conflicted.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use super::{Store, StoreError};
use crate::base::metrics as names;

/// No try begins after this, however many are left.
const PATIENCE: Duration = Duration::from_secs(5);

tokio::task_local! {
    /// Retries made for one piece of work.
    static MADE_AGAIN: Arc<AtomicI64>;
}

/// Counts retries while a future runs, in addition to what the counter holds.
pub fn count_retries<F: Future>(
    counter: Arc<AtomicI64>,
    work: F,
) -> impl Future<Output = F::Output> {
    MADE_AGAIN.scope(counter, work)
}

/// Adds retries that another task made for the current piece of work.
pub fn add_retries(made: i64) {
    let _ = MADE_AGAIN.try_with(|counter| counter.fetch_add(made, Ordering::Relaxed));
}

/// The retries counted so far for the current piece of work.
pub(super) fn retries_so_far() -> i64 {
    MADE_AGAIN
        .try_with(|counter| counter.load(Ordering::Relaxed))
        .unwrap_or(0)
}

impl Store {
    /// Runs `operation` until it succeeds, fails permanently, or the tries are used up.
    ///
    /// The operation must be complete: a single read, or a transaction from begin to commit.
    pub async fn retry<T, F>(
        &self,
        name: &'static str,
        operation: impl Fn() -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        self.retry_as(name, operation).await
    }

    /// Retries an operation with its own error type, some of whose errors come from the store.
    pub async fn retry_as<T, E, F>(
        &self,
        name: &'static str,
        operation: impl Fn() -> F,
    ) -> Result<T, E>
    where
        E: AsStoreError,
        F: Future<Output = Result<T, E>>,
    {
        let policy = self.backend.retry;
        let began = Instant::now();
        let mut tried = 0;

        loop {
            let error = match operation().await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };

            tried += 1;
            let Some(cause) = error.as_store_error().filter(|cause| cause.is_retryable()) else {
                return Err(error);
            };
            let pause = policy.pause(tried);

            if u64::from(tried) >= policy.tries || began.elapsed() + pause > PATIENCE {
                if matches!(cause, StoreError::Unavailable { .. }) {
                    metrics::counter!(names::STORE_UNAVAILABLE_TOTAL, "operation" => name)
                        .increment(1);
                }
                return Err(error);
            }

            metrics::counter!(names::STORE_RETRIES_TOTAL, "operation" => name).increment(1);
            let _ = MADE_AGAIN.try_with(|counter| counter.fetch_add(1, Ordering::Relaxed));
            tracing::warn!(operation = name, tried, pause_ms = pause.as_millis(), %cause, "retrying a store operation");
            tokio::time::sleep(pause).await;
        }
    }
}

/// An error that may have come from the store.
pub trait AsStoreError {
    fn as_store_error(&self) -> Option<&StoreError>;
}

/// Declares that errors of a type come from the store if they are in its variant `Store`, or in
/// another variant with an error of which this is known.
macro_rules! as_store_error {
    ($error:ty $(, $inner:ident)*) => {
        impl $crate::store::AsStoreError for $error {
            fn as_store_error(&self) -> Option<&$crate::store::StoreError> {
                match self {
                    Self::Store(error) => Some(error),
                    $(Self::$inner(error) => $crate::store::AsStoreError::as_store_error(error),)*
                    _ => None,
                }
            }
        }
    };
}

pub(crate) use as_store_error;

impl AsStoreError for StoreError {
    fn as_store_error(&self) -> Option<&StoreError> {
        Some(self)
    }
}
