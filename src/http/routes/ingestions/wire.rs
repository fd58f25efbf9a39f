//! The wire format of an ingestion.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::base::clock::Timestamp;
use crate::http::error::ApiError;
use crate::http::extract::object_or_null;
use crate::ingestion::{GivenHelper, NewIngestion, Options, SourceFacts};
use crate::sources::Tag;

/// A text to ingest and its metadata. Only `text` is required, or the `path` of a file on the
/// server.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(example = json!({
    "text": "The lighthouse on the northern cape was built in 1843.", "path": "/docs/lighthouse.md", "tags": ["coast"]
}))]
pub struct CreateIngestionRequest {
    /// The text, stored verbatim except that U+0000 is removed with a warning. May be omitted only
    /// if the service has an `ingestion.root` and `path` names a text file below it; memoir then
    /// reads that file.
    #[schema(value_type = String, min_length = 1)]
    pub text: Option<String>,
    /// The file name. If you send a path, memoir uses its last segment; if you send neither, the
    /// title.
    #[schema(max_length = 255)]
    pub filename: Option<String>,
    /// The path of the source in your system: absolute, unique per user. Ingesting the same path
    /// again creates a new version of the source.
    #[schema(max_length = 4096)]
    pub path: Option<String>,
    /// The source to add a version to, instead of `path`.
    pub source_id: Option<String>,
    /// When the file was last modified.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub mtime: Option<Timestamp>,
    /// The title. If omitted, the helper uses a title found in the text.
    #[schema(max_length = 2000)]
    pub title: Option<String>,
    /// Tags to find the source by. An existing source keeps its tags and gains these.
    #[schema(max_items = 99, value_type = Vec<Tag>)]
    pub tags: Vec<String>,
    /// What the text is about.
    #[schema(max_length = 2000)]
    pub topic: Option<String>,
    /// Notes about the text.
    #[schema(max_length = 2000)]
    pub note: Option<String>,
    /// Where the text comes from.
    #[schema(max_length = 255)]
    pub provider: Option<String>,
    /// Who wrote it.
    #[schema(max_length = 2000)]
    pub author: Option<String>,
    /// When it was written.
    #[schema(max_length = 2000)]
    pub date: Option<String>,
    /// The end user who owns it; `default` if omitted.
    #[schema(max_length = 128)]
    #[serde(default, deserialize_with = "crate::base::user_id::trimmed")]
    pub user_id: Option<String>,
    /// A helper in your own words; a model replaces it only with `regenerate_helper`.
    pub contextual_helper: Option<GivenHelper>,
    /// Whether a model may write the helper if there is none; if false, the job waits for yours.
    pub auto_source_identification: Option<bool>,
    /// Settings for this text only.
    #[serde(deserialize_with = "object_or_null")]
    pub options: Option<Options>,
    /// Whether a model writes a new helper even if the source has one, including one of your own;
    /// false if omitted.
    pub regenerate_helper: Option<bool>,
    /// Whether to file the text again even if the source already has a version with the same
    /// content; false if omitted.
    pub force: Option<bool>,
    /// Whether the job ends without a new version if the latest version of the source has the same
    /// content and settings (`unchanged: true` in its result); false if omitted.
    pub if_changed: Option<bool>,
    /// Whether to wait until the job has ended, but not longer than `timeout_s`; false if omitted.
    pub wait: Option<bool>,
    /// With `wait`: maximum number of seconds to wait; 60 if omitted.
    #[schema(minimum = 0, maximum = 600)]
    pub timeout_s: Option<f64>,
}

/// A file and its metadata.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its description is used")]
pub struct IngestionUpload {
    /// A text file: .txt, .md, .json, .yml or .yaml, in UTF-8.
    #[schema(value_type = String, format = Binary)]
    file: Vec<u8>,
    /// The fields of the JSON form except `text`, as JSON.
    metadata: Option<String>,
}

impl CreateIngestionRequest {
    /// Converts the request to the type of the ingestion module.
    pub fn into_new(self) -> Result<NewIngestion, ApiError> {
        let text = self.text.ok_or_else(|| {
            let rule = if self.path.is_some() {
                "missing field `text`; memoir reads files on the server only if \
                 ingestion.root is set"
            } else {
                "missing field `text`"
            };
            ApiError::invalid_field("text", rule)
        })?;

        Ok(NewIngestion {
            at: None,
            text,
            source_id: self.source_id,
            filename: self.filename,
            path: self.path,
            mtime: self.mtime.map(Timestamp::as_micros),
            user_id: self.user_id,
            tags: self.tags,
            facts: SourceFacts {
                title: self.title,
                author: self.author,
                date: self.date,
                topic: self.topic,
                note: self.note,
                provider: self.provider,
            },
            contextual_helper: self.contextual_helper,
            auto_source_identification: self.auto_source_identification,
            options: self.options.unwrap_or_default(),
            regenerate_helper: self.regenerate_helper.unwrap_or(false),
            force: self.force.unwrap_or(false),
            if_changed: self.if_changed.unwrap_or(false),
        })
    }
}
