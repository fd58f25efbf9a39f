//! The result of a query: one type for a response, for the result of a job, and for a query that
//! could not be answered.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::auto::Tier;
use super::citations::Citation;
use super::input::QuerySettings;
use super::traversal::{Level, Path, Reason};
use crate::model::llm_call::LlmCall;
use crate::model::query::QueryUses;

/// The result of a query: the answer, the chunks it is based on, what was dropped and why, and
/// every model call.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct QueryResult {
    /// The id of the receipt.
    pub id: String,
    /// The strategy in force.
    #[schema(example = "auto")]
    pub strategy: String,
    /// With `auto`, the last tier that was used: `recalled`, `search`, `pick` or `walk`; null for
    /// the other strategies.
    #[serde(default)]
    #[schema(example = "search")]
    pub tier: Option<String>,
    /// With `auto`, each tier: what it found, and why the query stopped there or continued.
    #[serde(default)]
    pub tiers: Vec<Tier>,
    /// Whether anything relevant to the query was found. If not, there is no answer, and `nearest`
    /// shows what comes closest.
    #[serde(default = "yes")]
    pub found: bool,
    /// With `auto`, how sure memoir is that the chunks answer the query: `high`, `medium` or `low`;
    /// null for the other strategies. If the embedded model answers, how sure memoir is of the
    /// answer: `high` only if a quoted sentence has what is asked for (a number, a date, a name, a
    /// place) and is about what is asked.
    #[serde(default)]
    #[schema(example = "high")]
    pub confidence: Option<String>,
    /// All parameters in force.
    pub parameters: QuerySettings,
    /// Problems that did not stop the query.
    pub warnings: Vec<QueryWarning>,
    /// The answer; null if none was requested or none was generated.
    pub answer: Option<String>,
    /// The sentences that the answer is based on, in the order in which it cites them.
    #[serde(default)]
    pub citations: Vec<Citation>,
    /// The chunks that the answer is based on.
    pub used_chunks: Vec<UsedChunk>,
    /// The chunks in order, verbatim.
    pub chunks: Vec<QueryChunk>,
    /// If nothing was found: the chunks that come closest, best first.
    #[serde(default)]
    pub nearest: Vec<QueryChunk>,
    /// The memories that the answer is based on, best first; empty unless `scope` includes
    /// memories.
    #[serde(default)]
    pub memories: Vec<QueryMemory>,
    /// Pass it as `cursor` to resume pagination without repeating the walk; null on the last page.
    pub next_cursor: Option<String>,
    /// The paths to the leaves that were read, in order.
    pub paths: Vec<QueryPath>,
    /// The paths that were dropped.
    pub dropped_paths: Vec<DroppedPath>,
    /// Chunks of a kept path that did not fit the budget.
    pub dropped_chunks: Vec<DroppedChunk>,
    /// Paths that could not be used.
    pub path_errors: Vec<PathError>,
    /// The token count of all chunks compared with the budget.
    pub estimate: Option<PromptEstimate>,
    /// How chunks were summarised, if they were.
    pub summarization: Option<Summarization>,
    /// One entry per leaf. If several leaves were read in one database query, the first entry has
    /// its time.
    pub retrievals: Vec<LeafRead>,
    /// All model call attempts, in order.
    pub responses: Vec<QueryCall>,
    /// Total time of all model calls and retrievals in milliseconds.
    pub total_latency: f64,
    /// Wall-clock time in milliseconds.
    pub elapsed_ms: f64,
}

fn yes() -> bool {
    true
}

/// A warning about a query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueryWarning {
    pub code: String,
    pub message: String,
}

/// A chunk that the answer is based on.
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
    /// Starts at 1, which is the best. With strategies that read whole leaves, the position in the
    /// result.
    #[serde(default)]
    pub rank: i64,
    /// How well the chunk itself fits the query, from 0 to 1; with strategies that read whole
    /// leaves, the same as `path_relevance`.
    #[serde(default)]
    pub relevance: f64,
    /// The text as it is in the source.
    pub text_content: String,
    /// Names from level 1 to the leaf.
    pub category_path: Vec<String>,
    /// The points of its leaf: more is better. The first choice gets as many points as leaves could
    /// be selected, the last choice gets 1.
    pub ranked_relevance: i64,
    /// The mean, over all levels, of the rank divided by the best possible rank; above 0 and at
    /// most 1.
    pub path_relevance: f64,
    #[schema(format = DateTime)]
    pub created_at: String,
    pub source_id: String,
    pub source_version: i64,
    /// The file name of the source.
    #[serde(default)]
    pub filename: String,
    /// The path of the source.
    #[serde(default)]
    pub path: String,
    /// The headings above the chunk, highest first, separated by ` › `; null if there is none.
    #[serde(default)]
    pub heading: Option<String>,
    /// The positions of the query's words in `text_content`.
    #[serde(default)]
    pub highlights: Vec<Highlight>,
    /// Start offset in the text of the version, in characters.
    pub start_char: i64,
    /// End offset in characters, exclusive.
    pub end_char: i64,
}

/// A memory that was found.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct QueryMemory {
    pub memory_id: String,
    /// The end user who owns it.
    pub user_id: String,
    pub thread_id: Option<String>,
    /// `message`, `fact`, `preference` or `summary`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Who said it: `user`, `assistant` or `system`.
    pub role: String,
    /// The text, verbatim.
    pub text_content: String,
    /// How well it fits the query, from 0 to 1.
    pub relevance: f64,
    #[schema(format = DateTime)]
    pub created_at: String,
    /// The number by which the prompt names it; null if there was no prompt.
    pub number: Option<i64>,
    /// Whether the answer cites it.
    pub cited: bool,
}

