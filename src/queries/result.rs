//! The result of a query: one shape for the answer, for a job's result, and for a query without an
//! answer.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::input::QuerySettings;
use super::traversal::{Level, Path, Reason};
use crate::model::llm_call::LlmCall;

/// The result of a query: the answer, its basis, what was dropped and why, and every call.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct QueryResult {
    /// The id of its receipt.
    pub id: String,
    /// The effective strategy.
    #[schema(example = "one_shot")]
    pub strategy: String,
    /// The effective value of every parameter.
    pub parameters: QuerySettings,
    /// Warnings that did not stop the query.
    pub warnings: Vec<QueryWarning>,
    /// The answer; null if none was requested or given.
    pub answer: Option<String>,
    /// The chunks from which the answer was written.
    pub used_chunks: Vec<UsedChunk>,
    /// The chunks in order, verbatim.
    pub chunks: Vec<QueryChunk>,
    /// Pass this as `cursor` to continue with the same paths, without repeating the walk; null at
    /// the end.
    pub next_cursor: Option<String>,
    /// The paths to the leaves that were read, in order.
    pub paths: Vec<QueryPath>,
    /// The paths that were dropped.
    pub dropped_paths: Vec<DroppedPath>,
    /// Chunks of a kept path that did not fit the budget.
    pub dropped_chunks: Vec<DroppedChunk>,
    /// Paths that could not be used.
    pub path_errors: Vec<PathError>,
    /// How much of the budget all chunks together take.
    pub estimate: Option<PromptEstimate>,
    /// How chunks were shortened, if they were.
    pub summarization: Option<Summarization>,
    /// One entry per leaf. For leaves read in one statement, the first entry has its time.
    pub retrievals: Vec<Retrieval>,
    /// Every model call, in order.
    pub responses: Vec<QueryCall>,
    /// Milliseconds of all model calls and retrievals together.
    pub total_latency: f64,
    /// Wall-clock time in milliseconds.
    pub elapsed_ms: f64,
}

/// A warning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueryWarning {
    pub code: String,
    pub message: String,
}

/// A chunk from which the answer was written.
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
    /// Verbatim, as in the source.
    pub text_content: String,
    /// Names from level 1 to the leaf.
    pub category_path: Vec<String>,
    /// The rank of its leaf, from 1 to the number that could be selected there.
    pub ranked_relevance: i64,
    /// The mean over all levels of rank divided by best rank; above 0 and at most 1.
    pub path_relevance: f64,
    #[schema(format = DateTime)]
    pub created_at: String,
    pub source_id: String,
    pub source_version: i64,
    /// Start position in the source, in characters.
    pub start_char: i64,
    /// End position, exclusive.
    pub end_char: i64,
}

/// A path to a leaf.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueryPath {
    /// Names from level 1.
    pub names: Vec<String>,
    /// Ids from level 1.
    pub ids: Vec<i64>,
    /// Ranks from level 1.
    pub ranks: Vec<LevelRank>,
    pub path_relevance: f64,
    /// The number of chunks read from it.
    pub chunk_count: i64,
}

/// A rank on one level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LevelRank {
    pub ranked_relevance: i64,
    /// The best possible rank on that level: the number that could be selected.
    pub best: i64,
}

/// A dropped path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DroppedPath {
    /// Names from level 1 to where the path ended.
    pub path: Vec<String>,
    /// `not_leaf`, `not_selected`, `empty`, `pruned`, or `limited`: earlier paths used up `limit`.
    #[schema(example = "pruned")]
    pub reason: String,
}

/// A chunk that did not fit the budget.
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

/// How much of the budget the chunks take. Counted part by part with the answering model's
/// tokenizer: the fixed part is the instruction, the query, the helpers of the sources, and the
/// delimiters around each chunk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PromptEstimate {
    pub fixed_prompt_token_count: i64,
    pub chunks_total_token_count: i64,
    pub fixed_prompt_char_count: i64,
    pub chunks_total_char_count: i64,
    /// The part of the fixed prompt that is the query.
    pub query_token_count: i64,
    pub max_token_budget: i64,
    /// The prompt as sent, counted as a whole; null if none was sent.
    pub final_prompt_token_count: Option<i64>,
    /// The encoding used to count tokens.
    #[schema(example = "o200k_base")]
    pub tokenizer: String,
    /// Whether that is the model's own encoding.
    pub exact: bool,
}

/// How chunks were shortened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Summarization {
    /// The share of the chunks' tokens that fits the budget.
    pub ratio: f64,
    /// Maximum input tokens of one call.
    pub part_token_cap: i64,
    pub parts: Vec<SummaryPart>,
    pub chunks: Vec<SummarizedChunk>,
    /// Characters of all summaries together, and their maximum.
    pub combined_char_count: i64,
    pub allowed_char_count: i64,
}

/// The chunks of one call.
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
    /// The text in the prompt that replaced the chunk.
    pub summary: String,
}

/// One read of a leaf.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Retrieval {
    pub category_id: i64,
    pub path: Vec<String>,
    pub chunk_count: i64,
    pub latency_ms: f64,
}

/// One model call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueryCall {
    /// `select`, `summarize` or `answer`.
    pub stage: String,
    pub level: Option<i64>,
    /// How many could be selected; only for `select`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_selectable: Option<i64>,
    pub attempt: i64,
    /// `ok`, `invalid`, `truncated`, `refused`, `transport_error` or `cancelled`.
    pub outcome: String,
    /// The model's answer, once parsed.
    #[schema(value_type = Option<std::collections::HashMap<String, Value>>)]
    pub llm_output: Option<Value>,
    #[schema(format = DateTime)]
    pub timestamp: String,
    pub latency_ms: f64,
    pub provider: String,
    pub model: String,
    /// How the schema of the answer was enforced: `native`, `tool`, `prompted`, or `embedded`.
    pub mode: String,
    pub tokens_prompt: i64,
    pub tokens_completion: i64,
    /// The part of `tokens_prompt` that came from the provider's cache.
    pub tokens_cached: i64,
    pub cost_usd: Option<f64>,
    /// The parameters as sent.
    #[schema(value_type = std::collections::HashMap<String, Value>)]
    pub provider_params: Value,
}

impl QueryResult {
    /// An empty result.
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

    /// Adds the calls, and sums up the time of calls and retrievals.
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

        // The sum of nothing is -0.0, which would be visible.
        self.total_latency = asking + reading + 0.0;
    }

    /// A copy without the chunks.
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
