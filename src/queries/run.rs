//! Runs one query from its first level to its answer. Whatever happens, what was done so far is
//! kept.

use std::collections::HashMap;
use std::sync::Arc;

use super::budget::prune::{self, prune};
use super::budget::summarize::{NoPlan, Rules, plan};
use super::budget::{BudgetChunk, ModeTokens, Sheet, Size, count_prompt, keywords};
use super::candidates::{Found, LeafReader};
use super::input::{Mode, QuerySettings};
use super::page::Cursor;
use super::receipt::RunRecord;
use super::result::{
    DroppedChunk, PathError, PromptEstimate, QueryChunk, QueryPath, QueryResult, Retrieval,
    Summarization, SummarizedChunk, SummaryPart, UsedChunk,
};
use super::traversal::{Hierarchy, Path, Reason, Walk, Walker};
use super::{Inner, QueryError};
use crate::base::ids::SourceId;
use crate::base::text::char_count;
use crate::base::tokens::TokenCounter;
use crate::categories::samples::Samples;
use crate::config::query::PromptLimiting;
use crate::llm::Session;
use crate::llm::tasks::answer::{Answer, Evidence};

/// A running query.
pub struct QueryRun<'a> {
    pub inner: &'a Inner,
    pub ask: &'a QuerySettings,
    pub session: &'a Session,
    pub leaf_reader: LeafReader,
    /// `None` if the paths are known already, from a cursor or a record.
    pub map: Option<Hierarchy>,
    pub known_paths: Vec<Path>,
    pub cursor: Option<Cursor>,
    pub counter: TokenCounter,
    pub result: QueryResult,
    pub record: RunRecord,
    /// What the output mode added to instructions in the record, for a replay.
    pub known_mode: Option<ModeTokens>,
    /// Leaves that were empty in the record, for a replay.
    pub known_empty: Option<Vec<i64>>,
}

/// The content of the prompt.
struct Material {
    chunks: Vec<BudgetChunk>,
    helpers: Vec<Option<Arc<str>>>,
    sheet: Sheet,
}

