//! Queries: finds chunks, fits them to a budget, answers from them, and records how.
//!
//! `steps` is the list of steps: find, hydrate, select, fit, answer. A `finder` reads the store or a
//! record; it finds by a walk (`traversal`, `leaves`), by the tiers of `auto`, or where a `cursor`
//! ended. `reading` reads the chunks, `budget` fits the prompt, `answering` sends it, `rendering` shows
//! the chunks. `input` is what a caller sends, `result` what it gets, `receipt` what is stored (by
//! `receipts`), `replay` proves it, `estimate` computes upper bounds in advance, `job` runs it in the
//! background.

mod answering;
mod auto;
mod budget;
mod citations;
mod cursor;
mod error;
mod estimate;
mod events;
mod finder;
mod hints;
pub mod input;
mod job;
mod leaves;
mod memories;
mod reading;
mod receipt;
mod receipts;
mod rendering;
mod replay;
mod result;
mod reuse;
mod sources;
mod steps;
mod strategy;
mod traversal;
mod visible_categories;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::base::ids::{QueryId, Space};
use crate::base::metrics as names;
use crate::categories::Taxonomy;
use crate::categories::options::OptionCache;
use crate::categories::samples::SampleCache;
use crate::config;
use crate::config::llm::Caps;
use crate::llm::{Llm, Session};
use crate::model::call::CallContext;
use crate::model::llm_call::LlmCall;
use crate::model::scope::QueryScope;
use crate::retrieval::Retrieval;
use crate::search::Search;
use crate::store::Store;
use memoir_text::tokens::TokenCounter;

pub use auto::Tier;
pub use citations::Citation;
pub use error::{Failed, QueryError};
pub use estimate::{Bound, Estimates, LevelBound};
pub use events::{Events, QueryEvent};
pub use input::{QueryInput, QuerySettings};
pub use job::{KIND, QueryWork};
pub use receipt::{Receipt, SummaryRecord, Totals};
pub use receipts::{Receipts, RecordedQuery};
pub use replay::{Differences, Replay, ReplayInput, ReplayMode};
pub use result::{
    DroppedChunk, DroppedPath, Highlight, LeafRead, LevelRank, PathError, PromptEstimate,
    QueryCall, QueryChunk, QueryMemory, QueryPath, QueryResult, QueryWarning, Summarization,
    SummarizedChunk, SummaryPart, UsedChunk,
};
pub use traversal::{Choice, Level, Offer, Path};

use auto::result_cache::RecentResults;
use cursor::Page;
use finder::{Finder, Live};
use receipts::OutputGuard;
use reuse::Reuse;
use steps::{Progress, QueryContext};
use traversal::Hierarchy;
use visible_categories::VisibleCache;

/// Entry point of queries; cheap to clone.
#[derive(Clone)]
pub struct Queries {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    llm: Llm,
    search: Search,
    retrieval: Retrieval,
    recent: RecentResults,
    samples: SampleCache,
    options: OptionCache,
    visible: VisibleCache,
    settings: config::Query,
    chunk_min_tokens: u64,
    depth: i64,
    receipts: Receipts,
}

/// How a query was started.
#[derive(Debug, Clone, Copy)]
struct Start {
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
            receipts: Receipts::new(store.clone(), llm.clone(), config.audit),
            retrieval: Retrieval::new(store.clone(), search.clone()),
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
        let query = input.resolve(&self.inner.settings, self.inner.chunk_min_tokens)?;
        for stage in ["select", "summarize", "answer"] {
            self.inner.llm.target_name(stage, query.model.as_deref())?;
        }

