//! Erasure: deletes a source, a thread, a memory, an end user or a space, with everything that quotes
//! it elsewhere, and keeps a receipt without content.
//!
//! Every erasure has the same steps. The first transaction deletes the subject, ends the jobs about
//! it, and stores a receipt that says what is left to do. Then, a few rows at a time, what holds its
//! text is emptied: receipts of queries, stored responses, jobs, model calls, names of categories.
//! Each step is safe to repeat, so an interrupted erasure is continued when the service starts, and
//! by a repeated request.
//!
//! What runs meanwhile may have read the text before. A query therefore compares the counter
//! `erasures` of its space with the one in the transaction that stores its receipt, which keeps the
//! counter from changing (`Tx::hold_erasures`). If it differs and something that was used is gone,
//! the receipt is stored without texts, a query job fails, and an idempotent response is not stored.

mod conversations;
mod error;
mod holders;
mod names;
mod sources;
mod spaces;
mod users;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::task::TaskTracker;

use crate::base::clock::Timestamp;
use crate::base::ids::ErasureId;
use crate::conversation::Conversation;
use crate::jobs::Jobs;
use crate::llm::Llm;
use crate::model::call::CallContext;
use crate::model::erasure::{ErasedBy, Erasure, Pending, RowCounts, SubjectKind, add_counts};
use crate::store::{ErasurePage, Store, StoreError};

pub use error::ErasureError;

/// How often SQLite's log is tried to be truncated while others read from it, and the pause between.
const TRUNCATIONS: usize = 5;
const TRUNCATION_PAUSE: Duration = Duration::from_millis(100);
/// The pause between later attempts.
const LATER: Duration = Duration::from_secs(5);

/// Entry point of erasures; cheap to clone.
#[derive(Clone)]
pub struct Erasures {
    store: Store,
    jobs: Jobs,
    llm: Llm,
    conversation: Conversation,
    running: TaskTracker,
    /// The erasures that run in this process.
    under_way: Arc<Mutex<HashSet<ErasureId>>>,
}

/// What an erasure is requested with.
#[derive(Debug, Clone)]
pub struct ErasureOrder {
    pub call: CallContext,
    pub by: ErasedBy,
}

/// A finished erasure.
#[derive(Debug, Clone)]
pub struct Erased {
    pub erasure: Erasure,
    pub messages: u64,
    /// Facts, preferences and summaries.
    pub memories: u64,
    pub jobs_cancelled: usize,
    /// SQLite: whether the write-ahead log, which held the deleted text, was emptied.
    pub log_truncated: Option<bool>,
}

/// An erasure that is under way.
struct Running {
    call: CallContext,
    erasure: Erasure,
    messages: u64,
    memories: u64,
    jobs_cancelled: usize,
    /// Whether another request has erased the same meanwhile: what is stored since then stays.
    is_over: bool,
}

/// Marks an erasure as under way in this process until it is dropped.
struct UnderWay {
    all: Arc<Mutex<HashSet<ErasureId>>>,
    id: ErasureId,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(&self.id);
    }
}

impl ErasureOrder {
    fn begin(&self, kind: SubjectKind, id: &str) -> Running {
        let call = &self.call;
        let erasure = Erasure {
            space: call.space.clone(),
            id: ErasureId::new(),
            kind,
            subject_sha256: kind.hash(&call.space, id),
            key_id: self.by.key_id.clone(),
            key_name: self.by.key_name.clone(),
            rows: RowCounts::new(),
            pending: Some(Pending {
                subject: id.to_owned(),
                ..Pending::default()
            }),
            created_at: call.now,
            finished_at: None,
        };

        Running::of(call.clone(), erasure)
    }
}

impl Running {
    fn of(call: CallContext, erasure: Erasure) -> Self {
        Self {
            call,
            erasure,
            messages: 0,
            memories: 0,
            jobs_cancelled: 0,
            is_over: false,
        }
    }

    fn add(&mut self, counts: &RowCounts) {
        add_counts(&mut self.erasure.rows, counts);
    }

    fn pending(&mut self) -> &mut Pending {
        self.erasure.pending.get_or_insert_default()
    }
}

impl Erasures {
    #[must_use]
    pub fn new(store: Store, jobs: Jobs, llm: Llm, conversation: Conversation) -> Self {
        Self {
            store,
            jobs,
            llm,
            conversation,
            running: TaskTracker::new(),
            under_way: Arc::default(),
        }
    }

    /// A page of receipts, newest first.
    ///
    /// # Errors
    /// The store's.
    pub async fn list(
        &self,
        call: &CallContext,
        page: &ErasurePage,
    ) -> Result<Vec<Erasure>, StoreError> {
        self.store.list_erasures(&call.space, page).await
    }

