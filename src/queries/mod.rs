//! Queries: a model walks the hierarchy, the chunks are fitted to a budget, a model answers from
//! them, and a receipt is stored.
//!
//! `input` completes and checks a request; `run` takes one query through its steps: `traversal`
//! chooses the paths, `candidates` reads their chunks, `budget` makes them fit. `result` is what
//! the caller gets, `receipt` what is stored, `replay` proves it, `estimate` computes upper bounds
//! in advance, `job` runs it in the background.

mod auto;
mod budget;
mod candidates;
mod citations;
mod error;
mod estimate;
mod events;
pub mod input;
mod job;
mod page;
mod recalling;
mod receipt;
mod replay;
mod result;
mod run;
mod strategy;
mod traversal;
mod visible;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::task::TaskTracker;

use crate::base::clock::Timestamp;
use crate::base::ids::{QueryId, Space};
use crate::base::metrics as names;
use crate::base::text::char_count;
use crate::base::tokens::TokenCounter;
use crate::categories::Taxonomy;
use crate::categories::options::OptionCache;
use crate::categories::samples::SampleCache;
use crate::config;
use crate::config::llm::Caps;
use crate::config::query::StrategyName;
use crate::llm::{Llm, Session};
use crate::model::llm_call::{KeyBudget, LlmCall, Payer};
use crate::model::query::{NewQuery, QueryScope, StoredQuery};
use crate::search::Search;
use crate::search::headings::Headings;
use crate::store::{QueryPage, Store};

pub use auto::Tier;
pub use citations::Citation;
pub use error::{Failed, QueryError};
pub use estimate::{Bound, Estimates, LevelBound};
pub use events::{Events, QueryEvent};
pub use input::{QueryInput, QuerySettings};
pub use job::{KIND, QueryWork};
pub use receipt::{PathRecord, Receipt, SummaryRecord, Totals};
pub use replay::{Replay, ReplayInput};
pub use result::{
    DroppedChunk, DroppedPath, Highlight, LevelRank, PathError, PromptEstimate, QueryCall,
    QueryChunk, QueryPath, QueryResult, QueryWarning, Retrieval, Summarization, SummarizedChunk,
    SummaryPart, UsedChunk,
};
pub use traversal::{Choice, Level, Offer};

use auto::page::RankedCursor;
use auto::recall::RecentResults;
use candidates::{LeafReader, milliseconds};
use page::Cursor;
use recalling::Reuse;
use receipt::RunRecord;
use run::{Known, QueryRun};
use traversal::Hierarchy;
use visible::VisibleCache;

/// How long an answer waits for its receipt to be written. A busy database does not delay it any
/// longer.
const RECEIPT_PATIENCE: Duration = Duration::from_millis(5);
/// How long a reader waits for receipts that are being written.
const LATE_RECEIPT: Duration = Duration::from_millis(200);
/// How often the reader checks meanwhile.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Entry point of queries; cheap to clone.
#[derive(Clone)]
pub struct Queries {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    llm: Llm,
    search: Search,
    recent: RecentResults,
    headings: Headings,
    samples: SampleCache,
    options: OptionCache,
    visible: VisibleCache,
    settings: config::Query,
    chunk_min_tokens: u64,
    depth: i64,
    audit: config::Audit,
    /// Receipts that are being written.
    writes: TaskTracker,
}

/// The caller, the time and the trace.
#[derive(Debug, Clone)]
pub struct Who {
    pub space: Space,
    pub now: Timestamp,
    pub traceparent: Option<String>,
    /// The API key that pays.
    pub budget: Option<KeyBudget>,
}

/// A receipt with its calls.
#[derive(Debug, Clone)]
pub struct Remembered {
    pub stored: StoredQuery,
    pub receipt: Receipt,
    pub calls: Vec<LlmCall>,
}

