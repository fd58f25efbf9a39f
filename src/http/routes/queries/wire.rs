//! A query and its estimate on the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::config::query::{Overflow, PromptLimiting, StrategyName};
use crate::queries::input::{Mode, VersionScope};
use crate::queries::{Bound, Estimates, LevelBound, QueryInput};

/// A query. What is left out comes from the settings (`GET /v1/info`, section `query`).
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"query": "What did we decide about refunds?", "strategy": "zoom_in"}))]
pub struct QueryRequest {
    /// What is asked.
    #[schema(min_length = 1, max_length = 100_000, pattern = "\\S")]
    pub query: String,
    /// Whether to answer (`answer`, if left out) or to give the chunks (`retrieve`).
    #[serde(default)]
    pub mode: Option<QueryMode>,
    /// How the hierarchy is walked.
    #[serde(default)]
    pub strategy: Option<QueryStrategy>,
    /// Categories chosen on level 1.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 100)]
    pub n: Option<i64>,
    /// By how many that falls (`zoom_in`) or rises (`branch_out`) from level to level.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 100)]
    pub n2: Option<i64>,
    /// Most categories that `branch_out` chooses on a level.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 100)]
    pub per_level_max: Option<i64>,
    /// What to do when the chunks do not fit the budget.
    #[serde(default)]
    pub prompt_limiting_strategy: Option<QueryPromptLimiting>,
    /// Most tokens of the prompt that asks for the answer: instruction, query, helpers,
    /// frame and chunks. With `mode: retrieve` it holds only where it is given here.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 10_000_000)]
    pub max_token_budget: Option<i64>,
    /// `PRUNE`: whether the path with the lowest rank is dropped first; else the last one.
    #[serde(default)]
    pub use_rankings: Option<bool>,
    /// `PRUNE`, when the last path alone is over budget.
    #[serde(default)]
    pub overflow: Option<QueryOverflow>,
    /// Only these sources.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub source_ids: Vec<String>,
    /// Only sources that carry all of these tags.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub tags: Vec<String>,
    /// Only sources of this end user.
    #[serde(default)]
    #[schema(max_length = 128)]
    pub user_id: Option<String>,
    /// As the sources stood at this moment.
    #[serde(default)]
    #[schema(format = DateTime, example = "2026-01-31T12:00:00Z")]
    pub as_of: Option<String>,
    /// Of which versions of the sources; `latest` if left out.
    #[serde(default)]
    pub version_scope: Option<QueryVersionScope>,
    /// Most chunks of one category.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 500)]
    pub per_path_limit: Option<i64>,
    /// Most chunks in all; `next_cursor` leads on.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 500)]
    pub limit: Option<i64>,
    /// `next_cursor` of the same query, which then goes on with its paths, without a walk.
    #[serde(default)]
    pub cursor: Option<String>,
    /// The model for every task of this query, as `provider:model`.
    #[serde(default)]
    #[schema(example = "openai:gpt-4o-mini")]
    pub model: Option<String>,
    /// Asks for the same answer every time, as far as the model can: temperature 0, a fixed seed.
    #[serde(default)]
    pub deterministic: bool,
    /// Most model calls. Refused before the first where more may be needed.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub max_calls: Option<i64>,
    /// Most US dollars, by the configured prices. Refused before the first call where more may be
    /// needed.
    #[serde(default)]
    #[schema(exclusive_minimum = 0)]
    pub max_cost_usd: Option<f64>,
    /// Whether to wait for the answer (yes, if left out) or to get a job.
    #[serde(default)]
    pub wait: Option<bool>,
    /// Seconds that it may take.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 3600)]
    pub timeout_s: Option<i64>,
}

/// What to do with what was found.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueryMode {
    Answer,
    Retrieve,
}

/// How the hierarchy is walked: one category a level; `n` a level; `n`, then `n2` fewer each level;
/// `n`, then `n2` more.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueryStrategy {
    OneShot,
    WideBranch,
    ZoomIn,
    BranchOut,
}

