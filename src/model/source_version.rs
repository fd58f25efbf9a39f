//! One version of a source. It never changes.

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::base::clock::Timestamp;
use crate::base::ids::SourceId;
use crate::base::json_defaults::{with_defaults, without_defaults};

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

/// What most versions have in their metadata. It is not stored: `METADATA_NUMBER` says so. Fixed,
/// because the settings of a service may change: for other values, add another number.
static METADATA: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "title": null, "author": null, "date": null,
        "options": {
            "delimiters": [".", "\n"], "chunk_min_tokens": 300, "chunk_max_tokens": 500, "batch_size": 5,
            "model": null, "indexes": ["taxonomy", "semantic"],
        },
    })
});
/// The field of stored metadata that names the values that are not stored.
const DEFAULTS: &str = "defaults";
const METADATA_NUMBER: i64 = 1;

/// Metadata as it is stored: without the usual values, if it has all of their fields.
pub fn stored_metadata(metadata: &Value) -> Value {
    let Some(fields) = metadata.as_object() else {
        return metadata.clone();
    };

    let mut stored = without_defaults(fields, &METADATA);
    if Value::from(with_defaults(stored.clone(), &METADATA)) != *metadata {
        return metadata.clone();
    }

    stored.insert(DEFAULTS.to_owned(), METADATA_NUMBER.into());
    stored.into()
}

/// Metadata as it was before it was stored.
pub fn whole_metadata(stored: Value) -> Value {
    match stored {
        Value::Object(mut fields) if fields.get(DEFAULTS) == Some(&METADATA_NUMBER.into()) => {
            fields.shift_remove(DEFAULTS);
            with_defaults(fields, &METADATA).into()
        }
        stored => stored,
    }
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
