//! An ingestion on the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::base::clock::Timestamp;
use crate::config::ingestion::{IndexName, TransactionScope};
use crate::contextual_helpers::HelperFields;
use crate::http::error::ApiError;
use crate::http::extract::{object, object_or_null};
use crate::http::routes::sources::{Tag, to_texts};
use crate::ingestion::{Facts, GivenHelper, NewIngestion, Options};

/// A text to bring in, and what is known of it. Only `text` is needed, or the `path` of a file of
/// the server.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(example = json!({
    "text": "The lighthouse on the northern cape was built in 1843.", "path": "/docs/lighthouse.md", "tags": ["coast"]
}))]
pub struct CreateIngestionRequest {
    /// The text itself, kept verbatim (U+0000 alone is taken out, with a warning). May be left out
    /// only where the service has an `ingestion.root`, and `path` names a text file below it: then
    /// that file is read.
    #[schema(value_type = String, min_length = 1)]
    pub text: Option<String>,
    /// The file's name; of a path, the last segment is taken.
    #[schema(max_length = 255)]
    pub filename: Option<String>,
    /// Where it lives: absolute, unique per user. The same path again is a new version of the
    /// source.
    #[schema(max_length = 4096)]
    pub path: Option<String>,
    /// The source that this is a new version of, instead of `path`.
    pub source_id: Option<String>,
    /// When the file was last changed.
    #[schema(format = DateTime)]
    pub mtime: Option<String>,
    /// Its title; for its helper one is looked for in the text if left out.
    #[schema(max_length = 2000)]
    pub title: Option<String>,
    /// Tags to find it by; a source that is there keeps those it has, and gets these as well.
    #[schema(max_items = 99)]
    pub tags: Vec<Tag>,
    /// What it is about.
    #[schema(max_length = 2000)]
    pub topic: Option<String>,
    /// Anything else to know of it.
    #[schema(max_length = 2000)]
    pub note: Option<String>,
    /// Where it comes from.
    #[schema(max_length = 255)]
    pub provider: Option<String>,
    /// Who wrote it.
    #[schema(max_length = 2000)]
    pub author: Option<String>,
    /// When it was written.
    #[schema(max_length = 2000)]
    pub date: Option<String>,
    /// The end user it belongs to; `default` if left out.
    #[schema(max_length = 128)]
    pub user_id: Option<String>,
    /// A helper of the source in your words, which no model will replace.
    pub contextual_helper: Option<HelperRequest>,
    /// Whether a model may describe it where there is no helper; if not, the job waits for
    /// yours.
    pub auto_source_identification: Option<bool>,
    /// Settings for this text alone.
    #[serde(deserialize_with = "object_or_null")]
    pub options: Option<IngestionOptionsRequest>,
    /// Has the helper written anew, even over your own.
    pub regenerate_helper: Option<bool>,
    /// Files the text anew although the source has said the same before.
    pub force: Option<bool>,
    /// Answers when the job is over, or after `timeout_s`.
    pub wait: Option<bool>,
    /// Seconds to wait; 60 if left out.
    #[schema(minimum = 0, maximum = 600)]
    pub timeout_s: Option<f64>,
}

/// A helper: free text of at most 300 tokens, or four fields.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(
    untagged,
    expecting = "must be a text, or an object with date, author, topic and description"
)]
pub enum HelperRequest {
    Text(String),
    Fields(#[serde(deserialize_with = "object")] HelperFieldsRequest),
}

/// What is known of a source. All four are needed; `unknown` is an answer to each.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(example = json!({"date": "2024-05-01", "author": "Ada Example", "topic": "Lighthouses", "description": "unknown"}))]
pub struct HelperFieldsRequest {
    /// When it was made: `YYYY-MM-DD` or `YYYY-MM-DDTHH:MM:SS`.
    #[schema(required, value_type = String)]
    pub date: Option<String>,
    /// Who made it.
    #[schema(required, value_type = String)]
    pub author: Option<String>,
    /// What it is about.
    #[schema(required, value_type = String)]
    pub topic: Option<String>,
    /// What it is, in at most 200 tokens.
    #[schema(required, value_type = String)]
    pub description: Option<String>,
}

/// Settings for one text; those of the installation where left out.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IngestionOptionsRequest {
    /// Texts after which a chunk may end.
    #[schema(min_items = 1, max_items = 50)]
    pub delimiters: Option<Vec<String>>,
    /// Least tokens of a chunk, wherever a delimiter allows it.
    #[schema(minimum = 1, maximum = 100_000)]
    pub chunk_min_tokens: Option<u64>,
    /// Most tokens of a chunk.
    #[schema(minimum = 2, maximum = 100_000)]
    pub chunk_max_tokens: Option<u64>,
    /// Chunks that are filed by one model call.
    #[schema(minimum = 1, maximum = 50)]
    pub batch_size: Option<u64>,
    /// The model for this text, as `provider:model`.
    pub model: Option<String>,
    /// What is written together.
    #[schema(inline)]
    pub transaction_scope: Option<TransactionScopeName>,
    /// What the text is made found by; `[]` keeps it as a source that is found by its name alone.
    #[schema(max_items = 10)]
    pub indexes: Option<Vec<IngestionIndex>>,
}

