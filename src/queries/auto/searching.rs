//! The first tier of `auto`: a search, and the filed chunks under its results. It also tells where
//! the embedded model should walk to.

use std::collections::HashSet;

use memoir_index::{Kind, rank};

use super::decide::{self, Reach};
use super::ranking::RankedChunk;
use crate::config::query::PromptLimiting;
use crate::llm::Session;
use crate::queries::QueryError;
use crate::queries::finder::Live;
use crate::search::{FoundEntries, SearchError};

/// Maximum results of the search that are ranked.
const MAX_RESULTS: usize = 500;
/// How many of them are mapped to filed chunks first; then as many again, until the budget can be
/// filled.
const FIRST_MAPPED: usize = 64;
/// For so many pages chunks are ranked, if the search finds enough.
const PAGES: i64 = 4;
/// How many times the budget is read, so that summaries have something to shorten.
pub const SUMMARIZED_BUDGETS: i64 = 4;
/// A chunk takes at least about so many tokens of a prompt, with its number and its path: more
/// results than fit need no ranking.
const MIN_TOKENS: i64 = 32;

/// What the search found, and what decides the next tier.
pub struct SearchOutcome {
    /// In the order of the search.
    pub chunks: Vec<RankedChunk>,
    /// How many chunks it found.
    pub count: usize,
    /// How well the best one fits the query, 0 to 1.
    pub evidence: f64,
    /// Whether a language model selects categories.
    pub language_model: bool,
    /// The last tier that the query may use.
    pub reach: Reach,
    /// Why only keywords were searched, if that is so.
    pub warning: Option<String>,
}

/// Searches for chunks that fill a budget of tokens.
pub async fn search(live: &Live<'_>, budget: i64) -> Result<SearchOutcome, QueryError> {
    let fitting = usize::try_from(budget / MIN_TOKENS).unwrap_or(MAX_RESULTS);
    let limit = usize::try_from(live.settings.limit).unwrap_or(MAX_RESULTS);
    let k = limit.min(fitting).clamp(50, MAX_RESULTS);
    let mut warning = None;
    let found = match rank_chunks(live, Kind::Hybrid, k).await {
        // Words need no embedding model.
        Err(SearchError::Llm(error)) => {
            warning = Some(format!("only keywords were searched: {error}"));
            rank_chunks(live, Kind::Keyword, k).await?
        }
        found => found?,
    };

    let covered = rank::covered(&found.hits);
    let evidence = decide::limited(rank::evidence(&found.hits), covered);
    let evidence = decide::identified(evidence, found.identified);
    // A small one chooses worse than the search.
    let language_model = live.language_model_selects() && !live.selects_from_few();
    // A model that picks categories may raise any of the results.
    let may_pick = evidence < decide::ENOUGH && language_model;
    let enough = if may_pick {
        i64::MAX
    } else {
        enough(live, budget)
    };
    let chunks = filed_chunks(live, &found, enough).await?;
    Ok(SearchOutcome {
        count: chunks.len(),
        chunks,
        evidence,
        language_model,
        reach: live.reach,
        warning,
    })
}

/// How many tokens of chunks are enough to rank.
fn enough(live: &Live<'_>, budget: i64) -> i64 {
    if live.settings.per_path_limit > 0 {
        // How many of them count is known only once their leaves are.
        return i64::MAX;
    }

    let of_page = match live.settings.prompt_limiting_strategy {
        PromptLimiting::Prune => 1,
        PromptLimiting::Summarize => SUMMARIZED_BUDGETS,
    };
    budget.saturating_mul(PAGES * of_page)
}

/// Where a search finds the query, for the embedded model, which selects categories. A named
/// strategy makes no other calls than its own.
pub async fn search_here(live: &Live<'_>, k: usize) -> Result<Vec<RankedChunk>, QueryError> {
    let model = live.inner.search.model_of(live.space).await?;
    let kind = if live.inner.llm.embeds_here(&model) {
        Kind::Hybrid
    } else {
        Kind::Keyword
    };

    let found = rank_chunks(live, kind, k).await?;
    filed_chunks(live, &found, i64::MAX).await
}

async fn rank_chunks(live: &Live<'_>, kind: Kind, k: usize) -> Result<FoundEntries, SearchError> {
    // Not the query's own session: a replay searches no more, so it must not expect this call.
    let session = Session::of_caller(live.session.call().unpaid());
    let asked = (live.settings.query.as_str(), kind, k);
    let search = &live.inner.search;
    search.rank_chunks(&session, asked, &live.scope).await
}

/// The filed chunks that share text with the best results of a search, as many as are enough.
async fn filed_chunks(
    live: &Live<'_>,
    found: &FoundEntries,
    enough: i64,
) -> Result<Vec<RankedChunk>, QueryError> {
    let (store, cuts) = (&live.inner.store, live.inner.search.cuts());
    let mut seen = HashSet::new();
    let mut ranked = Vec::new();
    let mut tokens = 0;
    let (mut begin, mut end) = (0, found.hits.len().min(FIRST_MAPPED));
    while begin < end {
        let hits = &found.hits[begin..end];
        let ids: Vec<i64> = hits.iter().map(|hit| hit.owner.id).collect();
        let filed = cuts
            .filed(store, live.space, &ids, live.scope.as_of)
            .await?;
        for (number, hit) in (begin..).zip(hits) {
            let shared = filed.get(&hit.owner.id).into_iter().flatten();
            for range in shared.filter(|range| seen.insert(range.chunk_id)) {
                tokens += range.token_count;
                ranked.push(RankedChunk {
                    chunk_id: range.chunk_id,
                    leaf: range.leaf,
                    result: u32::try_from(number).unwrap_or(u32::MAX),
                    search: hit.score,
                    pick: 0.0,
                    tokens: range.token_count,
                });
            }
        }

        if tokens >= enough {
            break;
        }

        (begin, end) = (end, found.hits.len().min(end * 2));
    }

    Ok(ranked)
}
