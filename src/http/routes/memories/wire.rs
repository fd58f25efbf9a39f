//! A memory as the API shows it.

use serde::Serialize;
use utoipa::ToSchema;

use crate::base::clock::Timestamp;
use crate::conversation::conflicts::Conflict;
use crate::http::page::list_response;
use crate::model::memory::{CorrectedField, Entity, Memory};

/// A memory: a message, a fact, a preference or a summary.
#[derive(Debug, Serialize, ToSchema)]
pub struct MemoryResponse {
    pub id: String,
    pub user_id: String,
    /// The thread that it belongs to, if any.
    pub thread_id: Option<String>,
    /// `message`, `fact`, `preference` or `summary`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `user`, `assistant` or `system`.
    pub role: String,
    /// The name of the speaker, if the message was stored with one.
    pub name: Option<String>,
    /// The title; summaries have one.
    pub title: Option<String>,
    /// The text, verbatim.
    pub content: String,
    /// SHA-256 of the text.
    pub content_hash: String,
    /// Where it comes from: `chat` or `external` for a message, as the request said; `client` for a
    /// memory that an application created; `model` for one that a model extracted or summarised.
    pub source: String,
    /// The file that it is about, if the client named one.
    pub file_path: Option<String>,
    /// SHA-256 of the version of the file that it is about, if the client gave it.
    pub file_sha256: Option<String>,
    /// When that version of the file was last modified, if the client gave it.
    #[schema(format = DateTime)]
    pub file_mtime: Option<String>,
    /// The turn of its thread, from 1; 0 outside a thread.
    pub turn_index: i64,
    /// Its classification by a model, with the corrections of users; contains only `role` until it is
    /// classified.
    pub metadata: MetadataResponse,
    /// The effective importance, from 0 to 1: the one in `metadata`, raised by frequent use and by
    /// `important`.
    pub importance: Option<f64>,
    /// Whether a user marked it as important.
    pub important: bool,
    /// Whether it is a summary that is part of the window of its thread.
    pub pinned: bool,
    pub tags: Vec<String>,
    /// What a user has corrected in `metadata`: `topics`, `category`, `message_type`, `importance`.
    /// It stays when the memory is classified again.
    pub corrected_fields: Vec<String>,
    /// Whether parts of the text were redacted before it was stored (`redaction.at`).
    pub redacted: bool,
    /// Its age: `short_term` (up to a day), `mid_term` (up to 30 days) or `long_term`.
    pub tier: String,
    /// Number of contexts that contained it.
    pub access_count: i64,
    /// The state of its classification: `pending`, `done`, `failed`, or `none` if it is not to be
    /// classified.
    pub enrichment_state: String,
    /// The job that classifies or classified it.
    pub enrichment_job_id: Option<String>,
    /// What it is based on: messages and, for a fact, the quote in one of them.
    pub evidence: Option<EvidenceResponse>,
    /// The memory that it replaces.
    pub supersedes: Option<String>,
    /// The memory that replaced it.
    pub superseded_by: Option<String>,
    /// When it was replaced.
    #[schema(format = DateTime)]
    pub superseded_at: Option<String>,
    /// When it was said; for a fact, the time from which it is true.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// When it was last part of a context.
    #[schema(format = DateTime)]
    pub last_access_at: Option<String>,
}

/// A memory that was stored, and what contradicts it.
#[derive(Debug, Serialize, ToSchema)]
pub struct CreatedMemoryResponse {
    #[serde(flatten)]
    pub memory: MemoryResponse,
    /// What is known of the user and cannot be true together with the new memory. Contexts show the
    /// newer one first and mark the older one as `earlier`; to replace it, send `supersedes`.
    pub conflicts: Vec<Conflict>,
}

