//! The daily caps of a space and of an API key: the ledger's total and the calls in flight in this
//! process are checked and reserved in one step. With several processes, the cap may be exceeded by
//! the calls that others have in flight.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::session::check_cap;
use super::{Llm, LlmError, Session};
use crate::base::clock::Timestamp;
use crate::base::ids::Space;
use crate::config::llm::Caps;
use crate::model::llm_call::Spent;

/// The owner of a daily cap.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Purse {
    Space(Space),
    /// By its id.
    Key(String),
}

type UnderWay = Arc<Mutex<HashMap<Purse, Spent>>>;

/// Calls in flight, by owner of the cap.
#[derive(Default)]
pub struct DailySpending {
    under_way: UnderWay,
    /// One check at a time, because two could otherwise reserve the same remaining amount.
    turn: tokio::sync::Mutex<()>,
}

/// A reservation under the caps; released when dropped.
pub struct Reservation {
    under_way: UnderWay,
    purses: Vec<Purse>,
    expected: Spent,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut under_way = self
            .under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for purse in &self.purses {
            if let Some(sum) = under_way.get_mut(purse) {
                *sum = sum.minus(self.expected);
                if sum.calls <= 0 {
                    under_way.remove(purse);
                }
            }
        }
    }
}

impl Llm {
    /// Reserves a call, unless it would exceed the daily cap of its space or its key; `None` if
    /// there is no cap.
    pub(super) async fn reserve_today(
        &self,
        session: &Session,
        expected: Spent,
    ) -> Result<Option<Reservation>, LlmError> {
        let key = session.call.budget.as_ref().map(|budget| {
            let caps = Caps {
                calls: budget.calls,
                tokens: budget.tokens,
                usd: budget.usd,
            };
            (Purse::Key(budget.key_id.clone()), caps)
        });

        let space = (
            Purse::Space(session.call.space.clone()),
            self.settings().caps.space_day,
        );

        let capped: Vec<(Purse, Caps)> = [Some(space), key]
            .into_iter()
            .flatten()
            .filter(|(_, c)| !c.is_open())
            .collect();

        if capped.is_empty() {
            return Ok(None);
        }

        let spending = &self.inner.daily_spending;
        let _turn = spending.turn.lock().await;

        // First the calls in flight, then the ledger: a call that ends in between counts twice
        // rather than not at all.
        let under_way: Vec<Spent> = {
            let all = spending
                .under_way
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            capped
                .iter()
                .map(|(purse, _)| all.get(purse).copied().unwrap_or_default())
                .collect()
        };

        self.inner.journal.flush().await?;
        let now = self.now();
        for ((purse, caps), under_way) in capped.iter().zip(under_way) {
            let (scope, spent) = self.spent_today(purse, now).await?;
            check_cap(scope, caps, spent.plus(under_way), expected)
                .map_err(|error| until_midnight(error, now))?;
        }

        let purses: Vec<Purse> = capped.into_iter().map(|(purse, _)| purse).collect();
        let mut all = spending
            .under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner);

        for purse in &purses {
            let sum = all.entry(purse.clone()).or_default();
            *sum = sum.plus(expected);
        }

        Ok(Some(Reservation {
            under_way: Arc::clone(&spending.under_way),
            purses,
            expected,
        }))
    }

    async fn spent_today(
        &self,
        purse: &Purse,
        now: Timestamp,
    ) -> Result<(&'static str, Spent), LlmError> {
        let (store, day) = (&self.inner.store, now.day());
        Ok(match purse {
            Purse::Space(space) => ("space and day", store.find_spent_on(space, &day).await?),
            Purse::Key(id) => ("key and day", store.find_key_spent_on(id, &day).await?),
        })
    }
}

/// A daily cap is reset at midnight UTC.
fn until_midnight(error: LlmError, now: Timestamp) -> LlmError {
    match error {
        LlmError::SpendCapReached {
            scope,
            unit,
            limit,
            spent,
            ..
        } => LlmError::SpendCapReached {
            scope,
            unit,
            limit,
            spent,
            resets_in: Some(now.seconds_left_today()),
        },
        other => other,
    }
}