impl Queries {
    #[must_use]
    pub fn new(
        config: &config::Config,
        store: Store,
        llm: Llm,
        search: Search,
        samples: SampleCache,
    ) -> Self {
        let depth = Taxonomy::new(&config.taxonomy).depth();
        let inner = Inner {
            headings: search.headings(),
            search,
            recent: RecentResults::default(),
            samples,
            options: OptionCache::new(store.clone()),
            visible: VisibleCache::new(store.clone(), depth),
            store,
            llm,
            settings: config.query.clone(),
            chunk_min_tokens: config.ingestion.chunk_min_tokens,
            depth,
            audit: config.audit,
            writes: TaskTracker::new(),
        };

        Self {
            inner: Arc::new(inner),
        }
    }

    /// Completes a request from the settings and checks everything that needs no database.
    ///
    /// # Errors
    /// [`QueryError::Invalid`], or the model is unknown.
    pub fn resolve(&self, wish: QueryInput) -> Result<QuerySettings, QueryError> {
        let ask = wish.resolve(&self.inner.settings, self.inner.chunk_min_tokens)?;
        for stage in ["select", "summarize", "answer"] {
            self.inner.llm.target_name(stage, ask.model.as_deref())?;
        }

        Ok(ask)
    }

    /// Whether queries are recorded.
    pub fn keeps_records(&self) -> bool {
        self.inner.audit.persist
    }

    /// Runs a query through all its steps.
    ///
    /// # Errors
    /// Every way in which a query can fail, with what was done for it.
    pub async fn answer(&self, who: &Who, ask: &QuerySettings) -> Result<QueryResult, Failed> {
        let events = Events::default();
        self.answer_as(QueryId::new(), who, ask, None, &events)
            .await
    }

    /// The same under a given id, and tells every step while it happens.
    ///
    /// # Errors
    /// As [`Queries::answer`].
    pub async fn answer_aloud(
        &self,
        id: QueryId,
        who: &Who,
        ask: &QuerySettings,
        events: &Events,
    ) -> Result<QueryResult, Failed> {
        self.answer_as(id, who, ask, None, events).await
    }

    /// The same for a job under its own id, resuming with the answers of an earlier attempt.
    async fn answer_as(
        &self,
        id: QueryId,
        who: &Who,
        ask: &QuerySettings,
        told: Option<Vec<LlmCall>>,
        events: &Events,
    ) -> Result<QueryResult, Failed> {
        let begun = Instant::now();
        let inner = &*self.inner;
        let of_job = told.is_some();
        let (cursor, page) = inner.cursors(ask)?;
        let reach = self.check_bound(&who.space, ask).await?;
        let reuse = self.reuse(who, ask).await?;
        if let Some(Reuse {
            earlier: Some(earlier),
            ..
        }) = reuse
        {
            let recalled = self.recall(who, ask, id, *earlier, (begun, of_job)).await;
            recalled.tell(events);
            return Ok(recalled);
        }

        let session = Session::of_query(who.space.clone(), id.to_string(), inner.caps(ask))
            .with_model(ask.model.clone())
            .deterministic(ask.deterministic)
            .traced_by(who.traceparent.clone())
            .within(who.budget.clone())
            .resuming(told.unwrap_or_default());

        let _forgotten = (!inner.audit.persist).then(|| Forget {
            queries: self.clone(),
            space: who.space.clone(),
            id: id.clone(),
        });

        let scope = ask.scope();
        let (map, paths) = match &cursor {
            Some(cursor) => (None, self.paths_of(&who.space, cursor).await?),
            None if ask.strategy == StrategyName::Auto => (None, Vec::new()),
            None => (Some(inner.map(&who.space, &scope).await?), Vec::new()),
        };

        let mut run = QueryRun {
            inner,
            ask,
            session: &session,
            leaf_reader: LeafReader::Stored {
                store: inner.store.clone(),
                space: who.space.clone(),
                scope,
            },
            map,
            known: Known {
                paths,
                page,
                reach,
                ..Known::default()
            },
            cursor,
            counter: inner.counter(ask),
            events,
            result: QueryResult::new(id.to_string(), ask),
            record: RunRecord::default(),
        };

        let limit = Duration::from_secs(ask.timeout_s);
        let outcome = tokio::time::timeout(limit, run.run()).await;
        let outcome = outcome.unwrap_or(Err(QueryError::Timeout {
            seconds: ask.timeout_s,
        }));
        let QueryRun {
            mut result, record, ..
        } = run;
        result.account(session.calls(), &record.levels);
        result.elapsed_ms = milliseconds(begun);
        count(&result, outcome.as_ref().err());
        let receipt = Receipt::new(
            &result,
            record,
            outcome.as_ref().err().map(QueryError::code),
        );

        self.keep(who, ask, id, &result, &receipt, of_job).await;
        match outcome {
            Ok(()) => {
                if let Some(reuse) = reuse {
                    inner
                        .recent
                        .keep(&who.space, ask, reuse.writes, who.now, &result);
                }

                Ok(result)
            }
            Err(error) => Err(Failed {
                error,
                result: Some(Box::new(result)),
            }),
        }
    }

