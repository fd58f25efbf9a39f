//! A chunk of a source, verbatim.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::base::clock::Timestamp;
use crate::base::ids::SourceId;

/// The profile of chunks that are filed in the hierarchy.
pub const TAXONOMY: &str = "taxonomy";
/// The profile of chunks that are searched: longer, and overlapping.
pub const RETRIEVAL: &str = "retrieval";

/// A chunk of a source, verbatim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ChunkResponse, example = json!({
    "chunk_id": 17, "ordinal": 1, "profile": "taxonomy", "text_content": "The lighthouse was built in 1843.",
    "token_count": 9, "start_char": 0, "end_char": 33, "heading": "The coast › Lighthouses", "category_id": 5,
    "category_path": ["Coast", "Lighthouses", "History"], "source_id": "0199a7e0-1c2d-7000-8000-000000000000",
    "source_version": 1, "created_at": "2026-01-31T12:00:00.000000Z"
}))]
pub struct Chunk {
    #[serde(rename = "chunk_id")]
    pub id: i64,
    /// Position in the source, starting at 1.
    pub ordinal: i64,
    /// `taxonomy`: filed under the hierarchy; `retrieval`: split for search.
    pub profile: String,
    /// The chunk, verbatim.
    #[serde(rename = "text_content")]
    pub text: String,
    pub token_count: i64,
    /// Start offset in the text of the version, in characters.
    pub start_char: i64,
    /// End offset in characters, exclusive.
    pub end_char: i64,
    /// The headings above the chunk, highest first, separated by ` › `; null if there is none.
    pub heading: Option<String>,
    /// The leaf it is filed under.
    pub category_id: Option<i64>,
    /// Names from level 1 to the leaf.
    // Empty as the store reads it; `Categories::add_paths` fills it in.
    pub category_path: Vec<String>,
    #[schema(value_type = String)]
    pub source_id: SourceId,
    /// The source version that created the chunk; later versions with the same text share it.
    pub source_version: i64,
    #[schema(value_type = String, format = DateTime)]
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

    /// The path of its source without the extension, and the headings above it: what tells what it is
    /// about besides its text.
    pub fn about(&self) -> String {
        let path = &self.path;
        let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
        // The end of a version is no extension.
        let is_name = extension.contains(char::is_alphabetic) && !extension.contains('/');
        let name = &path[..path.len() - if is_name { extension.len() + 1 } else { 0 }];
        match &self.heading {
            Some(heading) => format!("{name} {heading}"),
            None => name.to_owned(),
        }
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
    /// What it is about, in the words of the model that filed it without a list of categories.
    pub subject: Option<&'t str>,
    /// 0 for a chunk that is not filed.
    pub category_id: i64,
}
