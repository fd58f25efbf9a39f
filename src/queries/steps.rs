//! A query as a list of steps: find → hydrate → select → fit → answer. What was done so far is kept
//! in `Progress`, whatever happens; `mod.rs` records it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use memoir_text::tokens::TokenCounter;

use super::auto::AutoRecord;
use super::auto::cursor::{MAX_CARRIED, RankedCursor};
use super::auto::decide::{self, NEAREST};
use super::auto::ranking::{self, Limits, RankedChunk, thousandths};
use super::auto::tiers::{self, Ranking};
use super::budget::draft::Draft;
use super::cursor::{LeafCursor, LeafPlace, Page};
use super::finder::Finder;
use super::input::Mode;
use super::leaves::Leaves;
use super::receipt::Receipt;
use super::result::{LeafRead, PathError, QueryPath, QueryResult};
use super::traversal::{Path, Reason, Walk, Walker};
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

    fn after(&self) -> Option<&LeafPlace> {
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

/// Reads the chunks of leaves, and reports each leaf.
async fn read_leaves(
    query: &QueryContext<'_>,
    progress: &mut Progress,
    paths: Vec<Path>,
) -> Result<Vec<QueryItem>, QueryError> {
    let Progress { result, receipt } = progress;
    result.paths = paths.iter().map(QueryPath::from).collect();
    receipt.paths = paths;
    if receipt.paths.is_empty() {
        return Err(QueryError::NoChunks);
    }

    let after = query.after();
    let leaves = query.finder.leaf_chunks(&receipt.paths, after).await?;
    let counts = leaves.counts();
    let first = after.map_or(0, |after| after.path);
    for (place, path) in receipt.paths.iter().enumerate().skip(first) {
        let chunk_count = counts[place];
        result.paths[place].chunk_count = chunk_count;
        result.retrievals.push(LeafRead {
            category_id: path.leaf(),
            path: path.names.clone(),
            chunk_count,
            latency_ms: leaves.latencies[place],
        });

        if leaves.empty[place] {
            result.path_errors.push(PathError {
                path: path.names.clone(),
                code: "no_chunks_found".to_owned(),
                message: "the category contains no chunks that match the filters".to_owned(),
            });
            result.drop_path(path, Reason::Empty);
        } else if chunk_count == 0 && leaves.next.is_some() && query.settings.mode == Mode::Answer {
            // Earlier paths have used up the limit, so none of its chunks can be in the answer.
            result.drop_path(path, Reason::Limited);
        }
    }

    let Leaves { items, next, .. } = leaves;
    note_read(receipt, &items);
    receipt.next.clone_from(&next);
    if let Some(next) = next {
        let cursor = LeafCursor::new(query.settings, &receipt.paths, next);
        result.next_cursor = Some(cursor.encode());
        let limit = query.settings.limit;
        let message =
            format!("only the first {limit} chunks were read; use next_cursor to get the others");
        result.warn("limited", message);
    }

    if items.is_empty() {
        Err(QueryError::NoChunks)
    } else {
        Ok(items)
    }
}

/// Reads the ranked chunks, puts them in the order of their relevance, and finds their paths.
async fn read_ranked(
    query: &QueryContext<'_>,
    progress: &mut Progress,
    read: Vec<RankedChunk>,
    carried: &HashMap<i64, f64>,
) -> Result<Vec<QueryItem>, QueryError> {
    let begun = Instant::now();
    let found = query.finder.hydrate(read).await?;
    progress.auto().read = found.iter().map(|item| item.scores).collect();

    let texts: Vec<(RankedChunk, &str)> = found
        .iter()
        .map(|item| (item.scores, &*item.found.text))
        .collect();
    let relevances = if carried.is_empty() {
        ranking::relevances(&query.settings.query, &texts)
    } else {
        let relevance = |(ranked, _): &(RankedChunk, &str)| carried.get(&ranked.chunk_id).copied();
        texts
            .iter()
            .map(|text| relevance(text).unwrap_or(0.0))
            .collect()
    };
    let latency_ms = milliseconds_since(begun);

    // Stable: of equals, the one found first.
    let mut ranked: Vec<(Item<SourceChunk, RankedChunk>, f64)> =
        found.into_iter().zip(relevances).collect();
    ranked.sort_by(|(_, one), (_, other)| other.total_cmp(one));

    // The leaves in the order of their best chunks.
    let mut leaves: Vec<i64> = Vec::new();
    let mut items: Vec<QueryItem> = Vec::with_capacity(ranked.len());
    for (item, relevance) in ranked {
        let leaf = item.scores.leaf;
        let path = leaves.iter().position(|one| *one == leaf);
        let path = path.unwrap_or_else(|| {
            leaves.push(leaf);
            leaves.len() - 1
        });
        items.push(item.scored(|_, _| ChunkRank {
            path,
            relevance,
            ..ChunkRank::default()
        }));
    }

    let known = query.finder.leaf_paths(&leaves).await?;
    let count = i64::try_from(leaves.len()).unwrap_or(i64::MAX);
    let path = |(place, leaf): (i64, &i64)| {
        let (ids, names) = known.get(leaf).cloned().unwrap_or_default();
        Path {
            ranks: vec![(count - place, count); ids.len()],
            ids,
            names,
            chunk_ids: Vec::new(),
        }
    };

    let Progress { result, receipt } = progress;
    receipt.paths = (0..).zip(&leaves).map(path).collect();
    result.paths = receipt.paths.iter().map(QueryPath::from).collect();
    note_read(receipt, &items);
    let mut latency_ms = Some(latency_ms);
    for (shown, path) in result.paths.iter_mut().zip(&receipt.paths) {
        shown.chunk_count = i64::try_from(path.chunk_ids.len()).unwrap_or(i64::MAX);
        result.retrievals.push(LeafRead {
            category_id: path.leaf(),
            path: path.names.clone(),
            chunk_count: shown.chunk_count,
            latency_ms: latency_ms.take().unwrap_or(0.0),
        });
    }

    Ok(items)
}

/// Notes which chunks were read from which path.
fn note_read(receipt: &mut Receipt, items: &[QueryItem]) {
    for item in items {
        receipt.paths[item.scores.path]
            .chunk_ids
            .push(item.found.id);
    }
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
