//! The wire format of a query and its estimate.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::config::query::{Overflow, PromptLimiting, StrategyName};
use crate::model::scope::{ScopeInput, Searched, VersionScope};
use crate::queries::input::Mode;
use crate::queries::{Bound, Estimates, LevelBound, QueryInput};

/// A query. Omitted fields use the settings (`GET /v1/info`, section `query`).
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"query": "What did we decide about refunds?", "max_token_budget": 4000}))]
pub struct QueryRequest {
    /// The question to ask.
    #[schema(min_length = 1, max_length = 100_000, pattern = "\\S")]
    pub query: String,
    /// Whether to generate an answer (`answer`, the default) or return only the chunks
    /// (`retrieve`).
    #[serde(default)]
    pub mode: Option<Mode>,
    /// How to find chunks; `auto` if omitted.
    #[serde(default)]
    pub strategy: Option<StrategyName>,
    /// Number of categories to select on level 1.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 100)]
    pub n: Option<i64>,
    /// By how much that number falls (`zoom_in`) or rises (`branch_out`) from level to level.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 100)]
    pub n2: Option<i64>,
    /// Maximum number of categories that `branch_out` selects on a level.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 100)]
    pub per_level_max: Option<i64>,
    /// What to do if the chunks do not fit the budget.
    #[serde(default)]
    pub prompt_limiting_strategy: Option<PromptLimiting>,
    /// Maximum tokens of the final prompt: instruction, query, helpers, frame and chunks. Must be
    /// more than `ingestion.chunk_min_tokens` + 100 (400 by default) and, with `SUMMARIZE`, more
    /// than `query.summarization_instruction_headroom_tokens` (1,024 by default). With
    /// `mode: retrieve` it applies only if you set it here, or with the strategy `auto`.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 10_000_000)]
    pub max_token_budget: Option<i64>,
    /// With `PRUNE`: whether to drop the path with the lowest rank first, rather than the last
    /// path.
    #[serde(default)]
    pub use_rankings: Option<bool>,
    /// With `PRUNE`: what to do if the last remaining path alone exceeds the budget.
    #[serde(default)]
    pub overflow: Option<Overflow>,
    /// With `PRUNE`: whether dropped paths are put back, best first, if they fit after all. Without
    /// it, dropping one large path can leave much of the budget unused (warning `budget_unused`).
    #[serde(default)]
    pub refill: bool,
    /// Only these sources.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub source_ids: Vec<String>,
    /// Only sources that have all of these tags.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub tags: Vec<String>,
    /// Only sources and memories of this end user.
    #[serde(default, deserialize_with = "crate::base::user_id::trimmed")]
    #[schema(max_length = 128)]
    pub user_id: Option<String>,
    /// Uses the source versions that were current at this time.
    #[serde(default)]
    #[schema(format = DateTime, example = "2026-01-31T12:00:00Z")]
    pub as_of: Option<String>,
    /// Which versions of the sources to read; `latest` if omitted.
    #[serde(default)]
    pub version_scope: Option<VersionScope>,
    /// Maximum number of chunks from one category.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 500)]
    pub per_path_limit: Option<i64>,
    /// Maximum number of chunks in total; use `next_cursor` to get more.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 500)]
    pub limit: Option<i64>,
    /// `next_cursor` from the same query; resumes pagination without repeating the walk.
    #[serde(default)]
    pub cursor: Option<String>,
    /// The model for every stage of this query, as `provider:model`.
    #[serde(default)]
    #[schema(example = "openai:gpt-4o-mini")]
    pub model: Option<String>,
    /// Requests the same output every time, as far as the model supports it: temperature 0, a fixed
    /// seed.
    #[serde(default)]
    pub deterministic: bool,
    /// Maximum number of model calls. A query that may need more is rejected before its first call;
    /// `auto` skips tiers instead, as long as the calls for the answer are within the limit.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub max_calls: Option<i64>,
    /// Maximum cost in US dollars, based on the configured prices. A query that may cost more is
    /// rejected before its first call.
    #[serde(default)]
    #[schema(exclusive_minimum = 0)]
    pub max_cost_usd: Option<f64>,
    /// Whether to wait for the answer (true, the default) or return a job.
    #[serde(default)]
    pub wait: Option<bool>,
    /// Timeout in seconds.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 3600)]
    pub timeout_s: Option<i64>,
    /// With `auto`: whether the result of the same query may be returned again without a model
    /// call, if it is recent (`query.reuse_ttl`) and nothing was written to the space since; true
    /// if omitted.
    #[serde(default)]
    pub reuse: Option<bool>,
    /// What to answer from: sources (`sources`, the default), the memories of the end user `user_id`
    /// (`memories`), or both. With `both`, memories take at most a third of the budget.
    #[serde(default)]
    pub scope: Option<Searched>,
}

