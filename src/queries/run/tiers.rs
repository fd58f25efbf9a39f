//! The tiers of `auto`: searches, decides whether that is enough, and reports what each tier found.

use std::collections::HashMap;

use super::QueryRun;
use super::auto::Ranking;
use super::placing::SUMMARIZED_BUDGETS;
use crate::base::ids::Space;
use crate::config::query::PromptLimiting;
use crate::llm::Session;
use crate::queries::auto::Tier;
use crate::queries::auto::decide::{self, Next, Seen};
use crate::queries::auto::ranking::{self, RankedChunk};
use crate::queries::candidates::LeafReader;
use crate::queries::{QueryError, QueryEvent};
use crate::search::rank::{self, Kind};
use crate::search::{FoundEntries, SearchError};
use crate::store::Store;

/// Maximum results of the search that are ranked.
const RESULTS: usize = 500;
/// How many of them are looked up first; then as many again, until the budget can be filled.
const FIRST_LOOKED_UP: usize = 64;
/// For so many pages chunks are ranked, if the search finds enough.
const PAGES: i64 = 4;
/// A chunk takes at least about so many tokens of a prompt, with its number and its path: more
/// results than fit need no ranking.
const MIN_TOKENS: i64 = 32;

impl QueryRun<'_> {
    /// Runs the tiers.
    pub(super) async fn rank(&mut self) -> Result<Ranking, QueryError> {
        let (mut chunks, evidence) = match &self.known.auto {
            Some(record) => (record.read.clone(), record.evidence),
            None => self.search_chunks().await?,
        };

        self.record.auto.evidence = evidence;
        let seen = Seen {
            chunks: self.found_by_search(&chunks),
            evidence,
            language_model: self.language_model_selects(),
            reach: self.known.reach,
        };

        let (next, reason) = decide::after_search(&seen);
        self.add_tier("search", &chunks, evidence, next != Next::Pick, reason);
        let mut agreed = false;
        if next == Next::Pick {
            agreed = self.pick(&mut chunks, evidence).await?;
        }

        if self.known.auto.is_none() {
            ranking::sort(&mut chunks);
        }

        Ok(Ranking {
            chunks,
            known: HashMap::new(),
            evidence,
            agreed,
            found: next != Next::Nothing,
        })
    }

    /// How many chunks the search found; in a replay, as recorded.
    fn found_by_search(&self, chunks: &[RankedChunk]) -> usize {
        match &self.known.auto {
            Some(record) => record
                .tiers
                .first()
                .map_or(0, |tier| usize::try_from(tier.chunks).unwrap_or(0)),
            None => chunks.len(),
        }
    }

    /// Whether a language model would pick; in a replay, as recorded.
    fn language_model_selects(&self) -> bool {
        match &self.known.auto {
            Some(record) => record.tiers.iter().any(|tier| tier.tier == "pick"),
            None => !self.inner.llm.capabilities("select", self.session).samples,
        }
    }

    pub(super) fn add_tier(
        &mut self,
        tier: &str,
        chunks: &[RankedChunk],
        evidence: f64,
        stop: bool,
        reason: &str,
    ) {
        let mut leaves: Vec<i64> = chunks
            .iter()
            .map(|chunk| chunk.leaf)
            .filter(|leaf| *leaf != 0)
            .collect();
        leaves.sort_unstable();
        leaves.dedup();
        let whole = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let mut found = Tier {
            tier: tier.to_owned(),
            chunks: whole(chunks.len()),
            leaves: whole(leaves.len()),
            evidence,
            decision: if stop { "stop" } else { "continue" }.to_owned(),
            reason: reason.to_owned(),
        };

        // The record holds only the chunks that were read, so a replay takes the counts from it.
        let place = self.result.tiers.len();
        let recorded = self
            .known
            .auto
            .as_ref()
            .and_then(|auto| auto.tiers.get(place));
        if let Some(recorded) = recorded.filter(|recorded| recorded.tier == tier) {
            found = recorded.clone();
        }

        self.events.tell_with(|| QueryEvent::Tier(found.clone()));
        self.result.tier = Some(tier.to_owned());
        self.result.tiers.push(found);
    }

    /// The filed chunks that the search finds, in its order, and how good the best one is.
    async fn search_chunks(&mut self) -> Result<(Vec<RankedChunk>, f64), QueryError> {
        let LeafReader::Stored { store, space, .. } = &self.leaf_reader else {
            return Ok((Vec::new(), 0.0));
        };

        let (store, space) = (store.clone(), space.clone());
        let k = self.results();
        let found = match self.search_by(&space, Kind::Hybrid, k).await {
            // Words need no embedding model.
            Err(SearchError::Llm(error)) => {
                let message = format!("only keywords were searched: {error}");
                self.result.warn("embedding_model_unavailable", message);
                self.search_by(&space, Kind::Keyword, k).await
            }
            found => found,
        };

        let enough = self.enough();
        self.filed_chunks(&store, &space, &found?, enough).await
    }

    /// How many tokens of chunks are enough to rank.
    fn enough(&self) -> i64 {
        if self.ask.per_path_limit > 0 {
            // How many of them count is known only once their leaves are.
            return i64::MAX;
        }

        let of_page = match self.ask.prompt_limiting_strategy {
            PromptLimiting::Prune => 1,
            PromptLimiting::Summarize => SUMMARIZED_BUDGETS,
        };
        self.budget().saturating_mul(PAGES * of_page)
    }

    /// The filed chunks that share text with the best results of a search, as many as are enough, and
    /// how good the best one is.
    pub(super) async fn filed_chunks(
        &self,
        store: &Store,
        space: &Space,
        found: &FoundEntries,
        enough: i64,
    ) -> Result<(Vec<RankedChunk>, f64), QueryError> {
        let results: Vec<(i64, f64)> = found
            .hits
            .iter()
            .map(|hit| (hit.owner.id, hit.score))
            .collect();

        let covered = rank::covered(&found.hits);
        let evidence = decide::limited(rank::evidence(&found.hits), covered);
        // A model that picks categories may raise any of the results.
        let may_pick = evidence < decide::ENOUGH && self.language_model_selects();
        let enough = if may_pick { i64::MAX } else { enough };
        let (mut places, mut filed, mut ranked) = (Vec::new(), Vec::new(), Vec::new());
        let (mut begin, mut end) = (0, results.len().min(FIRST_LOOKED_UP));
        while begin < end {
            let ids: Vec<i64> = results[begin..end].iter().map(|(id, _)| *id).collect();
            let some = store.list_placed_chunks(space, &ids).await?;
            filed.extend(self.inner.layouts.list_filed(store, space, &some).await?);
            places.extend(some);
            ranked = ranking::filed(&results[..end], &places, &filed);
            if ranked.iter().map(|chunk| chunk.tokens).sum::<i64>() >= enough {
                break;
            }

            (begin, end) = (end, results.len().min(end * 2));
        }

        Ok((ranked, evidence))
    }

    /// How many results to rank.
    fn results(&self) -> usize {
        let fitting = usize::try_from(self.budget() / MIN_TOKENS).unwrap_or(RESULTS);
        let limit = usize::try_from(self.ask.limit).unwrap_or(RESULTS);
        limit.min(fitting).clamp(50, RESULTS)
    }

    pub(super) async fn search_by(
        &self,
        space: &Space,
        kind: Kind,
        k: usize,
    ) -> Result<FoundEntries, SearchError> {
        // Not the query's own session: a replay searches no more, so it must not expect this call.
        let session = Session::of_caller(space.clone());
        self.inner
            .search
            .rank_chunks(&session, (&self.ask.query, kind, k), &self.ask.scope())
            .await
    }
}
