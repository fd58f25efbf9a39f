//! The wire format of document retrieval.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::base::clock::Timestamp;
use crate::base::user_id;
use crate::http::extract::object;
use crate::model::source::{Source, SourceKind};
use crate::model::version_search::{Choice, VersionCandidate};
use crate::sources::retrieval::{RetrievalInput, Retrieved, VersionDescription};

const DEFAULT_K: i64 = 50;

/// A request for one document. Only `meta` is required.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "meta": {"filename": "memory_storage.md", "topic": "memory design", "tags": ["docs"]},
    "as_of": "2026-01-31T12:00:00Z"
}))]
pub struct RetrieveDocumentRequest {
    /// What you know about the source.
    #[serde(deserialize_with = "object")]
    pub meta: DocumentDescription,
    /// The end user who owns the sources; `default` if omitted.
    #[serde(default, deserialize_with = "crate::base::user_id::trimmed")]
    #[schema(min_length = 1, max_length = 128)]
    pub user_id: Option<String>,
    /// Maximum number of versions to score; 50 if omitted.
    #[schema(minimum = 1, maximum = 1000)]
    pub k: Option<i64>,
    /// Tags that the source must have in addition to `file_ingest` and the tags in `meta`.
    #[schema(max_items = 100)]
    pub default_tags: Option<Vec<String>>,
    /// Which of the matching versions to return; `latest` if omitted.
    pub strategy: Option<Choice>,
    /// With `latest`: returns the version that was current at this time.
    #[schema(value_type = Option<String>, format = DateTime, example = "2026-01-31T12:00:00Z")]
    pub as_of: Option<Timestamp>,
    /// Whether to return 404 if no source matches the name, the tags or the time, instead of
    /// ignoring that filter; false if omitted.
    #[serde(default)]
    pub strict: bool,
    /// Whether to include the candidates with their scores and the search query; false if omitted.
    #[serde(default)]
    pub explain: bool,
}

/// What you know about a source. Unknown fields are ignored.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct DocumentDescription {
    /// The file name. If you send a path, memoir uses its last segment.
    #[schema(max_length = 4000)]
    pub filename: Option<String>,
    /// An alternative spelling of `filename`.
    #[schema(max_length = 4000)]
    pub file_name: Option<String>,
    /// What the source is about.
    #[schema(max_length = 4000)]
    pub topic: Option<String>,
    /// Notes about the source.
    #[schema(max_length = 4000)]
    pub note: Option<String>,
    /// Where the source comes from.
    #[schema(max_length = 4000)]
    pub provider: Option<String>,
    /// Tags that the source must have, all of them.
    #[schema(max_items = 100)]
    pub tags: Option<Vec<String>>,
    /// A search query that replaces the one built from the other fields.
    #[schema(max_length = 4000)]
    pub query: Option<String>,
}

impl RetrieveDocumentRequest {
    pub fn into_input(self) -> RetrievalInput {
        let meta = VersionDescription {
            // An empty name counts as no name.
            filename: self
                .meta
                .filename
                .filter(|name| !name.trim().is_empty())
                .or(self.meta.file_name),
            topic: self.meta.topic,
            note: self.meta.note,
            provider: self.meta.provider,
            tags: self.meta.tags.unwrap_or_default(),
            query: self.meta.query,
        };
        RetrievalInput {
            meta,
            user_id: self.user_id.unwrap_or_else(|| user_id::DEFAULT.to_owned()),
            // Values below zero are as invalid as zero.
            k: usize::try_from(self.k.unwrap_or(DEFAULT_K)).unwrap_or(0),
            default_tags: self.default_tags.unwrap_or_default(),
            choice: self.strategy.unwrap_or_default(),
            as_of: self.as_of,
            strict: self.strict,
            explain: self.explain,
        }
    }
}

/// One version of one source.
#[derive(Debug, Serialize, ToSchema)]
pub struct DocumentResponse {
    /// The whole text, as ingested.
    pub content: String,
    pub source_id: String,
    /// The version number, starting at 1.
    pub version: i64,
    pub metadata: DocumentMetadata,
    /// The current tags of the source.
    pub tags: Vec<String>,
    /// How well the text matches, from 0 to 1: by the words that it contains, and by meaning for the
    /// others; null if it was not scored.
    pub score: Option<f64>,
    /// The current state of the source.
    pub source: Source,
    pub user_id: String,
    pub k: i64,
    pub strategy: String,
    /// The requested time.
    #[schema(format = DateTime)]
    pub as_of: Option<String>,
    pub strict: bool,
    /// `applied`, or `relaxed` if no source has that name; null if no name was given.
    pub filename_filter: Option<String>,
    /// Whether the tags were ignored because no source has all of them.
    pub tag_filter_relaxed: bool,
    /// Whether `as_of` was ignored because no version existed at that time.
    pub as_of_fallback: bool,
    /// The ignored filters and the reasons.
    pub relaxed: Vec<RelaxedFilter>,
    pub warnings: Vec<DocumentWarning>,
    /// How the version was selected; null without `explain`.
    pub explain: Option<DocumentExplanation>,
}

/// Metadata of a version.
#[derive(Debug, Serialize, ToSchema)]
pub struct DocumentMetadata {
    /// Always `file_ingest`.
    #[schema(value_type = String)]
    pub kind: SourceKind,
    pub filename: String,
    pub path: String,
    #[schema(format = DateTime)]
    pub ingested_at: String,
    #[serde(rename = "type")]
    pub file_type: String,
    #[schema(format = DateTime)]
    pub mtime: Option<String>,
    pub sha256: String,
    pub size_bytes: i64,
    pub char_count: i64,
    pub token_count: i64,
    pub topic: Option<String>,
    pub note: Option<String>,
    pub provider: Option<String>,
}