impl From<QueryRequest> for QueryInput {
    fn from(request: QueryRequest) -> Self {
        Self {
            query: request.query,
            mode: request.mode.unwrap_or_default(),
            strategy: request.strategy,
            n: request.n,
            n2: request.n2,
            per_level_max: request.per_level_max,
            prompt_limiting_strategy: request.prompt_limiting_strategy,
            max_token_budget: request.max_token_budget,
            use_rankings: request.use_rankings,
            overflow: request.overflow,
            scope: ScopeInput {
                source_ids: request.source_ids,
                tags: request.tags,
                user_id: request.user_id,
                as_of: request.as_of,
                version_scope: request.version_scope.unwrap_or_default(),
            },
            per_path_limit: request.per_path_limit,
            limit: request.limit,
            cursor: request.cursor,
            model: request.model,
            deterministic: request.deterministic,
            max_calls: request.max_calls,
            max_cost_usd: request.max_cost_usd,
            timeout_s: request.timeout_s,
            reuse: request.reuse,
            refill: request.refill,
            searched: request.scope.unwrap_or_default(),
        }
    }
}

/// Upper bounds for a query.
#[derive(Debug, Serialize, ToSchema)]
pub struct QueryEstimateResponse {
    /// The model that would generate the answer.
    #[schema(example = "local:embedded")]
    pub model: String,
    /// The encoding used to count tokens.
    pub tokenizer: String,
    /// Whether this is the model's own encoding.
    pub exact: bool,
    pub strategies: Vec<StrategyEstimateResponse>,
}

/// Upper bounds for a query with one strategy.
#[derive(Debug, Serialize, ToSchema)]
pub struct StrategyEstimateResponse {
    #[schema(example = "one_shot")]
    pub strategy: String,
    pub n: u64,
    pub n2: u64,
    /// Upper bounds for each level.
    pub levels: Vec<LevelEstimateResponse>,
    pub select_calls: i64,
    pub summarize_calls: i64,
    pub answer_calls: i64,
    /// Total number of calls if every first attempt succeeds.
    pub calls: i64,
    /// Total number of calls if every call uses all retries that the settings allow.
    pub calls_with_retries: i64,
    /// Maximum tokens sent by `calls`.
    pub tokens_prompt: i64,
    /// Maximum tokens received by `calls`, assuming the longest allowed output each time.
    pub tokens_completion: i64,
    /// Cost in US dollars, based on the configured prices; null if a price is unknown.
    pub cost_usd: Option<f64>,
}

/// Upper bounds for one level.
#[derive(Debug, Serialize, ToSchema)]
pub struct LevelEstimateResponse {
    pub level: i64,
    pub options: i64,
    pub max_selectable: i64,
    /// Maximum tokens sent; 0 if there is nothing to choose, so that no call is needed.
    pub tokens_prompt: i64,
}

impl From<Estimates> for QueryEstimateResponse {
    fn from(estimates: Estimates) -> Self {
        let tokenizer = estimates.tokenizer.to_owned();
        let strategies = estimates.strategies.into_iter().map(Into::into).collect();
        Self {
            model: estimates.model,
            tokenizer,
            exact: estimates.exact,
            strategies,
        }
    }
}

impl From<Bound> for StrategyEstimateResponse {
    fn from(bound: Bound) -> Self {
        Self {
            strategy: bound.strategy.into_str().to_owned(),
            n: bound.n,
            n2: bound.n2,
            levels: bound.levels.into_iter().map(Into::into).collect(),
            select_calls: bound.select_calls,
            summarize_calls: bound.summarize_calls,
            answer_calls: bound.answer_calls,
            calls: bound.calls,
            calls_with_retries: bound.calls_with_retries,
            tokens_prompt: bound.tokens_prompt,
            tokens_completion: bound.tokens_completion,
            cost_usd: bound.cost_usd,
        }
    }
}

impl From<LevelBound> for LevelEstimateResponse {
    fn from(bound: LevelBound) -> Self {
        let LevelBound {
            level,
            options,
            max_selectable,
            tokens_prompt,
        } = bound;
        Self {
            level,
            options,
            max_selectable,
            tokens_prompt,
        }
    }
}
