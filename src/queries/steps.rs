//! A query as a list of steps: find → hydrate → select → fit → answer. What was done so far is kept
//! in `Progress`, whatever happens; `mod.rs` records it.

use std::sync::Arc;
use std::time::Instant;

use memoir_text::tokens::TokenCounter;

use super::auto::AutoRecord;
use super::auto::cursor::{MAX_CARRIED, RankedCursor};
use super::auto::decide::{self, NEAREST};
use super::auto::ranking::{Limits, thousandths};
use super::auto::tiers::{self, Ranking};
use super::budget::draft::Draft;
use super::cursor::{LeafPlace, Page};
use super::finder::Finder;
use super::input::Mode;
use super::reading::{read_leaves, read_ranked};
use super::receipt::Receipt;
use super::result::QueryResult;
use super::traversal::{Path, Walk, Walker};
use super::{Events, Inner, QueryError, QuerySettings, answering, budget, memories, rendering};
use crate::base::clock::milliseconds_since;
use crate::config::query::StrategyName;
use crate::llm::Session;
use crate::model::chunk::SourceChunk;
use crate::retrieval::Item;

/// What every step of a query may use.
pub struct QueryContext<'a> {
    pub inner: &'a Inner,
    pub settings: &'a QuerySettings,
    pub session: &'a Session,
    pub finder: Finder<'a>,
    pub page: Option<Page>,
    pub events: &'a Events,
    pub counter: TokenCounter,
}

/// What a query has done so far.
pub struct Progress {
    pub result: QueryResult,
    /// The part of the receipt that the result does not contain.
    pub receipt: Receipt,
}

/// What a query knows of a chunk that it found.
#[derive(Debug, Clone, Copy, Default)]
pub struct ChunkRank {
    /// The index of its path.
    pub path: usize,
    /// The index of its source, in order of first use.
    pub source: usize,
    /// How well it fits the query, 0 to 1.
    pub relevance: f64,
}

/// A chunk that a query found.
pub type QueryItem = Item<SourceChunk, ChunkRank>;

/// What `auto` leaves for further pages.
struct Rest {
    /// Chunks that were not read, with their relevance in thousandths.
    chunks: Vec<(i64, u32)>,
    evidence: f64,
}

impl QueryContext<'_> {
    /// The tokens of the whole prompt.
    pub fn budget(&self) -> i64 {
        i64::try_from(self.settings.max_token_budget).unwrap_or(i64::MAX)
    }

    pub fn text(&self) -> Arc<str> {
        self.settings.query.as_str().into()
    }

    pub fn is_auto(&self) -> bool {
        self.settings.strategy == StrategyName::Auto
    }

    /// Where an earlier page ended, if leaves are read.
    pub fn after(&self) -> Option<&LeafPlace> {
        match &self.page {
            Some(Page::Leaves(cursor)) => Some(&cursor.after),
            _ => None,
        }
    }

    /// How many chunks earlier pages returned.
    fn returned(&self) -> i64 {
        self.page.as_ref().map_or(0, Page::returned)
    }
}

impl Progress {
    pub fn new(id: String, settings: &QuerySettings) -> Self {
        Self {
            result: QueryResult::new(id, settings),
            receipt: Receipt::default(),
        }
    }

    /// The result and its receipt, once all steps are done or one has failed.
    pub fn finish(
        self,
        session: &Session,
        begun: Instant,
        outcome: &Result<(), QueryError>,
    ) -> (QueryResult, Receipt) {
        let Self {
            mut result,
            receipt,
        } = self;
        result.account(session.calls(), &receipt.levels);
        result.elapsed_ms = milliseconds_since(begun);
        let error = outcome.as_ref().err().map(QueryError::code);
        let receipt = receipt.complete(&mut result, error);
        (result, receipt)
    }

    pub fn auto(&mut self) -> &mut AutoRecord {
        self.receipt.auto.get_or_insert_default()
    }
}

/// Runs a query: from its sources, from the memories of its user, or from both.
pub async fn run(query: &QueryContext<'_>, progress: &mut Progress) -> Result<(), QueryError> {
    let budget = query.budget();
    // The pages after the first one go on with the sources.
    if !query.settings.searched.memories() || query.page.is_some() {
        return run_sources(query, progress, budget).await;
    }

    let memories = memories::find(query, progress).await?;
    if query.settings.searched.sources() {
        match run_sources(query, progress, budget - memories.tokens).await {
            Err(QueryError::NoChunks) if memories.are_related => {}
            outcome => outcome?,
        }
    } else {
        progress.result.found = memories.are_related;
    }

    // A prompt about sources contains the memories, whatever the answer was.
    let estimate = progress.result.estimate.as_ref();
    let was_sent = estimate.is_some_and(|one| one.final_prompt_token_count.is_some());
    if query.settings.mode == Mode::Retrieve || was_sent || !memories.are_related {
        return Ok(());
    }

    progress.result.found = true;
    answering::answer_from_memories(query, progress).await
}