/// A filter that was ignored because no version would have remained.
#[derive(Debug, Serialize, ToSchema)]
pub struct RelaxedFilter {
    /// `filename`, `tags` or `as_of`.
    pub filter: String,
    pub reason: String,
}

/// A warning to the caller.
#[derive(Debug, Serialize, ToSchema)]
pub struct DocumentWarning {
    pub code: String,
    pub message: String,
}

/// How the version was selected.
#[derive(Debug, Serialize, ToSchema)]
pub struct DocumentExplanation {
    /// The search query.
    pub query: String,
    /// Tags that a source must have.
    pub required_tags: Vec<String>,
    pub k: i64,
    pub strategy: String,
    #[schema(format = DateTime)]
    pub as_of: Option<String>,
    /// Number of versions that the store returned before filtering.
    pub raw_candidates: usize,
    /// Number of round trips to the store.
    pub store_queries: usize,
    /// The candidates, in the order in which the store returned them.
    pub candidates: Vec<DocumentCandidateInfo>,
}

/// A candidate version.
#[derive(Debug, Serialize, ToSchema)]
pub struct DocumentCandidateInfo {
    pub source_id: String,
    pub version: i64,
    /// Null if the texts before it already reach the size limit of the response.
    pub content: Option<String>,
    pub metadata: DocumentMetadata,
    pub tags: Vec<String>,
    pub score: f64,
}

impl From<&VersionCandidate> for DocumentMetadata {
    fn from(found: &VersionCandidate) -> Self {
        let facts = &found.version.facts;
        Self {
            kind: found.source.kind,
            filename: found.source.filename.clone(),
            path: found.source.path.clone(),
            ingested_at: found.version.ingested_at.to_string(),
            file_type: found.source.file_type.clone(),
            mtime: facts.mtime.map(|moment| moment.to_string()),
            sha256: facts.sha256.clone(),
            size_bytes: facts.size_bytes,
            char_count: facts.char_count,
            token_count: facts.token_count,
            topic: facts.topic.clone(),
            note: facts.note.clone(),
            provider: facts.provider.clone(),
        }
    }
}

/// The ignored filters and the reasons.
pub fn relaxed(retrieved: &Retrieved) -> Vec<RelaxedFilter> {
    let say = |filter: &str, reason: String| RelaxedFilter {
        filter: filter.to_owned(),
        reason,
    };

    let mut all = Vec::new();
    if retrieved.relaxed.filename == Some(true) {
        all.push(say(
            "filename",
            "no source of this user has that name".to_owned(),
        ));
    }

    if retrieved.relaxed.tags {
        all.push(say(
            "tags",
            format!(
                "no matching source has all of these tags: {}",
                retrieved.required_tags.join(", ")
            ),
        ));
    }

    if let (true, Some(moment)) = (retrieved.relaxed.as_of, retrieved.input.as_of) {
        all.push(say(
            "as_of",
            format!("no matching version existed at {moment}"),
        ));
    }

    all
}

/// The warnings to include in the response.
pub fn warnings(retrieved: &Retrieved) -> Vec<DocumentWarning> {
    let strategy = retrieved.input.choice.into_str();
    let ignored = retrieved.as_of_ignored.then(|| DocumentWarning {
        code: "as_of_ignored".to_owned(),
        message: format!(
            "as_of applies only to the strategy latest; the strategy {strategy} ignores it"
        ),
    });

    let unmatched = retrieved.no_word_matches.then(|| DocumentWarning {
        code: "no_word_matches".to_owned(),
        message:
            "no source contains any word of the query or is near it in meaning; set strict to \
                  get 404 instead of an unrelated source"
                .to_owned(),
    });

    ignored.into_iter().chain(unmatched).collect()
}

impl From<Retrieved> for DocumentResponse {
    fn from(retrieved: Retrieved) -> Self {
        let (relaxed, warnings) = (relaxed(&retrieved), warnings(&retrieved));
        let Retrieved { found, input, .. } = retrieved;
        let (strategy, as_of) = (
            input.choice.into_str().to_owned(),
            input.as_of.map(|moment| moment.to_string()),
        );

        let k = i64::try_from(input.k).unwrap_or(i64::MAX);
        let explain = retrieved.candidates.map(|candidates| DocumentExplanation {
            query: retrieved.query,
            required_tags: retrieved.required_tags,
            k,
            strategy: strategy.clone(),
            as_of: as_of.clone(),
            raw_candidates: retrieved.raw_candidates,
            store_queries: retrieved.store_queries,
            candidates: candidates
                .into_iter()
                .map(DocumentCandidateInfo::from)
                .collect(),
        });

        Self {
            content: retrieved.content,
            source_id: found.source.id.to_string(),
            version: found.version.version,
            metadata: DocumentMetadata::from(&found),
            tags: found.source.tags.clone(),
            score: retrieved.score,
            source: found.source,
            user_id: input.user_id,
            k,
            strategy,
            as_of,
            strict: input.strict,
            filename_filter: retrieved
                .relaxed
                .filename
                .map(|relaxed| if relaxed { "relaxed" } else { "applied" }.to_owned()),
            tag_filter_relaxed: retrieved.relaxed.tags,
            as_of_fallback: retrieved.relaxed.as_of,
            relaxed,
            warnings,
            explain,
        }
    }
}

impl From<(VersionCandidate, f64)> for DocumentCandidateInfo {
    fn from((found, score): (VersionCandidate, f64)) -> Self {
        Self {
            source_id: found.source.id.to_string(),
            version: found.version.version,
            metadata: DocumentMetadata::from(&found),
            tags: found.source.tags,
            content: found.content,
            score,
        }
    }
}