    /// The paths that a cursor names, with their names.
    async fn paths_of(
        &self,
        space: &Space,
        cursor: &Cursor,
    ) -> Result<Vec<traversal::Path>, QueryError> {
        let names = self
            .inner
            .store
            .find_category_paths(space, &cursor.leaves())
            .await?;

        let name = |leaf| {
            names
                .get(&leaf)
                .map(|path| path.iter().map(|(_, name)| name.clone()).collect())
        };

        Ok(cursor.paths(name))
    }

    /// Writes the receipt, unless recording is disabled.
    async fn keep(
        &self,
        who: &Who,
        ask: &QuerySettings,
        id: QueryId,
        result: &QueryResult,
        receipt: &Receipt,
        of_job: bool,
    ) {
        if !self.inner.audit.persist {
            return;
        }

        let stored = NewQuery {
            id,
            user_id: ask.user_id.clone().unwrap_or_default(),
            request: serde_json::to_string(ask).unwrap_or_default(),
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
            created_at: who.now,
        };

        let (store, space) = (self.inner.store.clone(), who.space.clone());
        let writing = self.inner.writes.spawn(async move {
            if let Err(error) = store.add_query(&space, &stored, of_job).await {
                tracing::warn!(%error, "cannot store the receipt of a query");
            }
        });

        let _ = tokio::time::timeout(RECEIPT_PATIENCE, writing).await;
    }