        Ok(query)
    }

    /// The receipts of queries.
    pub fn receipts(&self) -> &Receipts {
        &self.inner.receipts
    }

    /// Runs a query.
    ///
    /// # Errors
    /// Every way in which a query can fail, with what was done for it.
    pub async fn answer(
        &self,
        call: &CallContext,
        settings: &QuerySettings,
    ) -> Result<QueryResult, Failed> {
        let events = Events::default();
        self.run(QueryId::new(), call, settings, None, &events)
            .await
    }

    /// Runs a query under a given id, and sends every step while it happens.
    ///
    /// # Errors
    /// As [`Queries::answer`].
    pub async fn answer_streaming(
        &self,
        id: QueryId,
        call: &CallContext,
        settings: &QuerySettings,
        events: &Events,
    ) -> Result<QueryResult, Failed> {
        self.run(id, call, settings, None, events).await
    }

    /// Runs a query. A job passes the calls of its earlier attempts, which are not repeated.
    async fn run(
        &self,
        id: QueryId,
        call: &CallContext,
        settings: &QuerySettings,
        earlier_calls: Option<Vec<LlmCall>>,
        events: &Events,
    ) -> Result<QueryResult, Failed> {
        let (inner, space) = (&*self.inner, &call.space);
        let start = Start {
            begun: Instant::now(),
            of_job: earlier_calls.is_some(),
            // Before anything is read, so that what is deleted from now on is noticed.
            erasures: inner.store.count_erasures(space).await?,
        };
        let page = Page::of(settings, inner.depth())?;
        let reach = self.check_bound(call, settings).await?;
        let reuse = reuse::check(inner, call, settings).await?;
        if let Some(Reuse {
            earlier: Some(earlier),
            ..
        }) = reuse
        {
            let recalled = reuse::recall(inner, call, settings, id, *earlier, start).await;
            reuse::send(&recalled, events);
            return Ok(recalled);
        }

        let session = Session::of_query(call.clone(), id.to_string(), inner.caps(settings))
            .with_model(settings.model.clone())
            .deterministic(settings.deterministic)
            .resuming(earlier_calls.unwrap_or_default());

        let mut guard = OutputGuard {
            receipts: inner.receipts.clone(),
            space: space.clone(),
            id: id.clone(),
            // An interrupted job goes on with its calls.
            has_receipt: !inner.receipts.are_stored() || start.of_job,
        };

        let query = QueryContext {
            inner,
            settings,
            session: &session,
            finder: Finder::Live(Live {
                inner,
                space,
                settings,
                session: &session,
                scope: settings.scope(),
                reach,
            }),
            page,
            events,
            counter: inner.counter(settings),
        };

        let mut progress = Progress::new(id.to_string(), settings);
        let limit = Duration::from_secs(settings.timeout_s);
        let outcome = tokio::time::timeout(limit, steps::run(&query, &mut progress)).await;
        let outcome = outcome.unwrap_or(Err(QueryError::Timeout {
            seconds: settings.timeout_s,
        }));

        let (result, receipt) = progress.finish(&session, start.begun, &outcome);
        count(&result, outcome.as_ref().err());
        guard.has_receipt = true;
        let receipts = &inner.receipts;
        receipts
            .store(call, settings, id, &result, &receipt, start)
            .await;
        if let Err(error) = outcome {
            return Err(Failed {
                error,
                result: Some(Box::new(result)),
            });
        }

        memories::count_uses(inner, call, &result).await;
        if let Some(Reuse { writes, .. }) = reuse {
            inner
                .recent
                .store(space, settings, writes, call.now, &result);
        }

        Ok(result)
    }
}

impl Inner {
    /// The number of levels.
    fn depth(&self) -> usize {
        usize::try_from(self.depth).unwrap_or(1).max(1)
    }

    /// The part of the hierarchy that a query may see.
    async fn hierarchy(&self, space: &Space, scope: &QueryScope) -> Result<Hierarchy, QueryError> {
        if let Some(part) = self.visible.of(space, scope).await? {
            return Ok(Hierarchy::visible(&part));
        }

        let whole = || Hierarchy::Stored {
            store: self.store.clone(),
            space: space.clone(),
        };

        let cached = self.options.of(space).await?;
        Ok(cached.map_or_else(whole, Hierarchy::Cached))
    }

    /// The token counter of the answering model.
    fn counter(&self, settings: &QuerySettings) -> TokenCounter {
        TokenCounter::for_model(
            self.llm
                .target_name("answer", settings.model.as_deref())
                .ok()
                .as_deref(),
        )
    }

    /// The lower of the settings' caps and the query's own.
    fn caps(&self, settings: &QuerySettings) -> Caps {
        let caps = self.llm.query_caps();
        let least = |one: u64, other: u64| {
            if one == 0 || other == 0 {
                one.max(other)
            } else {
                one.min(other)
            }
        };

        let usd = match (caps.usd, settings.max_cost_usd) {
            (usd, Some(own)) if usd > 0.0 => usd.min(own),
            (usd, own) => own.unwrap_or(usd),
        };

        Caps {
            calls: least(caps.calls, settings.max_calls.unwrap_or(0)),
            tokens: caps.tokens,
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
