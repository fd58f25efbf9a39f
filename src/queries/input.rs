//! A query with all parameters: the caller's values, completed from the settings, and checked
//! together.

use memoir_text::field_error::FieldError;
use memoir_text::text::char_count;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::QueryError;
use super::strategy::Strategy;
use crate::config;
use crate::config::query::{
    MAX_BUDGET, MAX_LIMIT, MAX_N, MAX_SECONDS, Overflow, PromptLimiting, ROOM, StrategyName,
};
use crate::model::scope::{MEMORIES_NEED_A_USER, QueryScope, ScopeInput, Searched, VersionScope};

/// Maximum length of a query in characters.
pub const MAX_QUERY_CHARS: usize = 100_000;

/// What to do with the chunks that were found: generate an answer from them (`answer`), or only
/// return them (`retrieve`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = QueryMode)]
pub enum Mode {
    #[default]
    Answer,
    Retrieve,
}

/// A query. Omitted fields use the settings (`GET /v1/info`, section `query`).
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = QueryRequest, example = json!({"query": "What did we decide about refunds?", "max_token_budget": 4000}))]
pub struct QueryInput {
    /// The question to ask.
    #[schema(min_length = 1, max_length = 100_000, pattern = "\\S")]
    pub query: String,
    /// Whether to generate an answer (`answer`, the default) or return only the chunks
    /// (`retrieve`).
    pub mode: Option<Mode>,
    /// How to find chunks; `auto` if omitted.
    pub strategy: Option<StrategyName>,
    /// Number of categories to select on level 1.
    #[schema(minimum = 1, maximum = 100)]
    pub n: Option<i64>,
    /// By how much that number falls (`zoom_in`) or rises (`branch_out`) from level to level.
    #[schema(minimum = 0, maximum = 100)]
    pub n2: Option<i64>,
    /// Maximum number of categories that `branch_out` selects on a level.
    #[schema(minimum = 1, maximum = 100)]
    pub per_level_max: Option<i64>,
    /// What to do if the chunks do not fit the budget.
    pub prompt_limiting_strategy: Option<PromptLimiting>,
    /// Maximum tokens of the final prompt: instruction, query, helpers, frame and chunks. Must be
    /// more than `ingestion.chunk_min_tokens` + 100 (400 by default) and, with `SUMMARIZE`, more
    /// than `query.summarization_instruction_headroom_tokens` (1,024 by default). With
    /// `mode: retrieve` it applies only if you set it here, or with the strategy `auto`.
    #[schema(minimum = 1, maximum = 10_000_000)]
    pub max_token_budget: Option<i64>,
    /// With `PRUNE`: whether to drop the path with the lowest rank first, rather than the last
    /// path.
    pub use_rankings: Option<bool>,
    /// With `PRUNE`: what to do if the last remaining path alone exceeds the budget.
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
    #[schema(format = DateTime, example = "2026-01-31T12:00:00Z")]
    pub as_of: Option<String>,
    /// Which versions of the sources to read; `latest` if omitted.
    pub version_scope: Option<VersionScope>,
    /// Maximum number of chunks from one category.
    #[schema(minimum = 1, maximum = 500)]
    pub per_path_limit: Option<i64>,
    /// Maximum number of chunks in total; use `next_cursor` to get more.
    #[schema(minimum = 1, maximum = 500)]
    pub limit: Option<i64>,
    /// `next_cursor` from the same query; resumes pagination without repeating the walk.
    pub cursor: Option<String>,
    /// The model for every stage of this query, as `provider:model`.
    #[schema(example = "openai:gpt-4o-mini")]
    pub model: Option<String>,
    /// Requests the same output every time, as far as the model supports it: temperature 0, a fixed
    /// seed.
    #[serde(default)]
    pub deterministic: bool,
    /// Maximum number of model calls. A query that may need more is rejected before its first call;
    /// `auto` skips tiers instead, as long as the calls for the answer are within the limit.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub max_calls: Option<i64>,
    /// Maximum cost in US dollars, based on the configured prices. A query that may cost more is
    /// rejected before its first call.
    #[schema(exclusive_minimum = 0)]
    pub max_cost_usd: Option<f64>,
    /// Whether to wait for the answer (true, the default) or return a job.
    pub wait: Option<bool>,
    /// Timeout in seconds.
    #[schema(minimum = 1, maximum = 3600)]
    pub timeout_s: Option<i64>,
    /// With `auto`: whether the result of the same query may be returned again without a model
    /// call, if it is recent (`query.reuse_ttl`) and nothing was written to the space since; true
    /// if omitted.
    pub reuse: Option<bool>,
    /// What to answer from: sources (`sources`, the default), the memories of the end user `user_id`
    /// (`memories`), or both. With `both`, memories take at most a third of the budget.
    pub scope: Option<Searched>,
}