    /// A receipt.
    ///
    /// # Errors
    /// [`ErasureError::NotFound`], or the store's.
    pub async fn find(&self, call: &CallContext, id: &str) -> Result<Erasure, ErasureError> {
        let unknown = || ErasureError::not_found("erasure", id);
        let parsed: ErasureId = id.parse().map_err(|_| unknown())?;
        let found = self.store.find_erasure(&call.space, &parsed).await?;
        found.ok_or_else(unknown)
    }

    /// Continues the erasures that were interrupted, of all spaces.
    pub async fn resume(&self, now: Timestamp) {
        let unfinished = match self.store.list_unfinished_erasures().await {
            Ok(unfinished) => unfinished,
            Err(error) => {
                tracing::warn!(%error, "cannot list unfinished erasures");
                return;
            }
        };

        for erasure in unfinished {
            let under_way = self.under_way.lock();
            let is_under_way = under_way
                .unwrap_or_else(PoisonError::into_inner)
                .contains(&erasure.id);
            if is_under_way {
                continue;
            }

            let id = erasure.id.clone();
            let call = CallContext::new(erasure.space.clone(), now);
            match self.complete(Running::of(call, erasure)).await {
                Ok(_) => tracing::info!(erasure_id = %id, "an interrupted erasure was completed"),
                Err(error) => {
                    tracing::warn!(erasure_id = %id, %error, "cannot complete an erasure; will retry");
                }
            }
        }
    }

    /// Waits for erasures that are under way.
    pub async fn close(&self) {
        self.running.close();
        self.running.wait().await;
    }

    /// What a request gets whose subject is gone: if its erasure was interrupted, the rest of it.
    async fn go_on(
        &self,
        order: &ErasureOrder,
        kind: SubjectKind,
        id: &str,
    ) -> Result<Erased, ErasureError> {
        match self.unfinished(order, kind, id).await? {
            Some(running) => self.complete(running).await,
            None => Err(ErasureError::not_found(kind.into_str(), id)),
        }
    }

    /// The erasure of a subject that was interrupted.
    async fn unfinished(
        &self,
        order: &ErasureOrder,
        kind: SubjectKind,
        id: &str,
    ) -> Result<Option<Running>, StoreError> {
        let hash = kind.hash(&order.call.space, id);
        let found = self.store.find_unfinished_erasure(&order.call.space, &hash);
        Ok(found
            .await?
            .map(|erasure| Running::of(order.call.clone(), erasure)))
    }

    /// Does the rest of an erasure, even if the caller disconnects.
    async fn complete(&self, running: Running) -> Result<Erased, ErasureError> {
        let id = running.erasure.id.clone();
        let all = Arc::clone(&self.under_way);
        all.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id.clone());
        let under_way = UnderWay { all, id };
        let this = self.clone();
        let work = self.running.spawn(async move {
            let done = this.finish(running).await;
            drop(under_way);
            done
        });
        let done = work.await.unwrap_or_else(|error| {
            Err(StoreError::Broken {
                cause: error.to_string(),
            })
        });
        Ok(done?)
    }

    async fn finish(&self, mut running: Running) -> Result<Erased, StoreError> {
        match running.erasure.kind {
            SubjectKind::Source | SubjectKind::Memory => {}
            SubjectKind::Thread => self.remove_rest_of_thread(&mut running).await?,
            SubjectKind::User => self.remove_user_rows(&mut running).await?,
            SubjectKind::Space => self.remove_space_rows(&mut running).await?,
        }

        if !running.is_over {
            self.erase_holders(&mut running).await?;
        }

        running.erasure.pending = None;
        running.erasure.finished_at = Some(running.call.now);
        self.store.finish_erasure(&running.erasure).await?;
        tracing::info!(
            erasure_id = %running.erasure.id,
            kind = running.erasure.kind.into_str(),
            rows = running.erasure.rows.values().sum::<u64>(),
            "erased"
        );

        let log_truncated = self.truncate_log().await;
        Ok(Erased {
            erasure: running.erasure,
            messages: running.messages,
            memories: running.memories,
            jobs_cancelled: running.jobs_cancelled,
            log_truncated,
        })
    }

    /// Empties SQLite's write-ahead log; `Some(false)` if others still read from it. Then it is
    /// tried again until it succeeds.
    async fn truncate_log(&self) -> Option<bool> {
        for attempt in 1..=TRUNCATIONS {
            match self.store.truncate_log().await {
                Ok(Some(true)) => return Some(true),
                Ok(None) => return None,
                Ok(Some(false)) => {}
                Err(error) => tracing::warn!(%error, "cannot truncate the write-ahead log"),
            }

            if attempt < TRUNCATIONS {
                tokio::time::sleep(TRUNCATION_PAUSE).await;
            }
        }

        let store = self.store.clone();
        self.running.spawn(async move {
            while !matches!(store.truncate_log().await, Ok(None | Some(true))) {
                tokio::time::sleep(LATER).await;
            }
        });

        Some(false)
    }
}
