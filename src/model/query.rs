//! What a query used, and its receipt as it is stored.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::base::clock::Timestamp;
use crate::base::ids::{QueryId, SourceId};

/// The current helper of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceHelper {
    pub source_id: SourceId,
    pub version: i64,
    pub text: String,
}

/// What a query used, by which its receipt is found when one of these is deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryUses {
    pub sources: BTreeSet<String>,
    pub memories: BTreeSet<String>,
    /// The threads of those memories.
    pub threads: BTreeSet<String>,
    /// How many erasures the space had had before the query began.
    pub erasures: i64,
}

impl QueryUses {
    /// The ids of everything that was used.
    pub fn ids(&self) -> BTreeSet<String> {
        let used = self.sources.iter().chain(&self.memories);
        used.chain(&self.threads).cloned().collect()
    }
}

/// How much of a receipt was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredPart {
    Whole,
    /// Ids and numbers: something that the query used was deleted while it ran.
    WithoutTexts,
    /// Nothing: its user or its space was deleted while it ran.
    Nothing,
}

/// A receipt to store, already serialized.
#[derive(Debug, Clone, PartialEq)]
pub struct NewQuery {
    pub id: QueryId,
    pub user_id: String,
    pub request: String,
    pub receipt: String,
    pub state: String,
    pub answer_chars: i64,
    pub elapsed_ms: f64,
    pub created_at: Timestamp,
}

/// A stored receipt.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredQuery {
    pub id: QueryId,
    /// Empty if it covered the sources of all users.
    pub user_id: String,
    /// The query with the effective value of every parameter.
    pub request: Value,
    pub receipt: Value,
    /// `succeeded`, `failed` or `erased`.
    pub state: String,
    pub answer_chars: i64,
    pub elapsed_ms: f64,
    pub created_at: Timestamp,
}
