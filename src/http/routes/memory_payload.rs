//! The payload of memory retrieval on the wire.

use memoir_policy::explain::Effect;
use memoir_policy::settings::{Retrieval, SearchType};
use memoir_policy::{Entry, MemoryType, Outcome, Policy, Speaker};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::base::clock::Timestamp;

/// A memory of the payload.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = MemoryEntry)]
pub struct MemoryEntryResponse {
    pub id: String,
    /// The text after redaction, clipping and the token budget.
    pub content: String,
    /// Relevance from 0 to 1.
    pub score: f64,
    #[schema(format = DateTime)]
    pub timestamp: String,
    /// The thread that it belongs to.
    pub session_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    #[serde(rename = "type")]
    pub memory_type: MemoryType,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Speaker>,
    pub provenance: ProvenanceResponse,
}

/// Where a memory comes from, and how the policy changed it.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProvenanceResponse {
    /// `user:` and the id of the end user.
    #[schema(example = "user:123")]
    pub collection: String,
    pub search_type: SearchType,
    /// Characters before redaction and clipping.
    pub original_length: usize,
    pub was_redacted: bool,
}

/// How the payload was made.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PayloadMetadataResponse {
    /// Time taken, in milliseconds.
    pub query_time: u64,
    /// Number of memories that the search found, before any step.
    pub total_results: usize,
    /// Number of memories in the payload.
    pub included_results: usize,
    /// Estimated tokens: the characters of each memory divided by four and rounded up, added
    /// together.
    pub total_tokens: usize,
    /// The steps that ran, in order.
    #[schema(example = json!(["score_threshold", "deduplication", "interleaving", "clipping", "token_budget"]))]
    pub applied_filters: Vec<&'static str>,
    pub config: PayloadConfigResponse,
    pub redaction: PayloadRedactionResponse,
}

/// The settings in force.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PayloadConfigResponse {
    pub top_k: usize,
    pub clip_sentences: usize,
    pub max_tokens: usize,
    pub search_type: SearchType,
    pub min_score: f64,
}

/// Whether matches of patterns were replaced, and by what.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct PayloadRedactionResponse {
    pub enabled: bool,
    #[schema(example = "[REDACTED]")]
    pub replacement: String,
}

/// A step of the policy.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = PolicyStepResponse)]
pub struct StepResponse {
    #[schema(example = "deduplication")]
    pub name: &'static str,
    /// Number of memories before the step.
    pub before: usize,
    /// Number of memories after the step.
    pub after: usize,
    /// The memories that it dropped or changed; the others passed unchanged.
    pub effects: Vec<EffectResponse>,
}

/// What a step did to one memory.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = PolicyEffectResponse)]
pub struct EffectResponse {
    pub id: String,
    /// `dropped` or `changed`.
    pub action: &'static str,
    /// Dropped: `below_min_score`, `duplicate`, `beyond_top_k`, `redaction_too_slow` or
    /// `beyond_budget`. Changed: `moved`, `redacted`, `clipped` or `cut_to_budget`.
    #[schema(example = "duplicate")]
    pub reason: String,
    /// The numbers behind the decision; their names depend on the reason.
    #[schema(value_type = std::collections::HashMap<String, Value>, example = json!({"duplicateOf": "1", "key": "b94d27b9934d3e08"}))]
    pub numbers: Map<String, Value>,
}

/// The steps of a run.
pub fn steps(outcome: &Outcome) -> Vec<StepResponse> {
    let steps = outcome.steps.iter().map(|step| StepResponse {
        name: step.name,
        before: step.before,
        after: step.after,
        effects: step.effects.iter().map(EffectResponse::from).collect(),
    });
    steps.collect()
}

impl From<&Effect> for EffectResponse {
    fn from(effect: &Effect) -> Self {
        let mut numbers = match serde_json::to_value(&effect.reason) {
            Ok(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        let reason = match numbers.shift_remove("reason") {
            Some(Value::String(reason)) => reason,
            _ => String::new(),
        };
        Self {
            id: effect.id.clone(),
            action: if effect.is_drop() {
                "dropped"
            } else {
                "changed"
            },
            reason,
            numbers,
        }
    }
}

/// The metadata of a payload without memories.
pub fn empty_metadata(policy: &Policy, query_time: u64) -> PayloadMetadataResponse {
    let nothing = Outcome {
        entries: Vec::new(),
        total_results: 0,
        total_tokens: 0,
        steps: Vec::new(),
    };
    payload(&nothing, policy, "", query_time).1
}

/// The memories and the metadata of a payload.
pub fn payload(
    outcome: &Outcome,
    policy: &Policy,
    collection: &str,
    query_time: u64,
) -> (Vec<MemoryEntryResponse>, PayloadMetadataResponse) {
    let settings = policy.settings();
    let search_type = settings.retrieval.search_type;
    let memories: Vec<MemoryEntryResponse> = outcome
        .entries
        .iter()
        .map(|entry| memory(entry, collection, search_type))
        .collect();

    let metadata = PayloadMetadataResponse {
        query_time,
        total_results: outcome.total_results,
        included_results: memories.len(),
        total_tokens: outcome.total_tokens,
        applied_filters: outcome.applied_filters(),
        config: (&settings.retrieval).into(),
        redaction: PayloadRedactionResponse {
            enabled: settings.retrieval.enable_redaction,
            replacement: settings.redaction.replacement.clone(),
        },
    };
    (memories, metadata)
}

fn memory(entry: &Entry, collection: &str, search_type: SearchType) -> MemoryEntryResponse {
    let candidate = &entry.candidate;
    MemoryEntryResponse {
        id: candidate.id.clone(),
        content: candidate.content.clone(),
        score: candidate.score,
        timestamp: Timestamp::from_micros(candidate.timestamp_micros).to_string(),
        session_id: candidate.session_id.clone(),
        message_id: candidate.message_id.clone(),
        memory_type: candidate.memory_type,
        role: candidate.speaker,
        provenance: ProvenanceResponse {
            collection: collection.to_owned(),
            search_type,
            original_length: entry.original_length,
            was_redacted: entry.was_redacted,
        },
    }
}

impl From<&Retrieval> for PayloadConfigResponse {
    fn from(retrieval: &Retrieval) -> Self {
        Self {
            top_k: retrieval.top_k,
            clip_sentences: retrieval.clip_sentences,
            max_tokens: retrieval.max_tokens,
            search_type: retrieval.search_type,
            min_score: retrieval.min_score,
        }
    }
}