/// A query with all parameters in force.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = QueryParameters)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a parameter of its own on the wire"
)]
pub struct QuerySettings {
    pub query: String,
    /// `answer` or `retrieve`.
    #[schema(value_type = String, example = "answer")]
    pub mode: Mode,
    /// `auto`, `one_shot`, `wide_branch`, `zoom_in` or `branch_out`.
    #[schema(value_type = String, example = "auto")]
    pub strategy: StrategyName,
    /// Number of categories to select on level 1.
    pub n: u64,
    /// By how much that number falls (`zoom_in`) or rises (`branch_out`) from level to level.
    pub n2: u64,
    /// Maximum number of categories that `branch_out` selects on a level.
    pub per_level_max: u64,
    /// `PRUNE` or `SUMMARIZE`.
    #[schema(value_type = String, example = "PRUNE")]
    pub prompt_limiting_strategy: PromptLimiting,
    /// Maximum tokens of the final prompt.
    pub max_token_budget: u64,
    /// Whether the request set the budget. With `mode: retrieve`, a budget applies only in that
    /// case, or with `auto`.
    #[serde(default)]
    pub budget_named: bool,
    pub use_rankings: bool,
    /// `trim` or `error`.
    #[schema(value_type = String, example = "trim")]
    pub overflow: Overflow,
    pub source_ids: Vec<String>,
    pub tags: Vec<String>,
    pub user_id: Option<String>,
    #[schema(format = DateTime)]
    pub as_of: Option<String>,
    /// `latest` or `all`.
    #[schema(value_type = String, example = "latest")]
    pub version_scope: VersionScope,
    /// Maximum number of chunks from one category; 0 means no limit.
    pub per_path_limit: u64,
    /// Maximum number of chunks in total.
    pub limit: u64,
    pub cursor: Option<String>,
    /// The model for every stage, if the request specified one.
    pub model: Option<String>,
    pub deterministic: bool,
    pub max_calls: Option<u64>,
    pub max_cost_usd: Option<f64>,
    pub timeout_s: u64,
    /// With `auto`: whether a recent result of the same query may be returned again.
    #[serde(default = "yes")]
    pub reuse: bool,
    /// With `PRUNE`: whether dropped paths are put back, best first, if they fit after all.
    #[serde(default)]
    pub refill: bool,
    /// `sources`, `memories` or `both`.
    #[serde(default, rename = "scope")]
    #[schema(value_type = String, example = "sources")]
    pub searched: Searched,
}

fn yes() -> bool {
    true
}

impl QuerySettings {
    pub fn strategy(&self) -> Strategy {
        Strategy {
            name: self.strategy,
            n: self.n,
            n2: self.n2,
            per_level_max: self.per_level_max,
        }
    }

    /// This query with another strategy and that strategy's own numbers.
    #[must_use]
    pub fn with_strategy(&self, name: StrategyName) -> Self {
        Self {
            strategy: name,
            n: Strategy::own_n(name),
            ..self.clone()
        }
    }

    pub fn scope(&self) -> QueryScope {
        let input = ScopeInput {
            source_ids: self.source_ids.clone(),
            tags: self.tags.clone(),
            user_id: self.user_id.clone(),
            as_of: self.as_of.clone(),
            version_scope: self.version_scope,
        };

        // It was checked when the query arrived.
        input.resolve("", &mut Vec::new())
    }
}

