//! A query as the store sees it, and its receipt.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::base::clock::Timestamp;
use crate::base::ids::{QueryId, SourceId};

/// Which chunks a query may find; by default, those of all current versions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryScope {
    /// Only these sources; empty: all.
    pub source_ids: Vec<SourceId>,
    /// Only sources that have all of these tags.
    pub tags: Vec<String>,
    pub user_id: Option<String>,
    /// As of this time.
    pub as_of: Option<Timestamp>,
    /// Chunks of older versions too.
    pub all_versions: bool,
}

impl QueryScope {
    /// Whether it excludes sources or times, so that categories may be empty.
    pub fn is_narrow(&self) -> bool {
        self.names_sources() || self.as_of.is_some()
    }

    /// Whether it distinguishes sources.
    pub fn names_sources(&self) -> bool {
        !self.source_ids.is_empty() || !self.tags.is_empty() || self.user_id.is_some()
    }
}

/// The range of a chunk in the text of its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkRange {
    pub chunk_id: i64,
    pub version_id: i64,
    /// Whether it is filed in the hierarchy; otherwise it was cut for search.
    pub is_filed: bool,
    /// In characters; the end is exclusive.
    pub start_char: i64,
    pub end_char: i64,
    pub token_count: i64,
    /// Its leaf; 0 if it is not filed.
    pub leaf: i64,
}

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
