//! `[mcp]`: what the Model Context Protocol offers to agents.

use serde::Deserialize;

use super::Violations;

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mcp {
    pub tools: ToolSet,
    pub allow_forget: bool,
    pub max_result_tokens: u64,
}

/// Which tools are offered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolSet {
    /// The few that an agent needs.
    #[default]
    Default,
    /// These, and every other call of the API.
    All,
}

impl Mcp {
    pub(super) fn validate(&self, violations: &mut Violations) {
        violations.check_range(
            "mcp.max_result_tokens",
            self.max_result_tokens,
            500..=1_000_000,
            6000,
        );
    }
}
