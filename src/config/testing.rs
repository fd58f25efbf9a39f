//! `[testing]`: switches for tests only.

use serde::Deserialize;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Testing {
    pub clock_header: bool,
    pub probe_jobs: bool,
    pub probe_log: String,
    pub fail_point: String,
    pub clock_ahead_ms: u64,
}
