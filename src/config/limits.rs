//! `[limits]`: limits of a single request and of all requests together.

use serde::Deserialize;

use super::Violations;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub max_body_bytes: u64,
    pub body_memory: u64,
}

impl Limits {
    pub fn validate(&self, violations: &mut Violations) {
        violations.check_range(
            "limits.max_body_bytes",
            self.max_body_bytes,
            1024..=1 << 30,
            10 << 20,
        );
        violations.check_range(
            "limits.body_memory",
            self.body_memory,
            1 << 20..=1 << 40,
            64 << 20,
        );
    }
}
