//! What a query led to: one shape for the answer, for a job's result, and for what could not be
//! answered (M-4.7).

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::input::QuerySettings;
use super::traversal::{Level, Path, Reason};
use crate::model::llm_call::LlmCall;

/// What a query led to: the answer, what it rests on, what was left out and why, and every call.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct QueryResult {
    /// The id of its receipt.
    pub id: String,
    /// The strategy that was in force.
    #[schema(example = "one_shot")]
    pub strategy: String,
    /// Every parameter as it was in force.
    pub parameters: QuerySettings,
    /// What did not stop the query but should be known.
    pub warnings: Vec<QueryWarning>,
    /// The answer; null where none was asked for or none was given.
    pub answer: Option<String>,
    /// The chunks that the answer was written from.
    pub used_chunks: Vec<UsedChunk>,
    /// The chunks in order, verbatim.
    pub chunks: Vec<QueryChunk>,
    /// Pass it as `cursor` to go on with the same paths, without a walk; null at the end.
    pub next_cursor: Option<String>,
    /// The ways down to the leaves that were read, in order.
    pub paths: Vec<QueryPath>,
    /// The ways that came to nothing.
    pub dropped_paths: Vec<DroppedPath>,
    /// Chunks of a kept path that did not fit the budget.
    pub dropped_chunks: Vec<DroppedChunk>,
    /// Paths that could not be used.
    pub path_errors: Vec<PathError>,
    /// What the chunks take of the budget, all of them together.
    pub estimate: Option<PromptEstimate>,
    /// How chunks were shortened, if they were.
    pub summarization: Option<Summarization>,
    /// One for each leaf. Leaves read in one run: its time stands on the first of them.
    pub retrievals: Vec<Retrieval>,
    /// Every attempt to ask a model, in order.
    pub responses: Vec<QueryCall>,
    /// Milliseconds of all model calls and retrievals together.
    pub total_latency: f64,
    /// Milliseconds by the clock on the wall.
    pub elapsed_ms: f64,
}

/// Something that should be known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueryWarning {
    pub code: String,
    pub message: String,
}

/// A chunk that the answer was written from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsedChunk {
    pub chunk_id: i64,
    /// Names from level 1 to the leaf.
    pub category_path: Vec<String>,
}

/// A chunk that was found.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct QueryChunk {
    pub chunk_id: i64,
    /// As the source has it.
    pub text_content: String,
    /// Names from level 1 to the leaf.
    pub category_path: Vec<String>,
    /// The rank of its leaf, 1 to the most that could be chosen there.
    pub ranked_relevance: i64,
    /// The mean over the levels of the rank by the best rank, above 0 and at most 1.
    pub path_relevance: f64,
    #[schema(format = DateTime)]
    pub created_at: String,
    pub source_id: String,
    pub source_version: i64,
    /// Where it begins in the source, in characters.
    pub start_char: i64,
    /// Where it ends, exclusive.
    pub end_char: i64,
}

/// A way down to a leaf.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueryPath {
    /// Names from level 1.
    pub names: Vec<String>,
    /// Ids from level 1.
    pub ids: Vec<i64>,
    /// Ranks from level 1.
    pub ranks: Vec<LevelRank>,
    pub path_relevance: f64,
    /// Chunks that were read of it.
    pub chunk_count: i64,
}

/// A rank on one level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LevelRank {
    pub ranked_relevance: i64,
    /// The best rank on that level: the most that could be chosen.
    pub best: i64,
}

/// A way that came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DroppedPath {
    /// Names from level 1 to where it ended.
    pub path: Vec<String>,
    /// `not_leaf`, `not_selected`, `empty`, `pruned`, or `limited`: earlier paths took all of
    /// `limit`.
    #[schema(example = "pruned")]
    pub reason: String,
}

/// A chunk that did not fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DroppedChunk {
    pub chunk_id: i64,
    pub category_path: Vec<String>,
    /// `over_budget`.
    pub reason: String,
}

/// A path that could not be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PathError {
    pub path: Vec<String>,
    /// `no_chunks_found`.
    pub code: String,
    pub message: String,
}

/// What the chunks take of the budget. Counted piece by piece with the answering model's
/// tokenizer: the fixed part is the instruction, the query, the helpers of the sources,
/// and the frame around each chunk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PromptEstimate {
    pub fixed_prompt_token_count: i64,
    pub chunks_total_token_count: i64,
    pub fixed_prompt_char_count: i64,
    pub chunks_total_char_count: i64,
    /// The part of the fixed prompt that is the query.
    pub query_token_count: i64,
    pub max_token_budget: i64,
    /// The prompt as it was sent, counted as a whole; null where none was.
    pub final_prompt_token_count: Option<i64>,
    /// The encoding by which tokens were counted.
    #[schema(example = "o200k_base")]
    pub tokenizer: String,
    /// Whether that is the model's own.
    pub exact: bool,
}

/// How chunks were shortened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Summarization {
    /// The share of the chunks' tokens that the budget leaves room for.
    pub ratio: f64,
    /// Most tokens of the input of one call.
    pub part_token_cap: i64,
    pub parts: Vec<SummaryPart>,
    pub chunks: Vec<SummarizedChunk>,
    /// Characters of all summaries together, and the most that they may have.
    pub combined_char_count: i64,
    pub allowed_char_count: i64,
}

/// One call's worth of chunks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SummaryPart {
    pub chunk_ids: Vec<i64>,
    pub input_token_count: i64,
}

