//! The contextual helper of a source, with versions.

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

use crate::base::clock::Timestamp;

/// Who wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, EnumString)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum HelperOrigin {
    User,
    Generated,
}

/// A helper to store; jobs also keep it in this form until then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewHelper {
    pub text: String,
    pub origin: HelperOrigin,
    pub author: Option<String>,
    pub date: Option<String>,
    pub topic: Option<String>,
    pub description: Option<String>,
    pub token_count: i64,
    /// The cost of generating it.
    pub tokens_prompt: i64,
    pub tokens_completion: i64,
}

/// A stored helper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextualHelper {
    /// Counted from 1; the highest is current.
    pub version: i64,
    pub helper: NewHelper,
    pub created_at: Timestamp,
}
