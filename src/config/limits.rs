//! `[limits]`: how much one request may bring.

use serde::Deserialize;

use super::Violations;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub max_body_bytes: u64,
}

impl Limits {
    pub fn validate(&self, violations: &mut Violations) {
        violations.check_range("limits.max_body_bytes", self.max_body_bytes, 1024..=1 << 30, 10 << 20);
    }
}
