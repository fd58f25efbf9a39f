//! What a space may spend on one day: the ledger's sum, and what is under way in this process, checked and reserved as
//! one. Across processes the sum may be passed by the calls that others have under way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::session::check_cap;
use super::{Llm, LlmError, Session};
use crate::base::ids::Space;
use crate::model::llm_call::Spent;

/// Calls under way, by space.
#[derive(Default)]
pub struct Today {
    under_way: Arc<Mutex<HashMap<Space, Spent>>>,
    /// One check at a time, or two could take the same last place.
    turn: tokio::sync::Mutex<()>,
}

/// A place under the cap; given back when dropped.
pub struct Reservation {
    under_way: Arc<Mutex<HashMap<Space, Spent>>>,
    space: Space,
    expected: Spent,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sum) = under_way.get_mut(&self.space) {
            *sum = sum.minus(self.expected);
            if sum.calls <= 0 {
                under_way.remove(&self.space);
            }
        }
    }
}

impl Llm {
    /// Reserves a call, unless it would go over what its space may spend today; `None` if there is no cap.
    pub(super) async fn reserve_today(
        &self,
        session: &Session,
        expected: Spent,
    ) -> Result<Option<Reservation>, LlmError> {
        let caps = self.settings().caps.space_day;
        if caps.is_open() {
            return Ok(None);
        }
        let today = &self.inner.today;
        let _turn = today.turn.lock().await;
        let space = &session.space;
        // First what is under way, then the ledger: a call that ends in between counts twice rather than not at all.
        let under_way = today.under_way.lock().unwrap_or_else(PoisonError::into_inner).get(space).copied();
        self.inner.ledger.flush().await?;
        let now = self.now();
        let spent = self.inner.store.find_spent_on(space, &now.day()).await?;
        let so_far = spent.plus(under_way.unwrap_or_default());
        check_cap("space and day", &caps, so_far, expected).map_err(|error| match error {
            LlmError::SpendCapReached { scope, unit, limit, spent, .. } => {
                LlmError::SpendCapReached { scope, unit, limit, spent, resets_in: Some(now.seconds_left_today()) }
            }
            other => other,
        })?;
        let mut all = today.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = all.entry(space.clone()).or_default();
        *sum = sum.plus(expected);
        Ok(Some(Reservation { under_way: Arc::clone(&today.under_way), space: space.clone(), expected }))
    }
}
