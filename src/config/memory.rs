//! `[memory]`: limits of memory retrieval.

use serde::Deserialize;

use super::Violations;

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Retrievals of one end user in a minute; 0: unlimited.
    pub rate_limit: u64,
    /// Vectors of one end user's memories; beyond it, the least important lose theirs.
    pub max_vectors: u64,
}

impl Memory {
    pub(super) fn validate(self, violations: &mut Violations) {
        violations.check_range("memory.rate_limit", self.rate_limit, 0..=1_000_000, 60);
        violations.check_range("memory.max_vectors", self.max_vectors, 1..=10_000_000, 5000);
    }
}