/// `taxonomy`: chunks under the hierarchy, which takes a model. `semantic`: chunks for searches
/// by meaning. Either makes the text found by its words as well.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum IngestionIndex {
    Taxonomy,
    Semantic,
}

/// What is written together: the whole ingestion, or each batch of chunks.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TransactionScopeName {
    Ingestion,
    Batch,
}

/// A file, and what is known of it.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its description is used")]
pub struct IngestionUpload {
    /// A text file: .txt, .md, .json, .yml or .yaml, in UTF-8.
    #[schema(value_type = String, format = Binary)]
    file: Vec<u8>,
    /// The fields of the JSON form but `text`, as JSON.
    metadata: Option<String>,
}

impl CreateIngestionRequest {
    /// The same as the area takes it.
    pub fn into_new(self) -> Result<NewIngestion, ApiError> {
        let text = self.text.ok_or_else(|| {
            let rule = if self.path.is_some() {
                "missing field `text`; the service reads files of its own only below ingestion.root, which is not set"
            } else {
                "missing field `text`"
            };
            ApiError::invalid_field("text", rule)
        })?;

        let mtime = match self.mtime.as_deref().map(Timestamp::parse_rfc3339) {
            None => None,
            Some(Some(moment)) => Some(moment.as_micros()),
            Some(None) => {
                let rule = "must be a moment with its offset, like 2026-01-31T12:00:00Z";
                return Err(ApiError::invalid_field("mtime", rule));
            }
        };

        let options = self.options.unwrap_or_default();
        Ok(NewIngestion {
            at: None,
            text,
            source_id: self.source_id,
            filename: self.filename,
            path: self.path,
            mtime,
            user_id: self.user_id,
            tags: to_texts(self.tags),
            facts: Facts {
                title: self.title,
                author: self.author,
                date: self.date,
                topic: self.topic,
                note: self.note,
                provider: self.provider,
            },
            contextual_helper: self.contextual_helper.map(|helper| match helper {
                HelperRequest::Text(text) => GivenHelper::Text(text),
                HelperRequest::Fields(fields) => GivenHelper::Fields(fields.into()),
            }),
            auto_source_identification: self.auto_source_identification,
            options: Options {
                delimiters: options.delimiters,
                chunk_min_tokens: options.chunk_min_tokens,
                chunk_max_tokens: options.chunk_max_tokens,
                batch_size: options.batch_size,
                model: options.model,
                transaction_scope: options.transaction_scope.map(|scope| match scope {
                    TransactionScopeName::Ingestion => TransactionScope::Ingestion,
                    TransactionScopeName::Batch => TransactionScope::Batch,
                }),
                indexes: options
                    .indexes
                    .map(|indexes| indexes.into_iter().map(Into::into).collect()),
            },
            regenerate_helper: self.regenerate_helper.unwrap_or(false),
            force: self.force.unwrap_or(false),
        })
    }
}

impl From<IngestionIndex> for IndexName {
    fn from(index: IngestionIndex) -> Self {
        match index {
            IngestionIndex::Taxonomy => Self::Taxonomy,
            IngestionIndex::Semantic => Self::Semantic,
        }
    }
}

impl From<HelperFieldsRequest> for HelperFields {
    fn from(fields: HelperFieldsRequest) -> Self {
        Self {
            date: fields.date,
            author: fields.author,
            topic: fields.topic,
            description: fields.description,
        }
    }
}
