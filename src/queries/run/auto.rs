//! The steps of `auto`: search, decide, pick, walk, rank, read, and fill the budget.

use std::collections::HashMap;
use std::time::Instant;

use super::{Material, QueryRun, used, versions};
use crate::base::ids::Space;
use crate::config::query::PromptLimiting;
use crate::llm::Session;
use crate::model::query::Candidate;
use crate::queries::auto::Tier;
use crate::queries::auto::decide::{self, NEAREST, Next, Seen};
use crate::queries::auto::page::{MOST_CARRIED, RankedCursor};
use crate::queries::auto::ranking::{self, RankedChunk};
use crate::queries::budget::fill::fill;
use crate::queries::candidates::{Found, LeafReader, milliseconds};
use crate::queries::input::Mode;
use crate::queries::result::{DroppedChunk, QueryChunk, QueryPath, Retrieval};
use crate::queries::traversal::Path;
use crate::queries::{QueryError, QueryEvent};
use crate::search::SearchError;
use crate::search::rank::{self, Kind};

/// Results of the search that are ranked.
const RESULTS: usize = 500;
/// How many times the budget is read, so that the best chunks of each result can be chosen, and so
/// that summaries have something to shorten.
const READ_BUDGETS: i64 = 2;
const SUMMARIZED_BUDGETS: i64 = 4;

/// What the tiers found.
#[derive(Default)]
pub(super) struct Ranking {
    /// In the order of relevance, as far as it is known without the texts.
    pub chunks: Vec<RankedChunk>,
    /// The relevance of each chunk, where a cursor tells it.
    pub known: HashMap<i64, f64>,
    pub evidence: f64,
    /// Whether a model picked the leaf of the best chunk.
    pub agreed: bool,
    pub found: bool,
}

/// A chunk in its final place.
struct Placed {
    chunk: Candidate,
    relevance: f64,
}

