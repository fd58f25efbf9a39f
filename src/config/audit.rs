//! `[audit]`: whether records outlive the work that they describe.

use serde::Deserialize;

use super::Violations;

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Audit {
    pub persist: bool,
    pub keep_days: u64,
}

impl Audit {
    pub(super) fn validate(&self, violations: &mut Violations) {
        violations.check_range("audit.keep_days", self.keep_days, 0..=36_500, 90);
    }
}
