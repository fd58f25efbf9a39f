//! Reads the chunks that `auto` ranked, puts them in order, and finds their paths.

use std::collections::HashMap;

use super::QueryRun;
use crate::config::query::PromptLimiting;
use crate::model::query::Candidate;
use crate::queries::QueryError;
use crate::queries::auto::decide::NEAREST;
use crate::queries::auto::page::MAX_CARRIED;
use crate::queries::auto::ranking::{self, RankedChunk};
use crate::queries::candidates::{Found, LeafReader};
use crate::queries::result::{QueryChunk, QueryPath, Retrieval};
use crate::queries::traversal::Path;

/// How many times the budget is read, so that the best chunks of each result can be chosen, and so
/// that summaries have something to shorten.
const READ_BUDGETS: i64 = 2;
pub(super) const SUMMARIZED_BUDGETS: i64 = 4;
/// If the order of the chunks does not depend on their texts, this part of the budget is read besides
/// it.
const SPARE_SHARE: i64 = 4;

/// A chunk in its final place.
pub(super) struct Placed {
    chunk: Candidate,
    relevance: f64,
}

impl QueryRun<'_> {
    /// Which chunks are read, and which are left for further pages: enough to fill the budget a few
    /// times, and not too many of one leaf.
    pub(super) fn choose(
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
        let mut room = self.room(&ranked);
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

        rest.truncate(MAX_CARRIED);
        (read, rest)
    }

    /// How many tokens of these chunks are read.
    fn room(&self, ranked: &[RankedChunk]) -> i64 {
        let budget = self.budget();
        if self.ask.prompt_limiting_strategy == PromptLimiting::Summarize {
            return budget.saturating_mul(SUMMARIZED_BUDGETS);
        }

        let fits = |chunk: &RankedChunk| chunk.tokens <= budget;
        if ranking::is_in_order(ranked.iter()) && ranked.iter().all(fits) {
            // Some may be too long for what is left of the budget.
            return budget.saturating_add(budget / SPARE_SHARE);
        }

        budget.saturating_mul(READ_BUDGETS)
    }

    /// The texts of the chunks, in the order of their relevance.
    pub(super) async fn read_ranked(
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
    pub(super) async fn place(
        &mut self,
        placed: Vec<Placed>,
    ) -> Result<(Found, Vec<f64>), QueryError> {
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

    pub(super) fn report_reads(&mut self, found: &Found, latency_ms: f64) {
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

    pub(super) fn describe_ranked(&self, found: &Found, relevances: &[f64]) -> Vec<QueryChunk> {
        let mut chunks = self.describe(found);
        for ((rank, chunk), relevance) in (1..).zip(&mut chunks).zip(relevances) {
            (chunk.rank, chunk.relevance) = (rank, *relevance);
        }

        chunks
    }

    /// Shows only the paths of used chunks, with their number; the receipt keeps all that were
    /// read. `places` are the paths of the used chunks.
    pub(super) fn forget_unused_paths(&mut self, places: &[usize]) {
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
pub(super) fn thousandths(share: f64) -> u32 {
    (share.clamp(0.0, 1.0) * 1000.0).round() as u32
}