/// A range of characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Highlight {
    /// Start offset, in characters.
    pub start: usize,
    /// End offset in characters, exclusive.
    pub end: usize,
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
    /// Number of chunks read from it.
    pub chunk_count: i64,
}

/// The points of a category on one level: more is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LevelRank {
    pub ranked_relevance: i64,
    /// The points of the first choice on that level: the maximum number of categories that could be
    /// selected there.
    pub best: i64,
}

/// A path that was dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DroppedPath {
    /// Names from level 1 to the category at which the path ended.
    pub path: Vec<String>,
    /// `not_leaf`: it ends above the deepest level; `not_selected`: none of its children was
    /// selected; `empty`: its leaf has no chunks that the query may read; `pruned`: it did not fit
    /// the budget; `limited`: earlier paths used up `limit`.
    #[schema(example = "pruned")]
    pub reason: String,
}

/// A chunk that did not fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DroppedChunk {
    pub chunk_id: i64,
    pub category_path: Vec<String>,
    /// Always `over_budget`.
    pub reason: String,
}

/// A path that could not be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PathError {
    pub path: Vec<String>,
    /// Always `no_chunks_found`.
    pub code: String,
    pub message: String,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &i64) -> bool {
    *count == 0
}

/// The token count of the chunks compared with the budget, using the tokenizer of the answering
/// model. Parts are counted separately; the fixed part is the instruction, the query, the helpers
/// of the sources, the frame around each chunk, and the schema of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PromptEstimate {
    pub fixed_prompt_token_count: i64,
    pub chunks_total_token_count: i64,
    pub fixed_prompt_char_count: i64,
    pub chunks_total_char_count: i64,
    /// Tokens of the query, which are part of the fixed prompt.
    pub query_token_count: i64,
    /// Tokens of the schema or tool that a provider gets with the messages, in the longest form
    /// that the model may need, and of the marks around the messages. They are part of the fixed
    /// prompt. 0 for the embedded model.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub schema_token_count: i64,
    pub max_token_budget: i64,
    /// Tokens of the complete prompt that was sent, counted as above; null if none was sent.
    pub final_prompt_token_count: Option<i64>,
    /// The encoding used to count tokens.
    #[schema(example = "o200k_base")]
    pub tokenizer: String,
    /// Whether this is the model's own encoding.
    pub exact: bool,
}

/// How chunks were summarised.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Summarization {
    /// The share of the tokens of all chunks that fits the budget.
    pub ratio: f64,
    /// Maximum input tokens per call.
    pub part_token_cap: i64,
    pub parts: Vec<SummaryPart>,
    pub chunks: Vec<SummarizedChunk>,
    /// Total characters of all summaries.
    pub combined_char_count: i64,
    /// Maximum characters of all summaries.
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
    /// The text that replaced the chunk in the prompt.
    pub summary: String,
}

/// One read of a leaf.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Retrieval)]
pub struct LeafRead {
    pub category_id: i64,
    pub path: Vec<String>,
    pub chunk_count: i64,
    pub latency_ms: f64,
}

/// One attempt of a model call.
// Not `LlmCall`: receipts hash these fields in this order, with an empty time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueryCall {
    /// `select`, `summarize` or `answer`.
    pub stage: String,
    /// The level of the hierarchy; 0 for the pick of `auto`, null for calls that choose no
    /// categories.
    pub level: Option<i64>,
    /// Maximum number of options that could be selected; only for `select`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_selectable: Option<i64>,
    pub attempt: i64,
    /// `ok`, `invalid`, `truncated`, `refused`, `transport_error` or `cancelled`.
    pub outcome: String,
    /// The parsed output of the model.
    #[schema(value_type = Option<std::collections::HashMap<String, Value>>)]
    pub llm_output: Option<Value>,
    #[schema(format = DateTime)]
    pub timestamp: String,
    pub latency_ms: f64,
    pub provider: String,
    pub model: String,
    /// How the output schema was enforced: `native`, `tool`, `prompted` or `embedded`.
    pub mode: String,
    pub tokens_prompt: i64,
    pub tokens_completion: i64,
    /// The part of `tokens_prompt` that the provider served from its cache.
    pub tokens_cached: i64,
    pub cost_usd: Option<f64>,
    /// The parameters sent to the provider.
    #[schema(value_type = std::collections::HashMap<String, Value>)]
    pub provider_params: Value,
}

impl QueryResult {
    /// What the result holds text of; `helpers` are the sources whose helpers were in the prompt.
    pub fn uses(&self, erasures: i64, helpers: &[(String, i64)]) -> QueryUses {
        let chunks = self.chunks.iter().chain(&self.nearest);
        let sources = chunks.map(|chunk| chunk.source_id.clone());
        let helped = helpers.iter().map(|(source_id, _)| source_id.clone());
        let cited = self
            .citations
            .iter()
            .filter_map(|one| one.source_id.clone());
        let memories = &self.memories;
        QueryUses {
            sources: sources.chain(helped).chain(cited).collect(),
            memories: memories.iter().map(|one| one.memory_id.clone()).collect(),
            threads: memories
                .iter()
                .filter_map(|one| one.thread_id.clone())
                .collect(),
            erasures,
        }
    }

    /// An empty result.
    pub fn new(id: String, settings: &QuerySettings) -> Self {
        Self {
            id,
            strategy: settings.strategy.into_str().to_owned(),
            found: true,
            parameters: settings.clone(),
            ..Self::default()
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
            reason: reason.into_str().to_owned(),
        });
    }

    /// Adds the calls, and sums the time of calls and retrievals.
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

        // The sum of an empty list is -0.0, which would be displayed.
        self.total_latency = asking + reading + 0.0;
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