impl QueryRun<'_> {
    pub async fn run(&mut self) -> Result<(), QueryError> {
        self.walk().await?;
        let found = self.read().await?;
        let chunks = self.describe(&found);
        let material = self.measure(found).await?;
        let mut kept = vec![true; chunks.len()];
        let limited = self.ask.mode == Mode::Answer || self.ask.budget_named;
        let mut summaries = None;

        if limited && self.ask.prompt_limiting_strategy == PromptLimiting::Prune {
            kept = self.prune(&material, &chunks)?;
        } else if limited {
            summaries = self.summarize(&material).await?;
        }

        let used = chunks
            .into_iter()
            .zip(&kept)
            .filter(|(_, kept)| **kept)
            .map(|(chunk, _)| chunk);

        self.result.chunks = used.collect();
        let name = |chunk: &QueryChunk| UsedChunk {
            chunk_id: chunk.chunk_id,
            category_path: chunk.category_path.clone(),
        };

        self.result.used_chunks = self.result.chunks.iter().map(name).collect();
        if self.ask.mode == Mode::Answer {
            self.answer(material, &kept, summaries).await?;
        }

        Ok(())
    }

    /// From the query to the leaves.
    async fn walk(&mut self) -> Result<(), QueryError> {
        let mut walk = Walk {
            leaves: std::mem::take(&mut self.known_paths),
            ..Walk::default()
        };

        let mut outcome = Ok(());
        if let Some(map) = self.map.take() {
            let walker = Walker {
                llm: &self.inner.llm,
                session: self.session,
                contextual_helper: self.leaf_reader.described().await?,
                map,
                query: self.ask.query.as_str().into(),
                strategy: self.ask.strategy(),
                depth: self.inner.depth,
                samples: self.samples().await?,
            };
            outcome = walker.run(&mut walk).await;
        }

        for (path, reason) in &walk.dropped {
            self.result.drop_path(path, *reason);
        }

        self.result.paths = walk.leaves.iter().map(QueryPath::from).collect();
        self.record.levels = walk.levels;
        self.record.paths = walk.leaves;
        outcome?;

        if self.record.paths.is_empty() {
            Err(QueryError::NoChunks)
        } else {
            Ok(())
        }
    }

    /// From the leaves to their chunks.
    async fn read(&mut self) -> Result<Found, QueryError> {
        let paths = &self.record.paths;
        let found = self
            .leaf_reader
            .read(self.ask, paths, self.cursor.as_ref())
            .await?;

        let first = self.cursor.as_ref().map_or(0, |cursor| cursor.after.path);
        for (place, path) in paths.iter().enumerate().skip(first) {
            let (category_id, chunk_count, latency_ms) =
                (path.leaf(), found.counts[place], found.latencies[place]);
            self.result.retrievals.push(Retrieval {
                category_id,
                path: path.names.clone(),
                chunk_count,
                latency_ms,
            });

            self.result.paths[place].chunk_count = chunk_count;
            let empty = match &self.known_empty {
                Some(known) => known.contains(&path.leaf()),
                None => {
                    found.empty[place]
                        && self
                            .cursor
                            .as_ref()
                            .is_none_or(|cursor| cursor.after.path != place)
                }
            };

            if empty {
                let message = "the category contains no chunks that match the filters".to_owned();
                let code = "no_chunks_found".to_owned();
                self.result.path_errors.push(PathError {
                    path: path.names.clone(),
                    code,
                    message,
                });

                self.result.drop_path(path, Reason::Empty);
            } else if chunk_count == 0 && found.next.is_some() && self.ask.mode == Mode::Answer {
                // Earlier paths have used up the limit, so none of its chunks can be in the answer.
                self.result.drop_path(path, Reason::Limited);
            }
        }

        self.record.chunk_ids = vec![Vec::new(); paths.len()];
        for (place, chunk) in &found.chunks {
            self.record.chunk_ids[*place].push(chunk.id);
        }

        self.record.next.clone_from(&found.next);
        if let Some(next) = &found.next {
            self.result.next_cursor = Some(Cursor::new(self.ask, paths, next.clone()).encode());
            let message = format!(
                "only the first {} chunks were read; use next_cursor to get the others",
                self.ask.limit
            );

            self.result.warn("limited", message);
        }

        if found.chunks.is_empty() {
            Err(QueryError::NoChunks)
        } else {
            Ok(found)
        }
    }

    /// The chunks as they are returned.
    fn describe(&self, found: &Found) -> Vec<QueryChunk> {
        let shown = found.chunks.iter().map(|(place, chunk)| {
            let path = &self.record.paths[*place];
            QueryChunk {
                chunk_id: chunk.id,
                text_content: chunk.text.clone(),
                category_path: path.names.clone(),
                ranked_relevance: path.ranked_relevance(),
                path_relevance: path.relevance(),
                created_at: chunk.created_at.to_string(),
                source_id: chunk.source_id.to_string(),
                source_version: chunk.source_version,
                start_char: chunk.start_char,
                end_char: chunk.end_char,
            }
        });
        shown.collect()
    }

    /// Counts the tokens of the prompt with all chunks.
    async fn measure(&mut self, found: Found) -> Result<Material, QueryError> {
        let mut sources: Vec<SourceId> = Vec::new();
        let mut numbers: HashMap<SourceId, usize> = HashMap::new();
        let labels: Vec<Arc<str>> = self
            .record
            .paths
            .iter()
            .map(|path| path.label().into())
            .collect();

        let mut chunks = Vec::with_capacity(found.chunks.len());
        for (place, chunk) in found.chunks {
            let source = *numbers.entry(chunk.source_id.clone()).or_insert_with(|| {
                sources.push(chunk.source_id.clone());
                sources.len() - 1
            });

            let (label, text) = (Arc::clone(&labels[place]), chunk.text.into());
            // Counts that the ingestion stored are reused if the tokenizer is the same.
            let counted = (chunk.tokenizer == self.counter.name()).then_some(Size {
                tokens: chunk.token_count,
                chars: chunk.end_char - chunk.start_char,
            });

            chunks.push(BudgetChunk {
                chunk_id: chunk.id,
                path: place,
                source,
                label,
                text,
                counted,
            });
        }

        let known = self.leaf_reader.helpers(&sources).await?;
        self.record.helpers = known
            .iter()
            .map(|helper| (helper.source_id.clone(), helper.version))
            .collect();

        let of = |id: &SourceId| known.iter().find(|helper| helper.source_id == *id);
        let helpers: Vec<Option<Arc<str>>> = sources
            .iter()
            .map(|id| of(id).map(|helper| helper.text.as_str().into()))
            .collect();

        let query = self.ask.query.as_str().into();
        let mode = self.known_mode.unwrap_or_else(|| {
            ModeTokens::of(&self.inner.llm, self.ask.model.as_deref(), self.counter)
        });
        self.record.mode = mode;
        let sheet = Sheet::count(self.counter, mode, query, helpers.clone(), chunks.clone()).await;
        let all = vec![true; chunks.len()];
        let (fixed, content) = (sheet.fixed(&all), sheet.content(&all));

        self.result.estimate = Some(PromptEstimate {
            fixed_prompt_token_count: fixed.tokens,
            chunks_total_token_count: content.tokens,
            fixed_prompt_char_count: fixed.chars,
            chunks_total_char_count: content.chars,
            query_token_count: sheet.query.tokens,
            max_token_budget: self.budget(),
            final_prompt_token_count: None,
            tokenizer: self.counter.name().to_owned(),
            exact: self.counter.is_exact(),
        });

        Ok(Material {
            chunks,
            helpers,
            sheet,
        })
    }

    fn prune(
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

        let scores = |_| {
            keywords::scores(
                &self.ask.query,
                material.chunks.iter().map(|chunk| &*chunk.text),
            )
        };

        let pruned = prune(
            &material.sheet,
            self.budget(),
            &order,
            self.ask.overflow,
            scores,
        );

        let dropped = match &pruned {
            Ok(pruned) => &pruned.dropped,
            Err(refused) => &refused.dropped,
        };

        for place in dropped {
            let path = &paths[*place];
            self.result.dropped_paths.push(super::result::DroppedPath {
                path: path.names.clone(),
                reason: Reason::Pruned.as_str().to_owned(),
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
                needed: material.sheet.tokens(&only),
            }
        })?;

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
    async fn summarize(
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
        let planned = plan(self.counter, &material.sheet, &material.chunks, rules);
        let planned = planned.map_err(|no_plan| QueryError::BudgetTooSmall {
            budget: rules.budget,
            reason: match no_plan {
                NoPlan::NoRoom => "the query, helpers and frames use all of it".to_owned(),
                NoPlan::TooLarge { chunk_id, tokens } => {
                    format!("chunk {chunk_id} and its instruction have {tokens} tokens")
                }
            },
        })?;

        let Some(plan) = planned else { return Ok(None) };
        let mut told: HashMap<i64, String> = HashMap::new();
        let part = |part: &super::budget::summarize::Part| SummaryPart {
            chunk_ids: material.chunks[part.from..part.to]
                .iter()
                .map(|chunk| chunk.chunk_id)
                .collect(),
            input_token_count: part.input_tokens,
        };

        self.result.summarization = Some(Summarization {
            ratio: plan.ratio(),
            part_token_cap: plan.part_cap,
            parts: plan.parts.iter().map(part).collect(),
            chunks: Vec::new(),
            combined_char_count: 0,
            allowed_char_count: plan.allowed_chars(rules),
        });

        for part in &plan.parts {
            let task = plan.task(part, &material.chunks, rules.retries);
            let answered = self.inner.llm.ask(self.session, task).await?;
            told.extend(
                answered
                    .value
                    .summaries
                    .into_iter()
                    .map(|summary| (summary.chunk_id, summary.summary)),
            );
        }

        let chars = |text: &str| i64::try_from(char_count(text)).unwrap_or(i64::MAX);
        let summaries: Vec<String> = material
            .chunks
            .iter()
            .map(|chunk| told.remove(&chunk.chunk_id).unwrap_or_default())
            .collect();

        let chunks = material
            .chunks
            .iter()
            .zip(&material.sheet.items)
            .zip(&plan.targets)
            .zip(&summaries);

        let chunks = chunks.map(|(((chunk, item), target), summary)| SummarizedChunk {
            chunk_id: chunk.chunk_id,
            original_chars: item.text.chars,
            target_chars: *target,
            summary_chars: chars(summary),
            summary: summary.clone(),
        });

        let chunks: Vec<SummarizedChunk> = chunks.collect();
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

    async fn answer(
        &mut self,
        material: Material,
        kept: &[bool],
        summaries: Option<Vec<Arc<str>>>,
    ) -> Result<(), QueryError> {
        let mut used = vec![false; material.helpers.len()];
        let mut evidence = Vec::new();
        for (place, chunk) in material
            .chunks
            .into_iter()
            .enumerate()
            .filter(|(place, _)| kept[*place])
        {
            used[chunk.source] = true;
            let text = summaries
                .as_ref()
                .map_or(chunk.text, |summaries| Arc::clone(&summaries[place]));
            evidence.push(Evidence {
                chunk_id: chunk.chunk_id,
                path: chunk.label,
                text,
            });
        }

        let helpers = material
            .helpers
            .into_iter()
            .zip(used)
            .filter(|(_, used)| *used)
            .filter_map(|(helper, _)| helper);

        let task = Answer {
            query: self.ask.query.as_str().into(),
            contextual_helpers: helpers.collect(),
            chunks: evidence,
        };

        let tokens = count_prompt(self.counter, self.record.mode, &task).await;
        if let Some(estimate) = &mut self.result.estimate {
            estimate.final_prompt_token_count = Some(tokens);
        }

        if tokens > self.budget() {
            return Err(QueryError::FinalPromptOverBudget {
                tokens,
                budget: self.budget(),
            });
        }

        self.result.answer = Some(self.inner.llm.ask(self.session, task).await?.value.answer);
        Ok(())
    }

    /// What categories contain, if the embedded model selects and the hierarchy is the stored one.
    async fn samples(&self) -> Result<Option<Arc<Samples>>, QueryError> {
        match &self.leaf_reader {
            LeafReader::Stored { space, .. }
                if self.inner.llm.capabilities("select", self.session).samples =>
            {
                Ok(Some(self.inner.samples.of(space).await?))
            }
            _ => Ok(None),
        }
    }

    fn budget(&self) -> i64 {
        i64::try_from(self.ask.max_token_budget).unwrap_or(i64::MAX)
    }
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
