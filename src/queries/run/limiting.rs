//! What a query does with chunks that exceed its budget: drop some, or shorten all of them.

use std::collections::HashMap;
use std::sync::Arc;

use memoir_text::text::char_count;

use super::{Material, QueryRun};
use crate::queries::budget::keywords;
use crate::queries::budget::prune::{self, prune};
use crate::queries::budget::summarize::{NoPlan, Part, Plan, Rules, plan, tighter};
use crate::queries::budget::{Size, count_prompt};
use crate::queries::result::{
    DroppedChunk, DroppedPath, QueryChunk, Summarization, SummarizedChunk, SummaryPart,
};
use crate::queries::traversal::{Path, Reason};
use crate::queries::{Inner, QueryError};

impl QueryRun<'_> {
    /// Which chunks stay.
    pub(super) fn prune(
        &mut self,
        material: &Material,
        chunks: &[QueryChunk],
    ) -> Result<Vec<bool>, QueryError> {
        let paths = &self.record.paths;
        // Paths without chunks have nothing to drop.
        let full = |place: &usize| self.result.paths[*place].chunk_count > 0;
        let relevance: Vec<f64> = paths.iter().map(Path::relevance).collect();
        let order: Vec<usize> = prune::order(&relevance, self.ask.use_rankings)
            .into_iter()
            .filter(full)
            .collect();

        let mut unused = None;
        let scores = |_| {
            keywords::scores(
                &self.ask.query,
                material.chunks.iter().map(|chunk| &*chunk.text),
            )
        };

        let mut pruned = prune(
            &material.prompt,
            self.budget(),
            &order,
            self.ask.overflow,
            scores,
        );

        if let Ok(pruned) = &mut pruned {
            if self.ask.refill {
                prune::refill(&material.prompt, self.budget(), pruned);
            }
            let tokens = material.prompt.tokens(&pruned.kept);
            if !pruned.dropped.is_empty() && tokens < self.budget() / 2 {
                unused = Some(self.budget() - tokens);
            }
        }

        let dropped = match &pruned {
            Ok(pruned) => &pruned.dropped,
            Err(refused) => &refused.dropped,
        };

        for place in dropped {
            let path = &paths[*place];
            self.result.dropped_paths.push(DroppedPath {
                path: path.names.clone(),
                reason: Reason::Pruned.into_str().to_owned(),
            });
        }

        let pruned = pruned.map_err(|_| {
            let last = order.last().copied().unwrap_or(0);
            let only: Vec<bool> = material
                .chunks
                .iter()
                .map(|chunk| chunk.path == last)
                .collect();

            QueryError::BudgetExceeded {
                budget: self.budget(),
                needed: material.prompt.tokens(&only),
            }
        })?;

        if let Some(unused) = unused {
            let help = if self.ask.refill {
                "raise max_token_budget, or use the strategy auto, which ranks single chunks"
            } else {
                "set refill to true, or use the strategy auto, which ranks single chunks"
            };
            let message = format!(
                "{unused} tokens of the budget are unused, because paths were dropped as a whole; {help}"
            );
            self.result.warn("budget_unused", message);
        }

        if pruned.trimmed {
            let last = order.last().copied().unwrap_or(0);
            let left_out = chunks.iter().zip(&material.chunks).zip(&pruned.kept);
            let left_out = left_out.filter(|((_, chunk), kept)| chunk.path == last && !**kept);
            let dropped = left_out.map(|((chunk, _), _)| DroppedChunk {
                chunk_id: chunk.chunk_id,
                category_path: chunk.category_path.clone(),
                reason: "over_budget".to_owned(),
            });

            self.result.dropped_chunks = dropped.collect();
        }

        Ok(pruned.kept)
    }

    /// The summaries by chunk, if the chunks themselves do not fit.
    pub(super) async fn summarize(
        &mut self,
        material: &Material,
    ) -> Result<Option<Vec<Arc<str>>>, QueryError> {
        if self.ask.use_rankings {
            self.result.warn(
                "use_rankings_ignored",
                "SUMMARIZE shortens every chunk and ignores rankings",
            );
        }

        let rules = self.inner.rules(self.budget());
        let planned = plan(self.counter, &material.prompt, &material.chunks, rules);
        let planned = planned.map_err(|no_plan| QueryError::BudgetTooSmall {
            budget: rules.budget,
            reason: match no_plan {
                NoPlan::NoRoom => "the query, helpers and frames use all of it".to_owned(),
                NoPlan::TooLarge { chunk_id, tokens } => {
                    format!("chunk {chunk_id} and its instruction have {tokens} tokens")
                }
            },
        })?;

        let Some(mut plan) = planned else {
            return Ok(None);
        };
        self.result.summarization = Some(begun(&plan, material, rules));
        let mut summaries = self.ask_for_summaries(&plan, material, rules).await?;
        self.tighten(&mut plan, material, rules, &mut summaries)
            .await?;

        let chunks: Vec<SummarizedChunk> = summarized(&plan, material, &summaries);
        let combined = chunks.iter().map(|chunk| chunk.summary_chars).sum();
        if let Some(summarization) = &mut self.result.summarization {
            summarization.chunks = chunks;
            summarization.combined_char_count = combined;
        }

        let allowed = plan.allowed_chars(rules);
        if combined > allowed {
            return Err(QueryError::CharacterBudget { combined, allowed });
        }

        Ok(Some(summaries.into_iter().map(Into::into).collect()))
    }

    /// If the summaries have somewhat more tokens than fit, asks once more for shorter ones of the
    /// densest chunks: the others are paid for.
    async fn tighten(
        &mut self,
        plan: &mut Plan,
        material: &Material,
        rules: Rules,
        summaries: &mut [String],
    ) -> Result<(), QueryError> {
        let texts: Vec<Arc<str>> = summaries.iter().map(|text| text.as_str().into()).collect();
        let all = vec![true; texts.len()];
        let task = self.answer_task(material, &all, Some(&texts));
        let tokens = count_prompt(self.counter, self.record.mode, &task).await;
        let excess = tokens - self.whole_budget();
        if excess <= 0 {
            return Ok(());
        }

        let size = |summary: &String| Size::of(self.counter, summary);
        let sizes: Vec<Size> = summaries.iter().map(size).collect();
        let Some(targets) = tighter(&sizes, excess) else {
            return Ok(());
        };

        for (place, target) in &targets {
            plan.targets[*place] = *target;
        }
        let shortened = |place: &usize| targets.iter().any(|(other, _)| other == place);
        for part in &plan.parts {
            let mut task = plan.task(part, &material.chunks, rules);
            let places: Vec<usize> = (part.from..part.to).filter(shortened).collect();
            let ids: Vec<i64> = places
                .iter()
                .map(|place| material.chunks[*place].chunk_id)
                .collect();
            task.chunks.retain(|chunk| ids.contains(&chunk.chunk_id));
            if task.chunks.is_empty() {
                continue;
            }

            let answered = self.inner.llm.ask(self.session, task).await?;
            for told in answered.value.summaries {
                if let Some(at) = ids.iter().position(|id| *id == told.chunk_id) {
                    summaries[places[at]] = told.summary;
                }
            }
        }

        Ok(())
    }

    /// The summary of each chunk, in the order of the chunks.
    async fn ask_for_summaries(
        &self,
        plan: &Plan,
        material: &Material,
        rules: Rules,
    ) -> Result<Vec<String>, QueryError> {
        let mut told: HashMap<i64, String> = HashMap::new();
        for part in &plan.parts {
            let task = plan.task(part, &material.chunks, rules);
            let answered = self.inner.llm.ask(self.session, task).await?;
            told.extend(
                answered
                    .value
                    .summaries
                    .into_iter()
                    .map(|summary| (summary.chunk_id, summary.summary)),
            );
        }

        Ok(material
            .chunks
            .iter()
            .map(|chunk| told.remove(&chunk.chunk_id).unwrap_or_default())
            .collect())
    }
}