/// From sources alone. A named strategy reads whole leaves, `auto` ranks chunks one by one.
async fn run_sources(
    query: &QueryContext<'_>,
    progress: &mut Progress,
    budget: i64,
) -> Result<(), QueryError> {
    if query.is_auto() {
        return run_ranked(query, progress, budget).await;
    }

    let paths = match &query.page {
        Some(Page::Leaves(cursor)) => query.finder.page_paths(cursor).await?,
        _ => walk(query, progress).await?,
    };
    let items = read_leaves(query, progress, paths).await?;
    fit_and_answer(query, progress, items, budget, None).await
}

async fn run_ranked(
    query: &QueryContext<'_>,
    progress: &mut Progress,
    budget: i64,
) -> Result<(), QueryError> {
    let ranking = match &query.page {
        Some(Page::Ranked(page)) => {
            progress.result.tier = Some(page.tier.clone());
            Ranking::resumed(page)
        }
        _ => tiers::rank(query, progress, budget).await?,
    };

    let confidence = decide::confidence(ranking.evidence, ranking.agreed);
    progress.result.found = ranking.found;
    progress.result.confidence = Some(confidence.into_str().to_owned());

    let is_answerless = !ranking.found && query.settings.mode == Mode::Answer;
    let limits = Limits::of(query.settings, budget, is_answerless);
    let (read, rest) = query.finder.choose(ranking.chunks, limits);
    let items = read_ranked(query, progress, read, &ranking.carried).await?;
    if !ranking.found {
        let nearest = items.iter().take(NEAREST);
        progress.result.nearest = rendering::chunks(nearest, &progress.receipt.paths, 0);
    }

    if is_answerless || items.is_empty() {
        progress.result.found = false;
        rendering::show_used_paths(&mut progress.result, &[]);
        rendering::highlight(query, &mut progress.result);
        return Ok(());
    }

    let rest = Rest {
        chunks: rest,
        evidence: ranking.evidence,
    };
    fit_and_answer(query, progress, items, budget, Some(rest)).await
}

/// Fits the chunks to the budget, shows them, and answers from them.
async fn fit_and_answer(
    query: &QueryContext<'_>,
    progress: &mut Progress,
    items: Vec<QueryItem>,
    tokens: i64,
    rest: Option<Rest>,
) -> Result<(), QueryError> {
    let mut draft = Draft::of(query, progress, items, tokens).await?;
    if query.is_auto() || query.settings.mode == Mode::Answer || query.settings.budget_named {
        budget::fit(query, progress, &mut draft).await?;
    }

    let returned = query.returned();
    progress.result.chunks = rendering::chunks(draft.kept(), &progress.receipt.paths, returned);
    progress.result.used_chunks = rendering::used(&progress.result.chunks);
    if let Some(rest) = rest {
        offer_next_page(query, progress, &draft, rest);
    }

    rendering::highlight(query, &mut progress.result);
    let used: Vec<usize> = draft.kept().map(|item| item.scores.path).collect();
    if query.settings.mode == Mode::Answer {
        answering::answer(query, progress, &draft).await?;
    }

    if query.is_auto() {
        rendering::show_used_paths(&mut progress.result, &used);
    }

    Ok(())
}

/// Finds the leaves by a walk from the first level.
async fn walk(query: &QueryContext<'_>, progress: &mut Progress) -> Result<Vec<Path>, QueryError> {
    let walker = Walker {
        query,
        view: query.finder.view().await?,
        strategy: query.settings.strategy(),
    };

    let mut walk = Walk::default();
    let outcome = walker.run(&mut walk).await;
    for (path, reason) in &walk.dropped {
        progress.result.drop_path(path, *reason);
    }

    progress.receipt.levels = walk.levels;
    outcome.map(|()| walk.leaves)
}

/// Offers what is left of a ranking as the next page.
fn offer_next_page(query: &QueryContext<'_>, progress: &mut Progress, draft: &Draft, rest: Rest) {
    let result = &mut progress.result;
    let is_dropped = |id: i64| result.dropped_chunks.iter().any(|one| one.chunk_id == id);
    let mut left: Vec<(i64, u32)> = draft
        .items
        .iter()
        .filter(|item| !item.is_kept() && !is_dropped(item.found.id))
        .map(|item| (item.found.id, thousandths(item.scores.relevance)))
        .collect();
    left.extend(&rest.chunks);
    left.truncate(MAX_CARRIED);
    if !left.is_empty() {
        let returned = i64::try_from(result.chunks.len()).unwrap_or(i64::MAX / 2);
        let tier = result.tier.as_deref().unwrap_or_default();
        let returned = query.returned() + returned;
        let cursor = RankedCursor::new(query.settings, left, returned, (tier, rest.evidence));
        result.next_cursor = Some(cursor.encode());
    }

    progress.auto().rest = rest.chunks;
}
