//! A chunk of a source, verbatim.

use serde::{Deserialize, Serialize};

use crate::base::clock::Timestamp;
use crate::base::ids::SourceId;

/// Chunks that are filed under the hierarchy.
pub const TAXONOMY: &str = "taxonomy";
/// Chunks that are searched: longer, and overlapping.
pub const RETRIEVAL: &str = "retrieval";

/// A chunk as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    pub id: i64,
    pub source_id: SourceId,
    /// The version of the source that brought it.
    pub source_version: i64,
    pub profile: String,
    /// Its place in the source, counted from 1.
    pub ordinal: i64,
    pub text: String,
    pub token_count: i64,
    /// In characters, the end excluded.
    pub start_char: i64,
    pub end_char: i64,
    pub category_id: Option<i64>,
    pub created_at: Timestamp,
}

/// A chunk that goes from one category to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    pub chunk_id: i64,
    /// When it was first filed, in microseconds.
    pub filed_at: i64,
    pub from: i64,
    pub to: i64,
}

/// A chunk to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewChunk<'t> {
    pub ordinal: i64,
    pub text: &'t str,
    pub token_count: i64,
    pub start_char: i64,
    pub end_char: i64,
    /// By which its tokens were counted; empty where that is not known.
    pub tokenizer: &'t str,
    /// 0 for one that is not filed.
    pub category_id: i64,
}