/// The report before the first call.
fn begun(plan: &Plan, material: &Material, rules: Rules) -> Summarization {
    let part = |part: &Part| SummaryPart {
        chunk_ids: material.chunks[part.from..part.to]
            .iter()
            .map(|chunk| chunk.chunk_id)
            .collect(),
        input_token_count: part.input_tokens,
    };

    Summarization {
        ratio: plan.ratio(),
        part_token_cap: plan.part_cap,
        parts: plan.parts.iter().map(part).collect(),
        chunks: Vec::new(),
        combined_char_count: 0,
        allowed_char_count: plan.allowed_chars(rules),
    }
}

fn summarized(plan: &Plan, material: &Material, summaries: &[String]) -> Vec<SummarizedChunk> {
    let chars = |text: &str| i64::try_from(char_count(text)).unwrap_or(i64::MAX);
    let chunks = material
        .chunks
        .iter()
        .zip(&material.prompt.items)
        .zip(&plan.targets)
        .zip(summaries);

    chunks
        .map(|(((chunk, item), target), summary)| SummarizedChunk {
            chunk_id: chunk.chunk_id,
            original_chars: item.text.chars,
            target_chars: *target,
            summary_chars: chars(summary),
            summary: summary.clone(),
        })
        .collect()
}

impl Inner {
    fn rules(&self, budget: i64) -> Rules {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        Rules {
            budget,
            headroom: number(self.settings.summarization_instruction_headroom_tokens),
            tolerance_percent: number(self.settings.summary_char_overage_tolerance_percent),
            retries: self.settings.summary_max_retries,
        }
    }
}
