//! The steps of `auto`: rank chunks (`tiers`), read them (`placing`), fill the budget, answer.

use std::collections::HashMap;
use std::time::Instant;

use super::placing::thousandths;
use super::{Material, QueryRun, used};
use crate::config::query::PromptLimiting;
use crate::queries::QueryError;
use crate::queries::auto::decide::{self, Confidence, NEAREST};
use crate::queries::auto::page::{MAX_CARRIED, RankedCursor};
use crate::queries::auto::ranking::RankedChunk;
use crate::queries::budget::fill::fill;
use crate::queries::candidates::{Found, milliseconds};
use crate::queries::input::Mode;
use crate::queries::result::{DroppedChunk, QueryChunk};

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
                .into_str()
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
        if !ranking.found {
            self.result.nearest = chunks.iter().take(NEAREST).cloned().collect();
        }

        if answerless || chunks.is_empty() {
            self.result.found = false;
            self.forget_unused_paths(&[]);
            return self.complete_chunks().await;
        }

        self.finish_auto(found, chunks, (rest, ranking.evidence))
            .await
    }

    /// Fits the chunks to the budget, and answers from them.
    async fn finish_auto(
        &mut self,
        found: Found,
        chunks: Vec<QueryChunk>,
        (rest, evidence): (Vec<(i64, u32)>, f64),
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
        self.complete_chunks().await?;
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

    /// The model found no answer in the chunks, so they are only the nearest ones.
    pub(super) fn admit_nothing_found(&mut self) {
        let chunks = self.result.chunks.iter().take(NEAREST);
        self.result.nearest = chunks.cloned().collect();
        self.result.found = false;
        if self.result.confidence.is_some() {
            self.result.confidence = Some(Confidence::Low.into_str().to_owned());
        }
    }

    /// Which chunks fit, best first.
    fn fill(
        &mut self,
        material: &Material,
        chunks: &[QueryChunk],
    ) -> Result<Vec<bool>, QueryError> {
        let kept = fill(&material.prompt, self.budget());
        let Some(last) = kept.iter().rposition(|kept| *kept) else {
            let mut first = vec![false; chunks.len()];
            first[0] = true;
            return Err(QueryError::BudgetExceeded {
                budget: self.budget(),
                needed: material.prompt.tokens(&first),
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
        left.truncate(MAX_CARRIED);
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
}
