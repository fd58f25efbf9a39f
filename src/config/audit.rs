//! `[audit]`: whether the record of what was done outlives the work.

use serde::Deserialize;

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Audit {
    pub persist: bool,
}
