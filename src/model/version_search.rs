//! One version of one source, found by metadata and a time.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};
use utoipa::ToSchema;

use super::source::Source;
use super::source_version::SourceVersion;
use crate::base::clock::Timestamp;
use crate::base::ids::SourceId;

/// Which of the matching versions to return. `latest`: the newest, or the one that was current at
/// `as_of`; `earliest`: the oldest; `longest`: the one with the most characters; `score`: the one
/// whose text matches best.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    Serialize,
    Deserialize,
    ToSchema,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[schema(as = DocumentStrategy)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Choice {
    #[default]
    Latest,
    Earliest,
    Longest,
    Score,
}

/// A request to the store: at most `most` versions, best match first.
#[derive(Debug, Clone)]
pub struct VersionSearch {
    /// Never relaxed, like the space.
    pub user_id: String,
    /// A file name without folders.
    pub filename: Option<String>,
    /// Sources that a search found by words, with their scores.
    pub hits: Vec<(SourceId, f64)>,
    /// Tags that they should all have.
    pub tags: Vec<String>,
    /// The latest time of ingestion.
    pub as_of: Option<Timestamp>,
    pub choice: Choice,
    pub most: usize,
    /// Whether every text is needed, and not only that of the version that would be chosen.
    pub texts: bool,
}

/// A version that the store found.
#[derive(Debug, Clone, PartialEq)]
pub struct VersionCandidate {
    pub source: Source,
    pub version: SourceVersion,
    /// The text, where it was needed.
    pub content: Option<String>,
}

/// A line of the manifest: a source and its newest version, if any.
#[derive(Debug, Clone, PartialEq)]
pub struct ManifestEntry {
    pub source: Source,
    pub version: Option<SourceVersion>,
}
