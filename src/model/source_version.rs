//! One version of a source. It never changes.

use serde_json::Value;

use crate::base::clock::Timestamp;
use crate::base::ids::SourceId;

/// A version without its text.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceVersion {
    pub id: i64,
    pub source_id: SourceId,
    /// Counted from 1.
    pub version: i64,
    pub facts: VersionFacts,
    /// The earlier version whose chunks this one shares.
    pub content_version_id: Option<i64>,
    pub ingested_at: Timestamp,
}

/// The metadata of a version.
#[derive(Debug, Clone, PartialEq)]
pub struct VersionFacts {
    pub sha256: String,
    /// How the text was cut and filed: equal content with equal settings shares its chunks.
    pub settings_key: String,
    pub size_bytes: i64,
    pub mtime: Option<Timestamp>,
    pub char_count: i64,
    pub token_count: i64,
    pub provider: Option<String>,
    pub topic: Option<String>,
    pub note: Option<String>,
    pub metadata: Value,
    pub job_id: Option<String>,
}
