//! `[query]`: how a question is walked and how much its answer may take.

use serde::Deserialize;

use super::{Ingestion, Violation, Violations};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    pub max_token_budget: u64,
}

/// What a budget must leave room for besides the smallest passage (M-7A.1).
pub const ROOM: u64 = 100;

impl Query {
    pub fn validate(&self, ingestion: &Ingestion, violations: &mut Violations) {
        let least = ingestion.chunk_min_tokens.saturating_add(ROOM);
        if self.max_token_budget <= least {
            violations.add(
                Violation::new("query.max_token_budget", self.max_token_budget.to_string())
                    .allowed(&format!("more than ingestion.chunk_min_tokens + {ROOM}, which is {least}"))
                    .example("max_token_budget = 8000"),
            );
        }
    }
}
