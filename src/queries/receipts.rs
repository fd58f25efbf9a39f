//! Stores the receipts of queries, and finds, lists and deletes them.

use std::time::{Duration, Instant};

use memoir_text::text::char_count;
use tokio_util::task::TaskTracker;

use super::{QueryError, QueryResult, QuerySettings, Receipt, Start};
use crate::base::clock::Timestamp;
use crate::base::ids::{QueryId, Space};
use crate::config;
use crate::llm::Llm;
use crate::model::call::CallContext;
use crate::model::llm_call::{LlmCall, Payer};
use crate::model::query::{NewQuery, QueryUses, StoredPart, StoredQuery};
use crate::store::{ERASED_STATE, QueryPage, Store, StoreError};

/// How long an answer waits for its receipt to be written. A busy database does not delay it any
/// longer.
const RECEIPT_PATIENCE: Duration = Duration::from_millis(5);
/// How long a reader waits for receipts that are being written.
const LATE_RECEIPT: Duration = Duration::from_millis(200);
/// How often the reader checks meanwhile.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
const DAY_SECONDS: i64 = 24 * 60 * 60;

/// A receipt with its calls.
#[derive(Debug, Clone)]
pub struct RecordedQuery {
    pub stored: StoredQuery,
    pub receipt: Receipt,
    pub calls: Vec<LlmCall>,
}

impl RecordedQuery {
    pub fn id(&self) -> &QueryId {
        &self.stored.id
    }

    /// Whether something that the query used was deleted, and its texts with it.
    pub fn is_erased(&self) -> bool {
        self.stored.state == ERASED_STATE
    }
}

/// The receipts of all spaces; cheap to clone.
#[derive(Clone)]
pub struct Receipts {
    store: Store,
    llm: Llm,
    audit: config::Audit,
    /// Receipts that are being written.
    writes: TaskTracker,
}

impl Receipts {
    pub(super) fn new(store: Store, llm: Llm, audit: config::Audit) -> Self {
        Self {
            store,
            llm,
            audit,
            writes: TaskTracker::new(),
        }
    }

    /// Whether queries are recorded.
    pub fn are_stored(&self) -> bool {
        self.audit.persist
    }

    /// Waits for receipts that are being written.
    pub async fn close(&self) {
        self.writes.close();
        self.writes.wait().await;
    }

    /// Writes the receipt, unless recording is disabled.
    pub(super) async fn store(
        &self,
        call: &CallContext,
        settings: &QuerySettings,
        id: QueryId,
        result: &QueryResult,
        receipt: &Receipt,
        start: Start,
    ) {
        if !self.are_stored() {
            return;
        }

        let stored = NewQuery {
            id,
            user_id: settings.user_id.clone().unwrap_or_default(),
            request: serde_json::to_string(settings).unwrap_or_default(),
            receipt: serde_json::to_string(receipt).unwrap_or_default(),
            state: if receipt.error.is_none() {
                "succeeded"
            } else {
                "failed"
            }
            .to_owned(),
            answer_chars: i64::try_from(result.answer.as_deref().map_or(0, char_count))
                .unwrap_or(i64::MAX),
            elapsed_ms: result.elapsed_ms,
            created_at: call.now,
        };

        let uses = result.uses(start.erasures, &receipt.helpers);
        let (receipts, call) = (self.clone(), call.clone());
        let writing = self.writes.spawn(async move {
            let written = receipts.write(&call, &stored, &uses, start.of_job).await;
            if let Err(error) = written {
                tracing::warn!(%error, "cannot store the receipt of a query");
            }
        });

        let _ = tokio::time::timeout(RECEIPT_PATIENCE, writing).await;
    }

    /// Stores a receipt. If something that the query used was deleted meanwhile, the outputs of its
    /// calls go too.
    async fn write(
        &self,
        call: &CallContext,
        stored: &NewQuery,
        uses: &QueryUses,
        of_job: bool,
    ) -> Result<(), StoreError> {
        match self
            .store
            .add_query(&call.space, stored, uses, of_job)
            .await?
        {
            StoredPart::Whole => Ok(()),
            StoredPart::WithoutTexts => {
                self.llm.flush().await?;
                self.store
                    .clear_query_outputs(&call.space, &stored.id)
                    .await
            }
            StoredPart::Nothing => {
                self.llm.flush().await?;
                self.store.remove_query_calls(&call.space, &stored.id).await
            }
        }
    }

    /// Deletes receipts older than `audit.keep_days`.
    ///
    /// # Errors
    /// The store's.
    pub async fn prune(&self, now: Timestamp) -> Result<u64, QueryError> {
        if !self.are_stored() {
            // Of results that were cleared long before.
            let before = now.minus_seconds(DAY_SECONDS);
            self.store.remove_uses_without_receipt(before).await?;
        }

        let days = i64::try_from(self.audit.keep_days).unwrap_or(i64::MAX);
        let before = now.minus_seconds(days.saturating_mul(DAY_SECONDS));
        let mut removed = 0;

        loop {
            let some = if days == 0 {
                0
            } else {
                self.store.remove_old_queries(before).await?
            };

            removed += some;
            if some == 0 {
                return Ok(removed);
            }
        }
    }

    /// A receipt.
    ///
    /// # Errors
    /// [`QueryError::NotFound`], or the store's.
    pub async fn find(&self, call: &CallContext, id: &str) -> Result<RecordedQuery, QueryError> {
        let unknown = || QueryError::NotFound(id.chars().take(64).collect());
        let parsed: QueryId = id.parse().map_err(|_| unknown())?;

        // The calls are written asynchronously.
        self.llm.flush().await?;
        let store = &self.store;
        let begun = Instant::now();
        let found = loop {
            // Checked before the lookup, so that what is written in between is found.
            let late = !self.writes.is_empty() && begun.elapsed() < LATE_RECEIPT;
            let found = store.find_query(&call.space, &parsed).await?;
            if found.is_some() || !late {
                break found;
            }

            tokio::time::sleep(LOOK_AGAIN).await;
        };

        let stored = found.ok_or_else(unknown)?;
        let calls = store
            .list_calls_of(&call.space, &Payer::Query(parsed.to_string()))
            .await?;
        Ok(RecordedQuery {
            receipt: Receipt::of(&stored),
            stored,
            calls,
        })
    }

    /// A page of receipts, newest first.
    pub async fn list(
        &self,
        call: &CallContext,
        page: &QueryPage,
    ) -> Result<Vec<StoredQuery>, QueryError> {
        let begun = Instant::now();
        while !self.writes.is_empty() && begun.elapsed() < LATE_RECEIPT {
            tokio::time::sleep(LOOK_AGAIN).await;
        }

        Ok(self.store.list_queries(&call.space, page).await?)
    }
}

/// Deletes the outputs of a query's calls if it ends without a receipt, by which they would be found.
pub(super) struct OutputGuard {
    pub receipts: Receipts,
    pub space: Space,
    pub id: QueryId,
    /// Whether a receipt is stored, or nothing is recorded.
    pub has_receipt: bool,
}

impl Drop for OutputGuard {
    fn drop(&mut self) {
        if self.has_receipt {
            return;
        }

        let (receipts, space, id) = (self.receipts.clone(), self.space.clone(), self.id.clone());
        self.receipts.writes.spawn(async move {
            let written = receipts.llm.flush().await;
            let cleared = receipts.store.clear_query_outputs(&space, &id).await;
            if written.is_err() || cleared.is_err() {
                tracing::warn!("cannot delete the outputs of a query");
            }
        });
    }
}
