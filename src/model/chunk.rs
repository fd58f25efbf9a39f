//! A chunk of a source, verbatim.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::base::clock::Timestamp;
use crate::base::ids::SourceId;

/// The profile of chunks that are filed in the hierarchy.
pub const TAXONOMY: &str = "taxonomy";
/// The profile of chunks that are searched: longer, and overlapping.
pub const RETRIEVAL: &str = "retrieval";

/// A chunk as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    pub id: i64,
    pub source_id: SourceId,
    /// The version of the source that introduced it.
    pub source_version: i64,
    pub profile: String,
    /// Its position in the source, counted from 1.
    pub ordinal: i64,
    pub text: String,
    pub token_count: i64,
    /// In characters; the end is exclusive.
    pub start_char: i64,
    pub end_char: i64,
    /// The headings above it, highest first.
    pub heading: Option<String>,
    pub category_id: Option<i64>,
    pub created_at: Timestamp,
}

/// A chunk with where it is from: what every result shows of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceChunk {
    pub id: i64,
    pub source_id: SourceId,
    /// The version of the source that introduced it.
    pub source_version: i64,
    pub version_id: i64,
    pub profile: String,
    /// Its position in the source, counted from 1.
    pub ordinal: i64,
    pub text: Arc<str>,
    pub token_count: i64,
    /// The tokenizer that counted its tokens; empty if unknown.
    pub tokenizer: String,
    /// In characters; the end is exclusive.
    pub start_char: i64,
    pub end_char: i64,
    /// The headings above it, highest first.
    pub heading: Option<String>,
    /// Its leaf, if it is filed.
    pub category_id: Option<i64>,
    pub created_at: Timestamp,
    pub filename: String,
    pub path: String,
    /// The end user of its source.
    pub user_id: String,
}

impl SourceChunk {
    /// Its leaf; 0 if it is not filed.
    pub fn leaf(&self) -> i64 {
        self.category_id.unwrap_or(0)
    }
}

/// A chunk that moves from one category to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    pub chunk_id: i64,
    /// When it was first filed, in microseconds.
    pub filed_at: i64,
    pub from: i64,
    pub to: i64,
}

/// A chunk to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewChunk<'t> {
    pub ordinal: i64,
    pub text: &'t str,
    pub token_count: i64,
    pub start_char: i64,
    pub end_char: i64,
    /// The tokenizer that counted its tokens; empty if unknown.
    pub tokenizer: &'t str,
    /// The headings above it, highest first.
    pub heading: Option<&'t str>,
    /// 0 for a chunk that is not filed.
    pub category_id: i64,
}
