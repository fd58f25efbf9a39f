//! Requests per minute, counted over all processes.
//!
//! A process reserves some of a key's requests for the minute at once (a twentieth of the limit, at
//! least one), so that few requests wait for the database. All processes together never exceed the
//! limit; what a process reserves and does not use is unavailable to the others until the next
//! minute.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Key, KeysError};
use crate::base::clock::Timestamp;
use crate::store::{Store, StoreError};

const MINUTE: i64 = 60_000_000;
/// How long a request waits for the database and for another request of its key that reserves,
/// together.
const PATIENCE: Duration = Duration::from_secs(10);

pub struct Rates {
    store: Store,
    windows: Mutex<HashMap<String, Window>>,
}

/// What this process knows about a key's minute.
#[derive(Default)]
struct Window {
    start: i64,
    /// Reserved and unused requests.
    left: i64,
    /// Whether the limit is reached.
    empty: bool,
    /// One request reserves at a time; the others then use what it reserved.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Rates {
    pub fn new(store: Store) -> Self {
        Self {
            store,
            windows: Mutex::default(),
        }
    }

    /// Counts one request.
    pub async fn count(&self, key: &Key, now: Timestamp) -> Result<(), KeysError> {
        let limit = key.limits.requests_per_minute;
        if limit == 0 {
            return Ok(());
        }

        let start = now.as_micros() - now.as_micros().rem_euclid(MINUTE);
        let left_us = u64::try_from(start + MINUTE - now.as_micros()).unwrap_or(0);
        let too_many = || KeysError::TooMany {
            limit,
            resets_in: left_us.div_ceil(1_000_000),
        };

        if let Some(fits) = self.use_one(&key.id, start) {
            return if fits { Ok(()) } else { Err(too_many()) };
        }

        let taken = tokio::time::timeout(PATIENCE, self.take(&key.id, start, limit)).await;
        let taken = taken.unwrap_or_else(|_| Err(self.store.unanswered(PATIENCE)))?;
        if taken { Ok(()) } else { Err(too_many()) }
    }

    /// Uses one, and reserves more if none is left; `false` if the limit is reached.
    async fn take(&self, id: &str, start: i64, limit: u64) -> Result<bool, StoreError> {
        let turn = self
            .windows()
            .entry(id.to_owned())
            .or_default()
            .turn
            .clone();

        let _turn = turn.lock().await;
        if let Some(fits) = self.use_one(id, start) {
            return Ok(fits);
        }

        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let wanted = (most / 20).max(1);
        let taken = self
            .store
            .take_requests(id, Timestamp::from_micros(start), wanted, most)
            .await?;

        let mut windows = self.windows();
        let window = windows.entry(id.to_owned()).or_default();
        if window.start == start {
            window.left += (taken - 1).max(0);
            window.empty = taken < wanted;
        }

        Ok(taken > 0)
    }

    /// Uses a reserved one; `None` if more must be reserved.
    fn use_one(&self, id: &str, start: i64) -> Option<bool> {
        let mut windows = self.windows();
        let window = windows.entry(id.to_owned()).or_default();
        if window.start != start {
            (window.start, window.left, window.empty) = (start, 0, false);
        }

        if window.left > 0 {
            window.left -= 1;
            return Some(true);
        }

        window.empty.then_some(false)
    }

    fn windows(&self) -> MutexGuard<'_, HashMap<String, Window>> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
