//! Runs one query from its first level to its answer. Whatever happens, what was done so far is
//! kept.

mod auto;
mod completing;
mod limiting;
mod option_contents;
mod picking;
mod placing;
mod remembering;
mod tiers;

pub use picking::PICK_LEVEL;

use std::collections::HashMap;
use std::sync::Arc;

use memoir_text::tokens::TokenCounter;

use super::auto::AutoRecord;
use super::auto::decide::Reach;
use super::auto::page::RankedCursor;
use super::budget::{BudgetChunk, ModeTokens, PromptTokens, Size, count_prompt};
use super::candidates::{Found, LeafReader};
use super::input::{Mode, QuerySettings};
use super::page::Cursor;
use super::receipt::RunRecord;
use super::result::{
    PathError, PromptEstimate, QueryChunk, QueryPath, QueryResult, Retrieval, UsedChunk,
};
use super::traversal::{Hierarchy, Level, Path, Reason, Walk, Walker};
use super::{Events, Inner, QueryError, QueryEvent};
use crate::base::ids::SourceId;
use crate::config::query::{PromptLimiting, StrategyName};
use crate::llm::tasks::answer::{Answer, Evidence};
use crate::llm::{MemberListener, Session};

/// A running query.
pub struct QueryRun<'a> {
    pub inner: &'a Inner,
    pub ask: &'a QuerySettings,
    pub session: &'a Session,
    pub leaf_reader: LeafReader,
    /// `None` if the paths are known already, from a cursor or a record.
    pub map: Option<Hierarchy>,
    pub known: Known,
    pub cursor: Option<Cursor>,
    pub counter: TokenCounter,
    pub events: &'a Events,
    pub result: QueryResult,
    pub record: RunRecord,
    /// Tokens of the budget that memories take.
    pub reserved: i64,
}

/// What a query need not find out, because a cursor or a record tells it.
#[derive(Default)]
pub struct Known {
    pub paths: Vec<Path>,
    /// What the output mode added to instructions in the record, for a replay.
    pub mode: Option<ModeTokens>,
    /// Leaves that were empty in the record, for a replay.
    pub empty: Option<Vec<i64>>,
    /// What `auto` found, and its levels, for a replay.
    pub auto: Option<AutoRecord>,
    pub levels: Option<Vec<Level>>,
    /// The rest of a ranking by `auto`, and how many chunks earlier pages returned.
    pub page: Option<RankedCursor>,
    pub returned: i64,
    /// The last tier that `auto` may use.
    pub reach: Reach,
    /// The memories in the record, for a replay.
    pub memories: Option<Vec<(String, f64)>>,
}

/// The content of the prompt.
struct Material {
    chunks: Vec<BudgetChunk>,
    helpers: Vec<Option<Arc<str>>>,
    prompt: PromptTokens,
}

