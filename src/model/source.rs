//! A source. Its text at a given time is a version.

use serde::Serialize;
use utoipa::ToSchema;

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

/// The kind of a source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    #[default]
    FileIngest,
}

/// A source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = SourceResponse, example = json!({
    "id": "0199a7e0-1c2d-7000-8000-000000000000", "user_id": "default", "filename": "plan.md",
    "path": "/docs/plan.md", "kind": "file_ingest", "type": "md", "eligible": true,
    "tags": ["file_ingest", "design"], "latest_version": 0,
    "created_at": "2026-01-31T12:00:00.000000Z", "updated_at": "2026-01-31T12:00:00.000000Z"
}))]
pub struct Source {
    #[schema(value_type = String)]
    pub id: SourceId,
    /// The end user within the space.
    pub user_id: String,
    /// The last segment of the path.
    pub filename: String,
    /// The path of the source in the owner's system.
    pub path: String,
    /// Always `file_ingest`.
    #[schema(value_type = String)]
    pub kind: SourceKind,
    /// The file type, from the extension.
    #[serde(rename = "type")]
    pub file_type: String,
    /// Whether retrieval may use the source.
    pub eligible: bool,
    /// In the order in which they were given. memoir sets the tag `file_ingest` on every source.
    pub tags: Vec<String>,
    /// The number of the newest version; 0 until the first ingestion.
    pub latest_version: i64,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}