    /// Deletes receipts older than `audit.keep_days`.
    ///
    /// # Errors
    /// The store's.
    pub async fn prune(&self, now: Timestamp) -> Result<u64, QueryError> {
        let days = i64::try_from(self.inner.audit.keep_days).unwrap_or(i64::MAX);
        let before = now.minus_seconds(days.saturating_mul(24 * 60 * 60));
        let mut removed = 0;

        loop {
            let some = if days == 0 {
                0
            } else {
                self.inner.store.remove_old_queries(before).await?
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
    pub async fn find(&self, space: &Space, id: &str) -> Result<Remembered, QueryError> {
        let unknown = || QueryError::NotFound(id.chars().take(64).collect());
        let parsed: QueryId = id.parse().map_err(|_| unknown())?;

        // The calls are written asynchronously.
        self.inner.llm.flush().await?;
        let store = &self.inner.store;
        let begun = Instant::now();
        let found = loop {
            // Checked before the lookup, so that what is written in between is found.
            let late = !self.inner.writes.is_empty() && begun.elapsed() < LATE_RECEIPT;
            let found = store.find_query(space, &parsed).await?;
            if found.is_some() || !late {
                break found;
            }

            tokio::time::sleep(LOOK_AGAIN).await;
        };

        let stored = found.ok_or_else(unknown)?;
        let calls = store
            .list_calls_of(space, &Payer::Query(parsed.to_string()))
            .await?;
        Ok(Remembered {
            receipt: Receipt::of(&stored),
            stored,
            calls,
        })
    }

    /// A page of receipts, newest first.
    pub async fn list(
        &self,
        space: &Space,
        page: &QueryPage,
    ) -> Result<Vec<StoredQuery>, QueryError> {
        let begun = Instant::now();
        while !self.inner.writes.is_empty() && begun.elapsed() < LATE_RECEIPT {
            tokio::time::sleep(LOOK_AGAIN).await;
        }

        Ok(self.inner.store.list_queries(space, page).await?)
    }

    /// Waits for receipts that are being written.
    pub async fn close(&self) {
        self.inner.writes.close();
        self.inner.writes.wait().await;
    }
}

impl Inner {
    /// Where a query with filters finds its options.
    pub(super) async fn map(
        &self,
        space: &Space,
        scope: &QueryScope,
    ) -> Result<Hierarchy, QueryError> {
        if let Some(part) = self.visible.of(space, scope).await? {
            return Ok(Hierarchy::part(&part));
        }

        let whole = || Hierarchy::Whole {
            store: self.store.clone(),
            space: space.clone(),
        };

        Ok(self
            .options
            .of(space)
            .await?
            .map_or_else(whole, Hierarchy::Known))
    }

    /// The cursor of a query: of a walk, or of a ranking.
    fn cursors(
        &self,
        ask: &QuerySettings,
    ) -> Result<(Option<Cursor>, Option<RankedCursor>), QueryError> {
        let Some(text) = &ask.cursor else {
            return Ok((None, None));
        };

        if ask.strategy == StrategyName::Auto {
            return Ok((None, Some(RankedCursor::decode(text, ask)?)));
        }

        let depth = usize::try_from(self.depth).unwrap_or(0);
        Ok((Some(Cursor::decode(text, ask, depth)?), None))
    }

    /// The token counter of the answering model.
    fn counter(&self, ask: &QuerySettings) -> TokenCounter {
        TokenCounter::for_model(
            self.llm
                .target_name("answer", ask.model.as_deref())
                .ok()
                .as_deref(),
        )
    }

    /// The lower of the settings' caps and the query's own.
    fn caps(&self, ask: &QuerySettings) -> Caps {
        let settings = self.llm.query_caps();
        let least = |one: u64, other: u64| {
            if one == 0 || other == 0 {
                one.max(other)
            } else {
                one.min(other)
            }
        };

        let usd = match (settings.usd, ask.max_cost_usd) {
            (usd, Some(own)) if usd > 0.0 => usd.min(own),
            (usd, own) => own.unwrap_or(usd),
        };

        Caps {
            calls: least(settings.calls, ask.max_calls.unwrap_or(0)),
            tokens: settings.tokens,
            usd,
        }
    }
}

fn count(result: &QueryResult, error: Option<&QueryError>) {
    let (strategy, outcome) = (
        result.strategy.clone(),
        error.map_or("succeeded", QueryError::code),
    );

    metrics::counter!(names::QUERIES_FINISHED_TOTAL, "strategy" => strategy.clone(), "outcome" => outcome).increment(1);
    let asking: f64 = result.responses.iter().map(|call| call.latency_ms).sum();
    let own = (result.elapsed_ms - asking).max(0.0) / 1000.0;
    metrics::histogram!(names::QUERY_OWN_DURATION_SECONDS, "strategy" => strategy).record(own);
}

/// Where recording is disabled: deletes the calls of a query when it ends, however it ends.
struct Forget {
    queries: Queries,
    space: Space,
    id: QueryId,
}

impl Drop for Forget {
    fn drop(&mut self) {
        let (queries, space, id) = (self.queries.clone(), self.space.clone(), self.id.clone());
        self.queries.inner.writes.spawn(async move {
            let inner = &queries.inner;
            let written = inner.llm.flush().await;
            if written.is_err() || inner.store.remove_query_calls(&space, &id).await.is_err() {
                tracing::warn!("cannot delete the recorded calls of a query");
            }
        });
    }
}
