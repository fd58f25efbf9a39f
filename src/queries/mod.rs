//! Queries: a model walks the hierarchy, the chunks are fitted to a budget, a model answers from
//! them, and a receipt is stored.
//!
//! `input` completes and checks a request; `run` takes one query through its steps: `traversal`
//! chooses the paths, `candidates` reads their chunks, `budget` makes them fit. `result` is what
//! the caller gets, `receipt` what is stored (by `receipts`), `replay` proves it, `estimate` computes upper bounds
//! in advance, `job` runs it in the background.

mod auto;
mod budget;
mod candidates;
mod citations;
mod contents;
mod error;
mod estimate;
mod events;
pub mod input;
mod job;
mod page;
mod recalling;
mod receipt;
mod receipts;
mod replay;
mod result;
mod run;
mod strategy;
mod traversal;
mod visible;

use std::sync::Arc;
use std::time::{Duration, Instant};

use memoir_text::tokens::TokenCounter;
use tokio_util::task::TaskTracker;

use crate::base::clock::Timestamp;
use crate::base::ids::{QueryId, Space};
use crate::base::metrics as names;
use crate::categories::Taxonomy;
use crate::categories::options::OptionCache;
use crate::categories::samples::SampleCache;
use crate::config;
use crate::config::llm::Caps;
use crate::config::query::StrategyName;
use crate::llm::{Llm, Session};
use crate::model::llm_call::{KeyBudget, LlmCall};
use crate::model::query::QueryScope;
use crate::search::Search;
use crate::store::Store;

pub use auto::Tier;
pub use citations::Citation;
pub use error::{Failed, QueryError};
pub use estimate::{Bound, Estimates, LevelBound};
pub use events::{Events, QueryEvent};
pub use input::{QueryInput, QuerySettings};
pub use job::{KIND, QueryWork};
pub use receipt::{PathRecord, Receipt, SummaryRecord, Totals};
pub use receipts::Remembered;
pub use replay::{Differences, Replay, ReplayInput, ReplayMode};
pub use result::{
    DroppedChunk, DroppedPath, Highlight, LevelRank, PathError, PromptEstimate, QueryCall,
    QueryChunk, QueryMemory, QueryPath, QueryResult, QueryWarning, Retrieval, Summarization,
    SummarizedChunk, SummaryPart, UsedChunk,
};
pub use traversal::{Choice, Level, Offer};

use auto::layouts::Layouts;
use auto::page::RankedCursor;
use auto::result_cache::RecentResults;
use candidates::{LeafReader, milliseconds};
use page::Cursor;
use recalling::Reuse;
use receipt::RunRecord;
use receipts::Forget;
use run::{Known, QueryRun};
use traversal::Hierarchy;
use visible::VisibleCache;

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
    layouts: Layouts,
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

/// How a query was started.
#[derive(Debug, Clone, Copy)]
struct Course {
    begun: Instant,
    of_job: bool,
    /// How many erasures the space had had.
    erasures: i64,
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
            search,
            recent: RecentResults::default(),
            layouts: Layouts::default(),
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
    pub fn resolve(&self, input: QueryInput) -> Result<QuerySettings, QueryError> {
        let ask = input.resolve(&self.inner.settings, self.inner.chunk_min_tokens)?;
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
        let inner = &*self.inner;
        let course = Course {
            begun: Instant::now(),
            of_job: told.is_some(),
            // Before anything is read, so that what is deleted from now on is noticed.
            erasures: inner.store.count_erasures(&who.space).await?,
        };
        let (cursor, page) = inner.cursors(ask)?;
        let reach = self.check_bound(&who.space, ask).await?;
        let reuse = self.reuse(who, ask).await?;
        if let Some(Reuse {
            earlier: Some(earlier),
            ..
        }) = reuse
        {
            let recalled = self.recall(who, ask, id, *earlier, course).await;
            recalled.tell(events);
            return Ok(recalled);
        }

        let session = Session::of_query(who.space.clone(), id.to_string(), inner.caps(ask))
            .with_model(ask.model.clone())
            .deterministic(ask.deterministic)
            .traced_by(who.traceparent.clone())
            .within(who.budget.clone())
            .resuming(told.unwrap_or_default());

        let mut forget = Forget {
            queries: self.clone(),
            space: who.space.clone(),
            id: id.clone(),
            // An interrupted job goes on with its calls.
            has_receipt: !inner.audit.persist || course.of_job,
        };

        let scope = ask.scope();
        let (map, paths) = match &cursor {
            Some(cursor) => (None, self.paths_of(&who.space, cursor).await?),
            None if ask.strategy == StrategyName::Auto || !ask.searched.sources() => {
                (None, Vec::new())
            }
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
            reserved: 0,
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
        result.elapsed_ms = milliseconds(course.begun);
        count(&result, outcome.as_ref().err());
        let receipt = Receipt::new(
            &result,
            record,
            outcome.as_ref().err().map(QueryError::code),
        );

        forget.has_receipt = true;
        self.keep(who, ask, id, &result, &receipt, course).await;
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
