//! An ingestion request: checked, and stored with the job until it is done.

use memoir_policy::secrets::redact_in_place;
use memoir_text::field_error::FieldError;
use memoir_text::hash::short_hash;
use memoir_text::text::{char_count, has_control_but_breaks};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::chunker::ChunkRules;
use super::preparing::{Identity, SMALL};
use super::{IngestionError, IngestionSettings};
use crate::base::clock::Timestamp;
use crate::config;
use crate::config::ingestion::{
    FilingMode, IndexName, MAX_BATCH, MAX_CHUNK_TOKENS, TransactionScope, delimiter_fault,
};
use crate::contextual_helpers::{HelperFields, Refused, compose, from_text};
use crate::model::chunk::{RETRIEVAL, TAXONOMY};
use crate::model::contextual_helper::NewHelper;
use crate::search::source_words::said;

/// Maximum characters of a title, a topic, a note and the like.
const MAX_FACT_CHARS: usize = 2000;
/// Maximum characters of a provider's name.
const MAX_PROVIDER_CHARS: usize = 255;

/// Maximum entries of `options.indexes`, some of which may be the same.
const MAX_INDEXES: usize = 10;

/// A text and its metadata.
#[derive(Debug, Clone, Default)]
pub struct NewIngestion {
    pub text: String,
    /// An existing source to which this adds a version.
    pub source_id: Option<String>,
    pub filename: Option<String>,
    pub path: Option<String>,
    /// In microseconds.
    pub mtime: Option<i64>,
    pub user_id: Option<String>,
    pub tags: Vec<String>,
    pub facts: SourceFacts,
    pub contextual_helper: Option<GivenHelper>,
    pub auto_source_identification: Option<bool>,
    pub options: Options,
    pub regenerate_helper: bool,
    pub force: bool,
    /// Unchanged content makes no version.
    pub if_changed: bool,
    /// The time of the ingestion, if the request set one.
    pub at: Option<Timestamp>,
}

impl NewIngestion {
    /// Redacts keys and tokens in everything but ids and paths, which identify something.
    pub fn redact_secrets(&mut self) {
        let facts = &mut self.facts;
        let lines = [
            &mut facts.title,
            &mut facts.author,
            &mut facts.date,
            &mut facts.topic,
            &mut facts.note,
            &mut facts.provider,
            &mut self.filename,
        ];
        for text in lines.into_iter().flatten().chain(&mut self.tags) {
            redact_in_place(text);
        }

        match &mut self.contextual_helper {
            Some(GivenHelper::Text(text)) => {
                redact_in_place(text);
            }
            Some(GivenHelper::Fields(fields)) => fields.redact_secrets(),
            None => {}
        }

        redact_in_place(&mut self.text);
    }
}

/// The metadata of a source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFacts {
    pub title: Option<String>,
    pub author: Option<String>,
    pub date: Option<String>,
    pub topic: Option<String>,
    pub note: Option<String>,
    pub provider: Option<String>,
}

/// A helper: free text of at most 300 tokens, or four fields.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = HelperRequest)]
#[serde(
    untagged,
    expecting = "must be a string, or an object with date, author, topic and description"
)]
pub enum GivenHelper {
    Text(String),
    Fields(#[serde(deserialize_with = "crate::base::json_object::object")] HelperFields),
}

/// Settings for one text; omitted fields use the settings of the installation.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = IngestionOptionsRequest)]
pub struct Options {
    /// Strings after which a chunk may end.
    #[schema(min_items = 1, max_items = 50)]
    pub delimiters: Option<Vec<String>>,
    /// Minimum tokens per chunk, if the delimiters allow it.
    #[schema(minimum = 1, maximum = 100_000)]
    pub chunk_min_tokens: Option<u64>,
    /// Maximum tokens per chunk.
    #[schema(minimum = 2, maximum = 100_000)]
    pub chunk_max_tokens: Option<u64>,
    /// Number of chunks that one model call classifies.
    #[schema(minimum = 1, maximum = 50)]
    pub batch_size: Option<u64>,
    /// The model for this text, as `provider:model`.
    pub model: Option<String>,
    /// What to store in one transaction.
    #[schema(inline)]
    pub transaction_scope: Option<TransactionScope>,
    /// Whether a language model may file a short text by one call (`auto`), or files it level by
    /// level (`levels`).
    #[schema(inline)]
    pub filing: Option<FilingMode>,
    /// Which indexes to build. With `[]`, the source can be found only by its name.
    #[schema(max_items = 10)]
    pub indexes: Option<Vec<IndexName>>,
}

/// The job's own copy of the request, after validation.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent option"
)]
pub struct Order {
    pub text: String,
    /// The source, existing or to be created.
    pub source_id: String,
    pub filename: Option<String>,
    pub path: Option<String>,
    pub user_id: String,
    pub tags: Vec<String>,
    pub mtime: Option<i64>,
    pub facts: SourceFacts,
    pub helper: Option<NewHelper>,
    pub auto_source_identification: bool,
    pub delimiters: Vec<String>,
    pub chunk_min_tokens: usize,
    pub chunk_max_tokens: usize,
    pub batch_size: usize,
    /// Stored with the job, because what was written refers to it.
    pub window: usize,
    pub model: Option<String>,
    #[serde(default = "level_by_level")]
    pub filing: FilingMode,
    #[serde(default = "only_filed")]
    pub indexes: Vec<IndexName>,
    /// Maximum tokens of a search chunk, and how many two consecutive ones share.
    #[serde(default)]
    pub retrieval: (usize, usize),
    pub whole: bool,
    pub regenerate_helper: bool,
    pub force: bool,
    #[serde(default)]
    pub if_changed: bool,
    /// Number of U+0000 characters removed, which not every database can store.
    pub nul_removed: usize,
    /// The time of the ingestion in microseconds, if the request set one.
    #[serde(default)]
    pub at: Option<i64>,
    /// Texts with the same name here came in one request and may share model calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<String>,
}