impl QueryInput {
    /// Completes the query from the settings and checks everything; reports all errors together.
    ///
    /// # Errors
    /// [`QueryError::Invalid`].
    pub fn resolve(
        self,
        settings: &config::Query,
        chunk_min_tokens: u64,
    ) -> Result<QuerySettings, QueryError> {
        let mut faults = Faults::default();
        faults.check_query(&self.query);
        let searched = self.scope.unwrap_or_default();
        if searched.memories() && self.user_id.is_none() {
            faults.add("user_id", MEMORIES_NEED_A_USER.to_owned());
        }

        if searched == Searched::Memories && !self.source_ids.is_empty() {
            let rule = "filters sources; use it with the scope sources or both";
            faults.add("source_ids", rule.to_owned());
        }

        let version_scope = self.version_scope.unwrap_or_default();
        let filters = ScopeInput {
            source_ids: self.source_ids,
            tags: self.tags,
            user_id: self.user_id,
            as_of: self.as_of,
            version_scope,
        };
        let scope = filters.resolve("", &mut faults.0);
        let strategy = self.strategy.unwrap_or(settings.strategy);
        let n = faults
            .number("n", self.n, 1..=MAX_N)
            .unwrap_or(match settings.n {
                0 => Strategy::own_n(strategy),
                n => n,
            });

        let limiting = self
            .prompt_limiting_strategy
            .unwrap_or(settings.prompt_limiting_strategy);
        let least = chunk_min_tokens.saturating_add(ROOM).saturating_add(1);
        let budget = faults.number(
            "max_token_budget",
            self.max_token_budget,
            least..=MAX_BUDGET,
        );

        let max_token_budget = budget.unwrap_or(settings.max_token_budget);
        let headroom = settings.summarization_instruction_headroom_tokens;
        if limiting == PromptLimiting::Summarize && max_token_budget <= headroom {
            faults.add(
                "max_token_budget",
                format!("must be greater than {headroom}, the headroom of SUMMARIZE"),
            );
        }

        if self
            .max_cost_usd
            .is_some_and(|usd| !(usd.is_finite() && usd > 0.0))
        {
            faults.add("max_cost_usd", "must be greater than 0".to_owned());
        }
        let query = QuerySettings {
            mode: self.mode.unwrap_or_default(),
            strategy,
            n: if strategy == StrategyName::OneShot {
                1
            } else {
                n
            },
            n2: faults
                .number("n2", self.n2, 0..=MAX_N)
                .unwrap_or(settings.n2),
            per_level_max: faults
                .number("per_level_max", self.per_level_max, 1..=MAX_N)
                .unwrap_or(settings.per_level_max),
            prompt_limiting_strategy: limiting,
            max_token_budget,
            budget_named: self.max_token_budget.is_some(),
            use_rankings: self.use_rankings.unwrap_or(settings.use_rankings),
            overflow: self.overflow.unwrap_or(settings.overflow),
            source_ids: scope.source_ids.iter().map(ToString::to_string).collect(),
            tags: scope.tags,
            user_id: scope.user_id,
            as_of: scope.as_of.map(|moment| moment.to_string()),
            version_scope,
            per_path_limit: faults
                .number("per_path_limit", self.per_path_limit, 1..=MAX_LIMIT)
                .unwrap_or(settings.per_path_limit),
            limit: faults
                .number("limit", self.limit, 1..=MAX_LIMIT)
                .unwrap_or(settings.limit),
            cursor: self.cursor,
            model: self.model,
            deterministic: self.deterministic,
            max_calls: faults.number("max_calls", self.max_calls, 1..=1_000_000),
            max_cost_usd: self.max_cost_usd,
            timeout_s: faults
                .number("timeout_s", self.timeout_s, 1..=MAX_SECONDS)
                .unwrap_or(settings.timeout_s),
            reuse: self.reuse.unwrap_or(true),
            refill: self.refill,
            searched,
            query: self.query,
        };

        faults.into_result().map(|()| query)
    }
}

/// The errors found so far.
#[derive(Default)]
pub struct Faults(Vec<FieldError>);

impl Faults {
    pub fn add(&mut self, field: &str, message: String) {
        self.0.push(FieldError::new(field, message));
    }

    fn check_query(&mut self, query: &str) {
        if query.trim().is_empty() {
            self.add("query", "must not be empty".to_owned());
        }

        if char_count(query) > MAX_QUERY_CHARS {
            self.add(
                "query",
                format!("must have at most {MAX_QUERY_CHARS} characters"),
            );
        }
    }

    pub fn number(
        &mut self,
        field: &str,
        given: Option<i64>,
        range: std::ops::RangeInclusive<u64>,
    ) -> Option<u64> {
        let given = given?;
        let number = u64::try_from(given)
            .ok()
            .filter(|number| range.contains(number));
        if number.is_none() {
            self.add(
                field,
                format!(
                    "must be a whole number from {} to {}",
                    range.start(),
                    range.end()
                ),
            );
        }

        number
    }

    pub fn into_result(self) -> Result<(), QueryError> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(QueryError::Invalid(self.0))
        }
    }
}