/// A chunk and its summary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SummarizedChunk {
    pub chunk_id: i64,
    pub original_chars: i64,
    pub target_chars: i64,
    pub summary_chars: i64,
    /// What stood in the prompt instead of the chunk.
    pub summary: String,
}

/// One reading of a leaf.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Retrieval {
    pub category_id: i64,
    pub path: Vec<String>,
    pub chunk_count: i64,
    pub latency_ms: f64,
}

/// One attempt to ask a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueryCall {
    /// `select`, `summarize` or `answer`.
    pub stage: String,
    pub level: Option<i64>,
    /// Most that could be chosen; for `select` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_selectable: Option<i64>,
    pub attempt: i64,
    /// `ok`, `invalid`, `truncated`, `refused`, `transport_error` or `cancelled`.
    pub outcome: String,
    /// What the model answered, once it was read.
    #[schema(value_type = Option<std::collections::HashMap<String, Value>>)]
    pub llm_output: Option<Value>,
    #[schema(format = DateTime)]
    pub timestamp: String,
    pub latency_ms: f64,
    pub provider: String,
    pub model: String,
    /// How the answer was made to keep its schema: `native`, `tool`, `prompted`, or `embedded`.
    pub mode: String,
    pub tokens_prompt: i64,
    pub tokens_completion: i64,
    /// The part of `tokens_prompt` that the provider had in its cache.
    pub tokens_cached: i64,
    pub cost_usd: Option<f64>,
    /// The parameters as they were sent.
    #[schema(value_type = std::collections::HashMap<String, Value>)]
    pub provider_params: Value,
}

impl QueryResult {
    /// Nothing yet.
    pub fn new(id: String, ask: &QuerySettings) -> Self {
        Self {
            id,
            strategy: ask.strategy.as_str().to_owned(),
            parameters: ask.clone(),
            warnings: Vec::new(),
            answer: None,
            used_chunks: Vec::new(),
            chunks: Vec::new(),
            next_cursor: None,
            paths: Vec::new(),
            dropped_paths: Vec::new(),
            dropped_chunks: Vec::new(),
            path_errors: Vec::new(),
            estimate: None,
            summarization: None,
            retrievals: Vec::new(),
            responses: Vec::new(),
            total_latency: 0.0,
            elapsed_ms: 0.0,
        }
    }

    pub fn warn(&mut self, code: &str, message: impl Into<String>) {
        self.warnings.push(QueryWarning {
            code: code.to_owned(),
            message: message.into(),
        });
    }

    pub fn drop_path(&mut self, path: &Path, reason: Reason) {
        self.dropped_paths.push(DroppedPath {
            path: path.names.clone(),
            reason: reason.as_str().to_owned(),
        });
    }

    /// Puts in the calls, and sums up the time they and the retrievals took.
    pub fn account(&mut self, calls: Vec<LlmCall>, levels: &[Level]) {
        let most = |call: &LlmCall| {
            let level = call.level.filter(|_| call.stage == "select")?;
            levels
                .iter()
                .find(|record| record.level == level)
                .map(|record| record.max_selectable)
        };

        self.responses = calls
            .into_iter()
            .map(|call| QueryCall::of(most(&call), call))
            .collect();

        let asking: f64 = self.responses.iter().map(|call| call.latency_ms).sum();
        let reading: f64 = self
            .retrievals
            .iter()
            .map(|retrieval| retrieval.latency_ms)
            .sum();

        // The sum of nothing is -0.0, which would be shown.
        self.total_latency = asking + reading + 0.0;
    }

    /// A copy of all but the chunks.
    #[must_use]
    pub fn without_chunks(&self) -> Self {
        Self {
            id: self.id.clone(),
            strategy: self.strategy.clone(),
            parameters: self.parameters.clone(),
            warnings: self.warnings.clone(),
            answer: self.answer.clone(),
            used_chunks: self.used_chunks.clone(),
            chunks: Vec::new(),
            next_cursor: self.next_cursor.clone(),
            paths: self.paths.clone(),
            dropped_paths: self.dropped_paths.clone(),
            dropped_chunks: self.dropped_chunks.clone(),
            path_errors: self.path_errors.clone(),
            estimate: self.estimate.clone(),
            summarization: self.summarization.clone(),
            retrievals: self.retrievals.clone(),
            responses: self.responses.clone(),
            total_latency: self.total_latency,
            elapsed_ms: self.elapsed_ms,
        }
    }
}

impl From<&Path> for QueryPath {
    fn from(path: &Path) -> Self {
        let rank = |(ranked_relevance, best): &(i64, i64)| LevelRank {
            ranked_relevance: *ranked_relevance,
            best: *best,
        };
        Self {
            names: path.names.clone(),
            ids: path.ids.clone(),
            ranks: path.ranks.iter().map(rank).collect(),
            path_relevance: path.relevance(),
            chunk_count: 0,
        }
    }
}

impl QueryCall {
    fn of(max_selectable: Option<i64>, call: LlmCall) -> Self {
        Self {
            stage: call.stage,
            level: call.level,
            max_selectable,
            attempt: call.attempt,
            outcome: call.outcome,
            llm_output: call.llm_output,
            timestamp: call.timestamp.to_string(),
            latency_ms: call.latency_ms,
            provider: call.provider,
            model: call.model,
            mode: call.mode,
            tokens_prompt: call.tokens_prompt,
            tokens_completion: call.tokens_completion,
            tokens_cached: call.tokens_cached,
            cost_usd: call.cost_usd,
            provider_params: call.provider_params,
        }
    }
}
