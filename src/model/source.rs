//! A source. Its text at a given time is a version.

use crate::base::clock::Timestamp;
use crate::base::ids::SourceId;

/// The tag that every source has.
pub const FILE_INGEST: &str = "file_ingest";

/// The accepted types of text files.
pub const TEXT_TYPES: [&str; 5] = ["txt", "md", "json", "yml", "yaml"];

/// The path of a source that was given none.
pub fn own_path(id: &SourceId, filename: &str) -> String {
    format!("/sources/{id}/{filename}")
}

/// A registered source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    pub id: SourceId,
    /// The end user inside the space.
    pub user_id: String,
    pub filename: String,
    pub path: String,
    /// The file's type, by its extension.
    pub file_type: String,
    /// Whether retrieval may use it.
    pub eligible: bool,
    /// In the order given; always includes [`FILE_INGEST`].
    pub tags: Vec<String>,
    /// 0 until the first ingestion.
    pub latest_version: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}