/// Drop whole paths, or shorten every chunk.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum QueryPromptLimiting {
    Prune,
    Summarize,
}

/// Keep the chunks that match best, or refuse.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueryOverflow {
    Trim,
    Error,
}

/// What each source says now, or whatever it said.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueryVersionScope {
    Latest,
    All,
}

impl From<QueryStrategy> for StrategyName {
    fn from(strategy: QueryStrategy) -> Self {
        match strategy {
            QueryStrategy::OneShot => Self::OneShot,
            QueryStrategy::WideBranch => Self::WideBranch,
            QueryStrategy::ZoomIn => Self::ZoomIn,
            QueryStrategy::BranchOut => Self::BranchOut,
        }
    }
}

impl From<QueryRequest> for QueryInput {
    fn from(request: QueryRequest) -> Self {
        let limiting = |limiting| match limiting {
            QueryPromptLimiting::Prune => PromptLimiting::Prune,
            QueryPromptLimiting::Summarize => PromptLimiting::Summarize,
        };

        let overflow = |overflow| match overflow {
            QueryOverflow::Trim => Overflow::Trim,
            QueryOverflow::Error => Overflow::Error,
        };

        Self {
            query: request.query,
            mode: if matches!(request.mode, Some(QueryMode::Retrieve)) {
                Mode::Retrieve
            } else {
                Mode::Answer
            },
            strategy: request.strategy.map(Into::into),
            n: request.n,
            n2: request.n2,
            per_level_max: request.per_level_max,
            prompt_limiting_strategy: request.prompt_limiting_strategy.map(limiting),
            max_token_budget: request.max_token_budget,
            use_rankings: request.use_rankings,
            overflow: request.overflow.map(overflow),
            source_ids: request.source_ids,
            tags: request.tags,
            user_id: request.user_id,
            as_of: request.as_of,
            version_scope: match request.version_scope {
                Some(QueryVersionScope::All) => VersionScope::All,
                _ => VersionScope::Latest,
            },
            per_path_limit: request.per_path_limit,
            limit: request.limit,
            cursor: request.cursor,
            model: request.model,
            deterministic: request.deterministic,
            max_calls: request.max_calls,
            max_cost_usd: request.max_cost_usd,
            timeout_s: request.timeout_s,
        }
    }
}

/// The most that a query can take.
#[derive(Debug, Serialize, ToSchema)]
pub struct QueryEstimateResponse {
    /// The model that would answer.
    #[schema(example = "local:embedded")]
    pub model: String,
    /// The encoding by which tokens are counted.
    pub tokenizer: String,
    /// Whether that is the model's own.
    pub exact: bool,
    pub strategies: Vec<StrategyEstimateResponse>,
}

/// The most that a query can take with one strategy.
#[derive(Debug, Serialize, ToSchema)]
pub struct StrategyEstimateResponse {
    #[schema(example = "one_shot")]
    pub strategy: String,
    pub n: u64,
    pub n2: u64,
    /// Each level at its widest.
    pub levels: Vec<LevelEstimateResponse>,
    pub select_calls: i64,
    pub summarize_calls: i64,
    pub answer_calls: i64,
    /// All calls, each answered at the first attempt.
    pub calls: i64,
    /// With every answer asked again as often as the settings allow.
    pub calls_with_retries: i64,
    /// Tokens sent by `calls` at the most.
    pub tokens_prompt: i64,
    /// Tokens received by `calls` at the most: the longest answer that is allowed, each time.
    pub tokens_completion: i64,
    /// By the configured prices; null where one is not known.
    pub cost_usd: Option<f64>,
}

/// One level at its widest.
#[derive(Debug, Serialize, ToSchema)]
pub struct LevelEstimateResponse {
    pub level: i64,
    pub options: i64,
    pub max_selectable: i64,
    /// 0 where there is nothing to choose.
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
            strategy: bound.strategy.as_str().to_owned(),
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