impl QueryRun<'_> {
    /// Runs the query with `auto`.
    pub(super) async fn run_auto(&mut self) -> Result<(), QueryError> {
        let ranking = match self.known.page.take() {
            Some(page) => self.resume(&page),
            None => self.rank().await?,
        };

        self.result.found = ranking.found;
        self.result.confidence = Some(
            decide::confidence(ranking.evidence, ranking.agreed)
                .as_str()
                .to_owned(),
        );

        let answerless = !ranking.found && self.ask.mode == Mode::Answer;
        let (read, rest) = self.choose(ranking.chunks, answerless);
        let begun = Instant::now();
        let placed = self.read_ranked(read, &ranking.known).await?;
        let latency = milliseconds(begun);
        let (found, relevances) = self.place(placed).await?;
        self.report_reads(&found, latency);

        let chunks = self.describe_ranked(&found, &relevances);
        let version_of = versions(&found);
        if !ranking.found {
            self.result.nearest = chunks.iter().take(NEAREST).cloned().collect();
        }

        if answerless || chunks.is_empty() {
            self.result.found = false;
            self.forget_unused_paths(&[]);
            return self.complete_chunks(&version_of).await;
        }

        self.finish_auto(found, chunks, (rest, ranking.evidence), &version_of)
            .await
    }

    /// Fits the chunks to the budget, and answers from them.
    async fn finish_auto(
        &mut self,
        found: Found,
        chunks: Vec<QueryChunk>,
        (rest, evidence): (Vec<(i64, u32)>, f64),
        places: &HashMap<i64, i64>,
    ) -> Result<(), QueryError> {
        let material = self.measure(found).await?;
        let mut kept = vec![true; chunks.len()];
        let mut summaries = None;
        if self.ask.prompt_limiting_strategy == PromptLimiting::Prune {
            kept = self.fill(&material, &chunks)?;
        } else {
            summaries = self.summarize(&material).await?;
        }

        let (used_chunks, others): (Vec<_>, Vec<_>) =
            chunks.into_iter().zip(&kept).partition(|(_, kept)| **kept);
        self.result.chunks = used_chunks.into_iter().map(|(chunk, _)| chunk).collect();
        self.number_ranks();
        self.result.used_chunks = self.result.chunks.iter().map(used).collect();
        let others: Vec<QueryChunk> = others.into_iter().map(|(chunk, _)| chunk).collect();
        self.offer_next_page(&others, rest, evidence);
        self.complete_chunks(places).await?;
        let leaves: Vec<usize> = material
            .chunks
            .iter()
            .zip(&kept)
            .filter(|(_, kept)| **kept)
            .map(|(chunk, _)| chunk.path)
            .collect();

        if self.ask.mode == Mode::Answer {
            self.answer(material, &kept, summaries).await?;
        }

        self.forget_unused_paths(&leaves);
        Ok(())
    }

    /// Which chunks fit, best first.
    fn fill(
        &mut self,
        material: &Material,
        chunks: &[QueryChunk],
    ) -> Result<Vec<bool>, QueryError> {
        let kept = fill(&material.sheet, self.budget());
        let Some(last) = kept.iter().rposition(|kept| *kept) else {
            let mut first = vec![false; chunks.len()];
            first[0] = true;
            return Err(QueryError::BudgetExceeded {
                budget: self.budget(),
                needed: material.sheet.tokens(&first),
            });
        };

        // What is not as good as the last one is on the next page; what is better was too large.
        let skipped = chunks[..last].iter().zip(&kept).filter(|(_, kept)| !**kept);
        self.result.dropped_chunks = skipped
            .map(|(chunk, _)| DroppedChunk {
                chunk_id: chunk.chunk_id,
                category_path: chunk.category_path.clone(),
                reason: "over_budget".to_owned(),
            })
            .collect();

        Ok(kept)
    }

    fn number_ranks(&mut self) {
        let before = self.returned_before();
        for (rank, chunk) in (before + 1..).zip(&mut self.result.chunks) {
            chunk.rank = rank;
        }
    }

    fn returned_before(&self) -> i64 {
        self.known.returned
    }

    /// The cursor with the chunks that are left.
    fn offer_next_page(&mut self, others: &[QueryChunk], rest: Vec<(i64, u32)>, evidence: f64) {
        let dropped: Vec<i64> = self
            .result
            .dropped_chunks
            .iter()
            .map(|chunk| chunk.chunk_id)
            .collect();

        let mut left: Vec<(i64, u32)> = others
            .iter()
            .filter(|chunk| !dropped.contains(&chunk.chunk_id))
            .map(|chunk| (chunk.chunk_id, thousandths(chunk.relevance)))
            .collect();
        left.extend(rest.iter().copied());
        left.truncate(MOST_CARRIED);
        self.record.auto.rest = rest;
        if left.is_empty() {
            return;
        }

        let returned = self.returned_before()
            + i64::try_from(self.result.chunks.len()).unwrap_or(i64::MAX / 2);
        let tier = self.result.tier.clone().unwrap_or_default();
        let cursor = RankedCursor::new(self.ask, left, returned, (&tier, evidence));
        self.result.next_cursor = Some(cursor.encode());
    }

    /// The ranking that a cursor carries.
    fn resume(&mut self, page: &RankedCursor) -> Ranking {
        self.result.tier = Some(page.tier.clone());
        self.known.returned = page.returned;
        let chunk = |(number, (chunk_id, share)): (u32, &(i64, u32))| RankedChunk {
            chunk_id: *chunk_id,
            leaf: 0,
            result: number,
            search: f64::from(*share) / 1000.0,
            pick: 0.0,
            tokens: 0,
        };

        Ranking {
            chunks: (0..).zip(&page.rest).map(chunk).collect(),
            known: page
                .rest
                .iter()
                .map(|(id, share)| (*id, f64::from(*share) / 1000.0))
                .collect(),
            evidence: page.evidence,
            agreed: false,
            found: page.evidence >= decide::NOTHING,
        }
    }

    /// Runs the tiers.
    async fn rank(&mut self) -> Result<Ranking, QueryError> {
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
        let found = match self.search_by(&space, Kind::Hybrid).await {
            // Words need no embedding model.
            Err(SearchError::Llm(error)) => {
                let message = format!("only keywords were searched: {error}");
                self.result.warn("embedding_model_unavailable", message);
                self.search_by(&space, Kind::Keyword).await
            }
            found => found,
        };

        let found = found.map_err(|error| match error {
            SearchError::Llm(error) => QueryError::Llm(error),
            SearchError::Store(error) => QueryError::Store(error),
            SearchError::Invalid(errors) => QueryError::Invalid(errors),
        })?;
        let results: Vec<(i64, f64)> = found
            .hits
            .iter()
            .map(|hit| (hit.owner.id, hit.score))
            .collect();

        let evidence = rank::evidence(&found.hits);
        let ids: Vec<i64> = results.iter().map(|(id, _)| *id).collect();
        let places = store.list_placed_chunks(&space, &ids).await?;
        let mut versions: Vec<i64> = places
            .iter()
            .filter(|place| !place.filed)
            .map(|place| place.version_id)
            .collect();
        versions.sort_unstable();
        versions.dedup();
        let filed = store.list_filed_chunks(&space, &versions).await?;
        Ok((ranking::filed(&results, &places, &filed), evidence))
    }

    async fn search_by(
        &self,
        space: &Space,
        kind: Kind,
    ) -> Result<crate::search::FoundEntries, SearchError> {
        // Not the query's own session: a replay searches no more, so it must not expect this call.
        let session = Session::of_caller(space.clone());
        let k = usize::try_from(self.ask.limit).map_or(RESULTS, |limit| limit.max(50));
        self.inner
            .search
            .rank_chunks(
                &session,
                space,
                (&self.ask.query, kind, k.min(RESULTS)),
                &self.ask.scope(),
            )
            .await
    }

    /// Which chunks are read, and which are left for further pages: enough to fill the budget a few
    /// times, and not too many of one leaf.
    fn choose(
        &self,
        ranked: Vec<RankedChunk>,
        answerless: bool,
    ) -> (Vec<RankedChunk>, Vec<(i64, u32)>) {
        if let Some(record) = &self.known.auto {
            return (record.read.clone(), record.rest.clone());
        }

        let limit = usize::try_from(self.ask.limit).unwrap_or(usize::MAX);
        let most = if answerless {
            NEAREST.min(limit)
        } else {
            limit
        };
        let budgets = match self.ask.prompt_limiting_strategy {
            PromptLimiting::Prune => READ_BUDGETS,
            PromptLimiting::Summarize => SUMMARIZED_BUDGETS,
        };

        let mut room = self.budget().saturating_mul(budgets);
        let mut of_leaf: HashMap<i64, u64> = HashMap::new();
        let (mut read, mut rest) = (Vec::new(), Vec::new());
        for chunk in ranked {
            let count = of_leaf.entry(chunk.leaf).or_default();
            *count += 1;
            if self.ask.per_path_limit > 0 && *count > self.ask.per_path_limit {
                continue;
            }

            if read.len() < most && (room > 0 || read.is_empty()) {
                room -= chunk.tokens;
                read.push(chunk);
            } else {
                rest.push((chunk.chunk_id, thousandths(chunk.relevance())));
            }
        }

        rest.truncate(MOST_CARRIED);
        (read, rest)
    }

    /// The texts of the chunks, in the order of their relevance.
    async fn read_ranked(
        &mut self,
        read: Vec<RankedChunk>,
        known: &HashMap<i64, f64>,
    ) -> Result<Vec<Placed>, QueryError> {
        let ids: Vec<i64> = read.iter().map(|chunk| chunk.chunk_id).collect();
        let mut texts: HashMap<i64, Candidate> = self
            .leaf_reader
            .read_by_id(&ids)
            .await?
            .into_iter()
            .map(|chunk| (chunk.id, chunk))
            .collect();

        let mut found: Vec<(RankedChunk, Candidate)> = read
            .into_iter()
            .filter_map(|ranked| Some((ranked, texts.remove(&ranked.chunk_id)?)))
            .collect();

        // A recorded chunk keeps its recorded leaf: it may have moved since.
        for (ranked, chunk) in &mut found {
            if self.known.auto.is_some() {
                chunk.category_id = ranked.leaf;
            }
            ranked.leaf = chunk.category_id;
        }

        self.record.auto.read = found.iter().map(|(ranked, _)| *ranked).collect();

        let pairs: Vec<(RankedChunk, &str)> = found
            .iter()
            .map(|(ranked, chunk)| (*ranked, chunk.text.as_str()))
            .collect();
        let relevances = if known.is_empty() {
            ranking::relevances(&self.ask.query, &pairs)
        } else {
            let told = |(ranked, _): &(RankedChunk, &str)| known.get(&ranked.chunk_id).copied();
            pairs.iter().map(|pair| told(pair).unwrap_or(0.0)).collect()
        };

        let mut placed: Vec<Placed> = found
            .into_iter()
            .zip(relevances)
            .map(|((_, chunk), relevance)| Placed { chunk, relevance })
            .collect();

        // Stable: of equals, the one found first.
        placed.sort_by(|one, other| other.relevance.total_cmp(&one.relevance));
        Ok(placed)
    }

    /// Finds the paths of the chunks, best first.
    async fn place(&mut self, placed: Vec<Placed>) -> Result<(Found, Vec<f64>), QueryError> {
        let mut leaves: Vec<i64> = Vec::new();
        for one in &placed {
            if !leaves.contains(&one.chunk.category_id) {
                leaves.push(one.chunk.category_id);
            }
        }

        let known = self.named_paths(&leaves).await?;
        let count = i64::try_from(leaves.len()).unwrap_or(i64::MAX);
        let path = |(place, leaf): (i64, &i64)| {
            let (ids, names) = known.get(leaf).cloned().unwrap_or_default();
            Path {
                ranks: vec![(count - place, count); ids.len()],
                ids,
                names,
            }
        };

        self.record.paths = (0..).zip(&leaves).map(path).collect();
        self.result.paths = self.record.paths.iter().map(QueryPath::from).collect();
        let numbers: HashMap<i64, usize> = leaves.iter().copied().zip(0..).collect();
        let relevances = placed.iter().map(|one| one.relevance).collect();
        let mut found = Found {
            counts: vec![0; leaves.len()],
            ..Found::default()
        };

        for Placed { chunk, .. } in placed {
            let number = numbers.get(&chunk.category_id).copied().unwrap_or(0);
            found.counts[number] += 1;
            found.chunks.push((number, chunk));
        }

        Ok((found, relevances))
    }

    /// The ids and names of the paths to some leaves; in a replay, as recorded.
    async fn named_paths(
        &self,
        leaves: &[i64],
    ) -> Result<HashMap<i64, (Vec<i64>, Vec<String>)>, QueryError> {
        match &self.leaf_reader {
            LeafReader::Stored { store, space, .. } => {
                let filed: Vec<i64> = leaves.iter().copied().filter(|leaf| *leaf != 0).collect();
                let found = store.find_category_paths(space, &filed).await?;
                Ok(found
                    .into_iter()
                    .map(|(leaf, path)| (leaf, path.into_iter().unzip()))
                    .collect())
            }
            LeafReader::Recorded { .. } => Ok(self
                .known
                .paths
                .iter()
                .map(|path| (path.leaf(), (path.ids.clone(), path.names.clone())))
                .collect()),
        }
    }

    fn report_reads(&mut self, found: &Found, latency_ms: f64) {
        self.record.chunk_ids = vec![Vec::new(); self.record.paths.len()];
        for (place, chunk) in &found.chunks {
            self.record.chunk_ids[*place].push(chunk.id);
        }

        let mut latency_ms = Some(latency_ms);
        for (place, path) in self.record.paths.iter().enumerate() {
            self.result.paths[place].chunk_count = found.counts[place];
            self.result.retrievals.push(Retrieval {
                category_id: path.leaf(),
                path: path.names.clone(),
                chunk_count: found.counts[place],
                latency_ms: latency_ms.take().unwrap_or(0.0),
            });
        }
    }

    fn describe_ranked(&self, found: &Found, relevances: &[f64]) -> Vec<QueryChunk> {
        let mut chunks = self.describe(found);
        for ((rank, chunk), relevance) in (1..).zip(&mut chunks).zip(relevances) {
            (chunk.rank, chunk.relevance) = (rank, *relevance);
        }

        chunks
    }

    /// Shows only the paths of used chunks, with their number; the receipt keeps all that were
    /// read. `places` are the paths of the used chunks.
    fn forget_unused_paths(&mut self, places: &[usize]) {
        let count = |place: usize| places.iter().filter(|used| **used == place).count();
        let mut place = 0;
        self.result.paths.retain_mut(|path| {
            path.chunk_count = i64::try_from(count(place)).unwrap_or(i64::MAX);
            place += 1;
            path.chunk_count > 0
        });
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share from 0 to 1"
)]
fn thousandths(share: f64) -> u32 {
    (share.clamp(0.0, 1.0) * 1000.0).round() as u32
}
