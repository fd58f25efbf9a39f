//! `[query]`: how a query walks the hierarchy, and its budget.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};
use utoipa::ToSchema;

use super::{Ingestion, Violation, Violations};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    pub strategy: StrategyName,
    pub n: u64,
    pub n2: u64,
    pub per_level_max: u64,
    pub prompt_limiting_strategy: PromptLimiting,
    pub max_token_budget: u64,
    pub use_rankings: bool,
    pub overflow: Overflow,
    pub summarization_instruction_headroom_tokens: u64,
    pub summary_char_overage_tolerance_percent: u64,
    pub summary_max_retries: u64,
    pub per_path_limit: u64,
    pub limit: u64,
    pub timeout_s: u64,
    pub reuse_ttl: u64,
}

/// How to find chunks. `auto` searches first; if the result is uncertain, a language model picks
/// categories, and walks down from those that are not leaves. Its chunks are ranked one by one. The
/// others walk the hierarchy from level 1 and read whole leaves: `one_shot` selects one category per
/// level; `wide_branch` selects `n` per level; `zoom_in` starts with `n` and selects `n2` fewer on
/// each level; `branch_out` starts with `n` and selects `n2` more on each level.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    ToSchema,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[schema(as = QueryStrategy)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum StrategyName {
    #[default]
    Auto,
    OneShot,
    WideBranch,
    ZoomIn,
    BranchOut,
}

/// Drop chunks or whole category paths (`PRUNE`), or summarise every chunk (`SUMMARIZE`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schema(as = QueryPromptLimiting)]
pub enum PromptLimiting {
    #[default]
    Prune,
    Summarize,
}

/// Keep the chunks that match best (`trim`), or fail with `budget_exceeded` (`error`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = QueryOverflow)]
pub enum Overflow {
    #[default]
    Trim,
    Error,
}

/// What a budget must leave room for in addition to the smallest chunk.
pub const ROOM: u64 = 100;
/// More tokens than any model accepts.
pub const MAX_BUDGET: u64 = 10_000_000;
/// Maximum number of categories to select on one level.
pub const MAX_N: u64 = 100;
/// Maximum number of chunks to read for one query.
pub const MAX_LIMIT: u64 = 500;
/// Maximum age of a result that is used again, in seconds.
pub const MAX_REUSE: u64 = 86_400;
/// Maximum duration of a query in seconds.
pub const MAX_SECONDS: u64 = 3600;

impl Query {
    pub fn validate(&self, ingestion: &Ingestion, violations: &mut Violations) {
        violations.check_range("query.n", self.n, 0..=MAX_N, 0);
        violations.check_range("query.n2", self.n2, 0..=MAX_N, 2);
        violations.check_range("query.per_level_max", self.per_level_max, 1..=MAX_N, 12);
        violations.check_range(
            "query.summary_max_retries",
            self.summary_max_retries,
            0..=10,
            1,
        );

        let tolerance = self.summary_char_overage_tolerance_percent;
        violations.check_range(
            "query.summary_char_overage_tolerance_percent",
            tolerance,
            0..=1000,
            5,
        );

        violations.check_range(
            "query.per_path_limit",
            self.per_path_limit,
            0..=MAX_LIMIT,
            0,
        );

        violations.check_range("query.limit", self.limit, 1..=MAX_LIMIT, 500);
        violations.check_range("query.timeout_s", self.timeout_s, 1..=MAX_SECONDS, 300);
        violations.check_range("query.reuse_ttl", self.reuse_ttl, 0..=MAX_REUSE, 600);
        self.validate_budget(ingestion, violations);
    }

    fn validate_budget(&self, ingestion: &Ingestion, violations: &mut Violations) {
        let refuse = |violations: &mut Violations, rule: &str| {
            violations.add(
                Violation::new("query.max_token_budget", self.max_token_budget.to_string())
                    .allowed(rule)
                    .example("max_token_budget = 8000"),
            );
        };

        let least = ingestion.chunk_min_tokens.saturating_add(ROOM);
        if self.max_token_budget <= least {
            refuse(
                violations,
                &format!("more than ingestion.chunk_min_tokens + {ROOM}, which is {least}"),
            );
        }

        if self.max_token_budget > MAX_BUDGET {
            refuse(violations, &format!("at most {MAX_BUDGET}"));
        }

        let headroom = self.summarization_instruction_headroom_tokens;
        if self.prompt_limiting_strategy == PromptLimiting::Summarize
            && self.max_token_budget <= headroom
        {
            let rule = format!(
                "more than query.summarization_instruction_headroom_tokens, which is {headroom}, for SUMMARIZE"
            );
            refuse(violations, &rule);
        }
    }
}
