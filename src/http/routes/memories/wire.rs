//! A memory as the API shows it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::base::clock::Timestamp;
use crate::model::memory::{EnrichmentState, Memory};

/// A memory: a message, a fact, a preference or a summary.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
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
    /// Who speaks, if the message named it.
    pub name: Option<String>,
    pub title: Option<String>,
    /// The text, verbatim.
    pub content: String,
    /// SHA-256 of the text.
    pub content_hash: String,
    /// `chat`, `external`, `client` or `model`.
    pub source: String,
    /// The file that it speaks about, as far as the client named it.
    pub file_path: Option<String>,
    pub file_sha256: Option<String>,
    #[schema(format = DateTime)]
    pub file_mtime: Option<String>,
    /// The turn of its thread, from 1; 0 outside a thread.
    pub turn_index: i64,
    /// What a model said about it; only `role` until then.
    pub metadata: MetadataResponse,
    /// The importance that counts: that of the metadata, raised by uses and by `important`.
    pub importance: Option<f64>,
    pub important: bool,
    pub pinned: bool,
    pub tags: Vec<String>,
    /// Whether parts of the text were replaced before it was stored (`redaction.at`).
    pub redacted: bool,
    /// `short_term` (up to a day), `mid_term` (up to 30 days) or `long_term`.
    pub tier: String,
    /// How often it was delivered in a context.
    pub access_count: i64,
    /// `pending`, `done`, `failed` or `none`.
    pub enrichment_state: String,
    /// The job that classifies it, or did.
    pub enrichment_job_id: Option<String>,
    /// What it rests on: the messages, and for a fact the characters of one.
    pub evidence: Option<EvidenceResponse>,
    /// The memory that it replaces.
    pub supersedes: Option<String>,
    /// The memory that replaced it.
    pub superseded_by: Option<String>,
    #[schema(format = DateTime)]
    pub superseded_at: Option<String>,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[schema(format = DateTime)]
    pub last_access_at: Option<String>,
}

/// What a model said about a memory, in the words of the vocabulary.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = MemoryMetadata)]
pub struct MetadataResponse {
    pub role: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topics: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entities: Option<Vec<EntityResponse>>,
    /// `high`, `medium` or `low`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<String>,
    /// A topic that is missing in the vocabulary; only with low confidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    #[expect(clippy::option_option, reason = "omitted and null differ")]
    pub suggested_topic: Option<Option<String>>,
    /// A category that is missing in the vocabulary; only with low confidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    #[expect(clippy::option_option, reason = "omitted and null differ")]
    pub suggested_category: Option<Option<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub importance: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vocabulary_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enrichment_model: Option<String>,
}

/// Something named in a text.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct EntityResponse {
    #[serde(rename = "type")]
    pub kind: String,
    pub value: String,
}

/// What a memory rests on.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct EvidenceResponse {
    pub message_ids: Vec<String>,
    /// The words of the message that carry a fact.
    pub quote: Option<String>,
    pub start_char: Option<i64>,
    pub end_char: Option<i64>,
}

impl MemoryResponse {
    pub fn of(memory: &Memory, now: Timestamp) -> Self {
        let evidence = memory.evidence.as_ref();
        Self {
            id: memory.id.to_string(),
            user_id: memory.user_id.clone(),
            thread_id: memory.thread_id.as_ref().map(ToString::to_string),
            kind: memory.kind.as_str().to_owned(),
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
            redacted: memory.labels.redacted,
            tier: memory.tier(now).as_str().to_owned(),
            access_count: memory.access_count,
            enrichment_state: memory.enrichment_state.as_str().to_owned(),
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
    let done = memory.enrichment_state == EnrichmentState::Done;
    let entities = memory.labels.entities.iter().map(|entity| EntityResponse {
        kind: entity.kind.clone(),
        value: entity.value.clone(),
    });
    MetadataResponse {
        role: memory.role.clone(),
        topics: (done || !memory.labels.topics.is_empty()).then(|| memory.labels.topics.clone()),
        category: memory.category.clone(),
        message_type: memory.message_type.clone(),
        entities: done.then(|| entities.collect()),
        confidence: memory.confidence.clone(),
        suggested_topic: done.then(|| memory.suggested_topic.clone()),
        suggested_category: done.then(|| memory.suggested_category.clone()),
        importance: memory.own_importance,
        vocabulary_version: memory.vocabulary_version.clone(),
        enrichment_model: memory.enrichment_model.clone(),
    }
}

/// A page of memories.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct MemoryListResponse {
    pub items: Vec<MemoryResponse>,
    /// Pass it as `cursor` to get the next page; null on the last page.
    pub next_cursor: Option<String>,
}
