//! A query as it is asked of the store, and the receipt that remains of it.

use serde_json::Value;

use crate::base::clock::Timestamp;
use crate::base::ids::{QueryId, SourceId};

/// Which chunks a query may find; the default is everything that the sources say now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryScope {
    /// Only these sources; none named: all.
    pub source_ids: Vec<SourceId>,
    /// Only sources that carry all of these.
    pub tags: Vec<String>,
    pub user_id: Option<String>,
    /// As things stood then.
    pub as_of: Option<Timestamp>,
    /// Chunks of older versions too.
    pub all_versions: bool,
}

impl QueryScope {
    /// Whether it leaves out sources or times, so that categories may turn out empty.
    pub fn is_narrow(&self) -> bool {
        self.names_sources() || self.as_of.is_some()
    }

    /// Whether it tells sources apart.
    pub fn names_sources(&self) -> bool {
        !self.source_ids.is_empty() || !self.tags.is_empty() || self.user_id.is_some()
    }
}

/// A chunk that a query found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub id: i64,
    pub source_id: SourceId,
    pub source_version: i64,
    pub text: String,
    /// In characters, the end excluded.
    pub start_char: i64,
    pub end_char: i64,
    pub category_id: i64,
    pub created_at: Timestamp,
    pub token_count: i64,
    /// By which its tokens were counted.
    pub tokenizer: String,
}

/// A helper of a source, by the version in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceHelper {
    pub source_id: SourceId,
    pub version: i64,
    pub text: String,
}

/// What is to be kept of a query, written out already.
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

/// What is kept of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredQuery {
    pub id: QueryId,
    /// Empty where it asked everybody's sources.
    pub user_id: String,
    /// The query with every parameter as it was in force.
    pub request: Value,
    pub receipt: Value,
    /// `succeeded` or `failed`.
    pub state: String,
    pub answer_chars: i64,
    pub elapsed_ms: f64,
    pub created_at: Timestamp,
}