/// The defaults for jobs queued before these choices existed.
fn level_by_level() -> FilingMode {
    FilingMode::Levels
}

fn only_filed() -> Vec<IndexName> {
    vec![IndexName::Taxonomy]
}

impl Order {
    /// Serialized for the job. The text is nearly all of it, so the buffer is allocated at once
    /// instead of growing.
    pub fn written(&self) -> Result<String, serde_json::Error> {
        let mut written = Vec::with_capacity(self.text.len() + self.text.len() / 16 + 2048);
        serde_json::to_writer(&mut written, self)?;
        String::from_utf8(written).map_err(serde::ser::Error::custom)
    }

    /// Whether its chunks are filed in the hierarchy.
    pub fn is_filed(&self) -> bool {
        self.indexes.contains(&IndexName::Taxonomy)
    }

    /// Whether its text is also cut and embedded for semantic search.
    pub fn wants_vectors(&self) -> bool {
        self.indexes.contains(&IndexName::Semantic)
    }

    /// The profile of chunks that searches find, if any.
    pub fn searched_profile(&self) -> Option<&'static str> {
        if self.wants_vectors() {
            Some(RETRIEVAL)
        } else {
            self.is_filed().then_some(TAXONOMY)
        }
    }

    /// Whether it may wait for other short texts, to share their calls.
    pub fn may_linger(&self, settings: &config::Ingestion) -> bool {
        let is_short = self.text.len() <= SMALL;
        settings.linger > 0 && self.filing == FilingMode::Auto && is_short
    }

    pub fn rules(&self) -> ChunkRules {
        ChunkRules {
            delimiters: self.delimiters.clone(),
            min_tokens: self.chunk_min_tokens,
            max_tokens: self.chunk_max_tokens,
        }
    }

    /// The key by which two ingestions of one text are the same.
    pub fn settings_key(&self, depth: i64, tokenizer: &str) -> String {
        let filed = json!([
            self.delimiters,
            self.chunk_min_tokens,
            self.chunk_max_tokens,
            depth,
            tokenizer
        ]);

        let settings = json!([
            filed,
            self.is_filed(),
            self.wants_vectors().then_some(self.retrieval)
        ]);

        short_hash(settings.to_string().as_bytes())
    }

    /// What is said about the source, by which it can be found besides its text, name and tags.
    pub fn words(&self) -> String {
        let facts = &self.facts;
        let facts = [
            &facts.title,
            &facts.author,
            &facts.topic,
            &facts.note,
            &facts.provider,
        ];

        said(facts.map(Option::as_deref))
    }

    /// What the version keeps of the request.
    pub fn metadata(&self) -> Value {
        json!({
            "title": self.facts.title, "author": self.facts.author, "date": self.facts.date,
            "options": {
                "delimiters": self.delimiters, "chunk_min_tokens": self.chunk_min_tokens,
                "chunk_max_tokens": self.chunk_max_tokens, "batch_size": self.batch_size, "model": self.model,
                "indexes": self.indexes, "filing": self.filing,
            },
        })
    }
}

