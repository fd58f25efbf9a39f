//! The memory that all request bodies may use together: `limits.body_memory`.
//!
//! A body is rejected immediately if its announced length does not fit; it reserves memory as it
//! grows. The reservation lives as long as the body and the data parsed from it. A single body
//! always fits, because its size has a separate limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::{HeaderValue, header};

use super::error::ApiError;
use crate::base::problems;

/// Bodies up to this size need no reservation, so that queries and other small requests work while
/// uploads fill the budget.
const FREE_BYTES: usize = 16 << 10;

/// Cheap to clone.
#[derive(Clone)]
pub struct BodyBudget {
    most: usize,
    reserved: Arc<AtomicUsize>,
}

/// The memory that one body has reserved; released when dropped.
pub struct Reservation {
    budget: BodyBudget,
    bytes: usize,
}

impl BodyBudget {
    pub fn new(most: usize) -> Self {
        Self {
            most,
            reserved: Arc::default(),
        }
    }

    /// Whether this number of bytes would fit now.
    pub fn check_room(&self, bytes: usize) -> Result<(), ApiError> {
        self.reservation().grow_to(bytes)
    }

    /// An empty reservation.
    pub fn reservation(&self) -> Reservation {
        Reservation {
            budget: self.clone(),
            bytes: 0,
        }
    }
}

impl Reservation {
    /// Extends the reservation to this total number of bytes.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), ApiError> {
        if bytes <= FREE_BYTES.max(self.bytes) {
            return Ok(());
        }

        let more = bytes - self.bytes;
        let fits = |reserved: usize| {
            let sum = reserved.saturating_add(more);
            (reserved == self.bytes || sum <= self.budget.most).then_some(sum)
        };

        let grown = self
            .budget
            .reserved
            .try_update(Ordering::Relaxed, Ordering::Relaxed, fits);

        if grown.is_err() {
            return Err(exhausted(self.budget.most));
        }

        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget
            .reserved
            .fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn exhausted(most: usize) -> ApiError {
    ApiError::new(
        problems::BODY_MEMORY_EXHAUSTED,
        format!("the bodies of other requests use all of limits.body_memory ({most} bytes)"),
    )
    .fix(
        "Try again shortly, send fewer large bodies at the same time, or raise \
         limits.body_memory.",
    )
    .with("body_memory", most)
    .header(header::RETRY_AFTER, HeaderValue::from_static("2"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_shared_and_released() {
        let budget = BodyBudget::new(100 << 10);
        let (mut one, mut other) = (budget.reservation(), budget.reservation());
        one.grow_to(60 << 10).unwrap();
        assert_eq!(
            other.grow_to(60 << 10).unwrap_err().kind.code,
            "body_memory_exhausted"
        );

        other.grow_to(40 << 10).unwrap();
        // A small one is always taken.
        budget.reservation().grow_to(FREE_BYTES).unwrap();
        assert!(one.grow_to(61 << 10).is_err());

        drop(other);
        // What is alone is bounded by its own limit only.
        one.grow_to(500 << 10).unwrap();
        drop(one);
        assert_eq!(budget.reserved.load(Ordering::Relaxed), 0);
    }
}
