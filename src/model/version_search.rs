//! One version of one source, found by metadata and a time.

use strum::{IntoStaticStr, VariantArray};

use super::source::Source;
use super::source_version::SourceVersion;
use crate::base::clock::Timestamp;
use crate::base::ids::SourceId;

/// Which of the matching versions is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, IntoStaticStr, VariantArray)]
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
