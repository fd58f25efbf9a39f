//! The contextual helper of a source, with versions.

use serde::{Deserialize, Serialize};

use crate::base::clock::Timestamp;

/// Who wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HelperOrigin {
    User,
    Generated,
}

impl HelperOrigin {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Generated => "generated",
        }
    }

    pub fn parse(text: &str) -> Self {
        if text == "user" {
            Self::User
        } else {
            Self::Generated
        }
    }
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