impl QueryRun<'_> {
    pub async fn run(&mut self) -> Result<(), QueryError> {
        if self.ask.searched.memories() && self.ask.cursor.is_none() {
            return self.run_with_memories().await;
        }

        self.run_sources().await
    }

    /// From sources alone.
    async fn run_sources(&mut self) -> Result<(), QueryError> {
        if self.ask.strategy == StrategyName::Auto {
            return self.run_auto().await;
        }

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

        let left = chunks
            .into_iter()
            .zip(&kept)
            .filter(|(_, kept)| **kept)
            .map(|(chunk, _)| chunk);

        self.result.chunks = left.collect();
        let before = self.cursor.as_ref().map_or(0, |page| page.after.returned);
        let before = i64::try_from(before).unwrap_or(0);
        for (rank, chunk) in (before + 1..).zip(&mut self.result.chunks) {
            chunk.rank = rank;
        }

        self.result.used_chunks = self.result.chunks.iter().map(used).collect();
        self.complete_chunks().await?;
        if self.ask.mode == Mode::Answer {
            self.answer(material, &kept, summaries).await?;
        }

        Ok(())
    }

    /// From the query to the leaves.
    async fn walk(&mut self) -> Result<(), QueryError> {
        let mut walk = Walk {
            leaves: std::mem::take(&mut self.known.paths),
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
                contents: self.contents().await?,
                events: self.events,
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
            let empty = match &self.known.empty {
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
                rank: 0,
                relevance: path.relevance(),
                text_content: chunk.text.clone(),
                category_path: path.names.clone(),
                ranked_relevance: path.ranked_relevance(),
                path_relevance: path.relevance(),
                created_at: chunk.created_at.to_string(),
                source_id: chunk.source_id.to_string(),
                source_version: chunk.source_version,
                filename: chunk.filename.clone(),
                path: chunk.path.clone(),
                heading: None,
                highlights: Vec::new(),
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
        let mode = self.known.mode.unwrap_or_else(|| {
            ModeTokens::of(&self.inner.llm, self.ask.model.as_deref(), self.counter)
        });
        self.record.mode = mode;
        let prompt =
            PromptTokens::count(self.counter, mode, query, helpers.clone(), chunks.clone()).await;
        let all = vec![true; chunks.len()];
        let (fixed, content) = (prompt.fixed(&all), prompt.content(&all));

        self.result.estimate = Some(PromptEstimate {
            fixed_prompt_token_count: fixed.tokens,
            chunks_total_token_count: content.tokens,
            fixed_prompt_char_count: fixed.chars,
            chunks_total_char_count: content.chars,
            query_token_count: prompt.query.tokens,
            schema_token_count: mode.answer,
            max_token_budget: self.whole_budget(),
            final_prompt_token_count: None,
            tokenizer: self.counter.name().to_owned(),
            exact: self.counter.is_exact(),
        });

        Ok(Material {
            chunks,
            helpers,
            prompt,
        })
    }

    async fn answer(
        &mut self,
        material: Material,
        kept: &[bool],
        summaries: Option<Vec<Arc<str>>>,
    ) -> Result<(), QueryError> {
        let task = self.answer_task(&material, kept, summaries.as_deref());
        self.send(task).await
    }

    /// What the model is asked: the kept chunks or their summaries, the helpers of their sources,
    /// and the memories.
    fn answer_task(
        &mut self,
        material: &Material,
        kept: &[bool],
        summaries: Option<&[Arc<str>]>,
    ) -> Answer {
        let mut used = vec![false; material.helpers.len()];
        let mut evidence = Vec::new();
        let places = material.chunks.iter().enumerate();
        for (place, chunk) in places.filter(|(place, _)| kept[*place]) {
            used[chunk.source] = true;
            let text = summaries.map_or(&chunk.text, |summaries| &summaries[place]);
            evidence.push(Evidence {
                chunk_id: chunk.chunk_id,
                path: Arc::clone(&chunk.label),
                text: Arc::clone(text),
            });
        }

        let helpers = material.helpers.iter().zip(used);
        let helpers = helpers.filter(|(_, used)| *used);
        let helpers = helpers.filter_map(|(helper, _)| helper.clone()).collect();

        evidence.extend(self.memory_evidence(&evidence));
        Answer {
            query: self.ask.query.as_str().into(),
            contextual_helpers: helpers,
            chunks: evidence,
            note_room: None,
        }
    }

    /// Asks the model, if the prompt fits.
    async fn send(&mut self, mut task: Answer) -> Result<(), QueryError> {
        let tokens = count_prompt(self.counter, self.record.mode, &task).await;
        if let Some(estimate) = &mut self.result.estimate {
            estimate.final_prompt_token_count = Some(tokens);
        }

        if tokens > self.whole_budget() {
            return Err(QueryError::FinalPromptOverBudget {
                tokens,
                budget: self.whole_budget(),
            });
        }

        task.note_room = usize::try_from(self.whole_budget() - tokens).ok();
        let llm = &self.inner.llm;
        let answered = if self.events.are_watched() {
            let listener = MemberListener::new("answer", |written| {
                self.events.tell(QueryEvent::Answer(written));
            });
            llm.ask_streaming(self.session, task, Some(&listener))
                .await?
        } else {
            llm.ask(self.session, task).await?
        };

        if answered.value.is_not_found() {
            self.admit_nothing_found();
            return Ok(());
        }

        self.cite(&answered.value.answer);
        self.result.answer = Some(answered.value.answer);
        Ok(())
    }

    /// The budget of chunks.
    fn budget(&self) -> i64 {
        self.whole_budget() - self.reserved
    }

    fn whole_budget(&self) -> i64 {
        i64::try_from(self.ask.max_token_budget).unwrap_or(i64::MAX)
    }
}

/// How an answer names a chunk.
fn used(chunk: &QueryChunk) -> UsedChunk {
    UsedChunk {
        chunk_id: chunk.chunk_id,
        category_path: chunk.category_path.clone(),
    }
}