/// Checks everything at once, except name and path of the source, which `sources` checks.
pub(super) fn check(
    mut new: NewIngestion,
    identity: Identity,
    settings: &IngestionSettings,
) -> Result<Order, IngestionError> {
    let mut errors = Vec::new();
    let given = new.text.len();

    // In place, because it may be long.
    new.text.retain(|c| c != '\0');
    if new.text.trim().is_empty() {
        errors.push(FieldError::new("text", "must not be empty"));
    }

    for (field, value, most) in [
        ("title", &new.facts.title, MAX_FACT_CHARS),
        ("author", &new.facts.author, MAX_FACT_CHARS),
        ("date", &new.facts.date, MAX_FACT_CHARS),
        ("topic", &new.facts.topic, MAX_FACT_CHARS),
        ("note", &new.facts.note, MAX_FACT_CHARS),
        ("provider", &new.facts.provider, MAX_PROVIDER_CHARS),
    ] {
        let Some(value) = value else { continue };
        if char_count(value) > most {
            errors.push(FieldError::new(
                field,
                format!("must have at most {most} characters"),
            ));
        } else if has_control_but_breaks(value) {
            errors.push(FieldError::new(
                field,
                "must not contain control characters",
            ));
        }
    }

    let usual = &settings.ingestion;
    let (min, max, batch) = check_numbers(&new.options, settings, &mut errors);
    if let Some(fault) = new.options.delimiters.as_deref().and_then(delimiter_fault) {
        errors.push(FieldError::new(
            "options.delimiters",
            format!("must be {fault}"),
        ));
    }

    if new
        .options
        .indexes
        .as_ref()
        .is_some_and(|indexes| indexes.len() > MAX_INDEXES)
    {
        let rule = format!("must have at most {MAX_INDEXES} items");
        errors.push(FieldError::new("options.indexes", rule));
    }

    let helper = match &new.contextual_helper {
        None => None,
        Some(GivenHelper::Text(text)) => from_text("contextual_helper", text)
            .map_err(|error| errors.push(error))
            .ok(),
        Some(GivenHelper::Fields(fields)) => match compose(fields) {
            Ok(helper) => Some(helper),
            Err(Refused {
                errors: refused, ..
            }) => {
                let named = |error: FieldError| {
                    FieldError::new(format!("contextual_helper.{}", error.field), error.message)
                };
                errors.extend(refused.into_iter().map(named));
                None
            }
        },
    };

    if !errors.is_empty() {
        return Err(IngestionError::Invalid(errors));
    }

    let (nul_removed, options) = (given - new.text.len(), new.options);
    Ok(Order {
        text: new.text,
        source_id: identity.id.to_string(),
        filename: identity.filename,
        path: identity.path,
        user_id: identity.user_id,
        tags: identity.tags,
        mtime: new.mtime,
        facts: new.facts,
        helper,
        auto_source_identification: new
            .auto_source_identification
            .unwrap_or(usual.auto_source_identification),
        delimiters: options
            .delimiters
            .unwrap_or_else(|| usual.delimiters.clone()),
        chunk_min_tokens: size(min),
        chunk_max_tokens: size(max),
        batch_size: size(batch),
        window: size(usual.window),
        model: options.model,
        filing: options.filing.unwrap_or(usual.filing),
        indexes: options.indexes.unwrap_or_else(|| usual.indexes.clone()),
        retrieval: (
            size(settings.retrieval_tokens),
            size(settings.retrieval_overlap),
        ),
        whole: options.transaction_scope.unwrap_or(usual.transaction_scope)
            == TransactionScope::Ingestion,
        regenerate_helper: new.regenerate_helper,
        force: new.force,
        if_changed: new.if_changed,
        nul_removed,
        at: new.at.map(Timestamp::as_micros),
        together: None,
    })
}

/// The chunk rules for one request.
fn check_numbers(
    given: &Options,
    settings: &IngestionSettings,
    errors: &mut Vec<FieldError>,
) -> (u64, u64, u64) {
    let usual = &settings.ingestion;
    let min = given.chunk_min_tokens.unwrap_or(usual.chunk_min_tokens);
    let max = given.chunk_max_tokens.unwrap_or(usual.chunk_max_tokens);
    let batch = given.batch_size.unwrap_or(usual.batch_size);
    let mut refuse = |field: &str, rule: String| errors.push(FieldError::new(field, rule));

    if !(1..=MAX_CHUNK_TOKENS).contains(&min) {
        refuse(
            "options.chunk_min_tokens",
            format!("must be from 1 to {MAX_CHUNK_TOKENS}"),
        );
    }

    if !(2..=MAX_CHUNK_TOKENS).contains(&max) {
        refuse(
            "options.chunk_max_tokens",
            format!("must be from 2 to {MAX_CHUNK_TOKENS}"),
        );
    } else if min >= max {
        let field = if given.chunk_min_tokens.is_some() {
            "options.chunk_min_tokens"
        } else {
            "options.chunk_max_tokens"
        };
        refuse(
            field,
            format!("chunk_min_tokens ({min}) must be less than chunk_max_tokens ({max})"),
        );
    } else if settings.max_token_budget <= min.saturating_add(crate::config::query::ROOM) {
        let rule = format!(
            "{min} leaves no room in query.max_token_budget ({})",
            settings.max_token_budget
        );
        refuse("options.chunk_min_tokens", rule);
    }

    if !(1..=MAX_BATCH).contains(&batch) {
        refuse(
            "options.batch_size",
            format!("must be from 1 to {MAX_BATCH}"),
        );
    }

    (min, max, batch)
}

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