/// The classification of a memory by a model, in terms of the vocabulary. All fields except `role`
/// are missing until the memory is classified.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MemoryMetadata)]
pub struct MetadataResponse {
    pub role: String,
    /// One to three topics from the vocabulary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topics: Option<Vec<String>>,
    /// A category from the vocabulary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// A message type from the vocabulary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_type: Option<String>,
    /// Names, numbers and amounts in the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entities: Option<Vec<Entity>>,
    /// `high`, `medium` or `low`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<String>,
    /// A topic that is missing in the vocabulary; only with low confidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    #[expect(clippy::option_option, reason = "omitted and null differ")]
    pub suggested_topic: Option<Option<String>>,
    /// A category that is missing in the vocabulary; only with low confidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    #[expect(clippy::option_option, reason = "omitted and null differ")]
    pub suggested_category: Option<Option<String>>,
    /// The importance, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub importance: Option<f64>,
    /// The version of the vocabulary that was used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vocabulary_version: Option<String>,
    /// The model that classified the memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enrichment_model: Option<String>,
}

/// What a memory is based on.
#[derive(Debug, Serialize, ToSchema)]
pub struct EvidenceResponse {
    /// The messages that it was made from.
    pub message_ids: Vec<String>,
    /// The words of the message that state the fact.
    pub quote: Option<String>,
    /// Start offset of the quote in the message, in characters.
    pub start_char: Option<i64>,
    /// End offset in characters, exclusive.
    pub end_char: Option<i64>,
}

impl MemoryResponse {
    pub fn of(memory: &Memory, now: Timestamp) -> Self {
        let evidence = memory.evidence.as_ref();
        Self {
            id: memory.id.to_string(),
            user_id: memory.user_id.clone(),
            thread_id: memory.thread_id.as_ref().map(ToString::to_string),
            kind: memory.kind.into_str().to_owned(),
            role: memory.role.clone(),
            name: memory.labels.speaker.clone(),
            title: memory.title.clone(),
            content: memory.content.clone(),
            content_hash: memory.content_hash.clone(),
            source: memory.source.clone(),
            file_path: memory.file.path.clone(),
            file_sha256: memory.file.sha256.clone(),
            file_mtime: memory.file.mtime.map(|time| time.to_string()),
            turn_index: memory.turn_index,
            metadata: metadata(memory),
            importance: memory.importance(),
            important: memory.important,
            pinned: memory.pinned,
            tags: memory.labels.tags.clone(),
            corrected_fields: memory
                .labels
                .corrected
                .iter()
                .map(|field| field.into_str().to_owned())
                .collect(),
            redacted: memory.labels.redacted,
            tier: memory.tier(now).into_str().to_owned(),
            access_count: memory.access_count,
            enrichment_state: memory.enrichment_state.into_str().to_owned(),
            enrichment_job_id: memory.enrichment_job.clone(),
            evidence: evidence
                .filter(|evidence| !evidence.message_ids.is_empty())
                .map(|evidence| EvidenceResponse {
                    message_ids: evidence.message_ids.clone(),
                    quote: evidence.quote.clone(),
                    start_char: evidence.start_char,
                    end_char: evidence.end_char,
                }),
            supersedes: evidence.and_then(|evidence| evidence.supersedes.clone()),
            superseded_by: memory.superseded_by.clone(),
            superseded_at: memory.superseded_at.map(|time| time.to_string()),
            created_at: memory.created_at.to_string(),
            last_access_at: memory.last_access_at.map(|time| time.to_string()),
        }
    }
}

fn metadata(memory: &Memory) -> MetadataResponse {
    // While it is classified again, it keeps what was found before.
    let classified = memory.enrichment_model.is_some();
    let corrected = memory.is_corrected(CorrectedField::Topics);
    let shows_topics = classified || corrected || !memory.labels.topics.is_empty();
    MetadataResponse {
        role: memory.role.clone(),
        topics: shows_topics.then(|| memory.labels.topics.clone()),
        category: memory.category.clone(),
        message_type: memory.message_type.clone(),
        entities: classified.then(|| memory.labels.entities.clone()),
        confidence: memory.confidence.clone(),
        suggested_topic: classified.then(|| memory.suggested_topic.clone()),
        suggested_category: classified.then(|| memory.suggested_category.clone()),
        importance: memory.own_importance,
        vocabulary_version: memory.vocabulary_version.clone(),
        enrichment_model: memory.enrichment_model.clone(),
    }
}

list_response! {
    /// A page of memories.
    MemoryListResponse of MemoryResponse
}
