//! Candidates and entries: the memories that go into the chain, and those that come out of it.

use memoir_text::text::char_count;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;
use utoipa::ToSchema;

/// The type of a memory; each type has its own group in the prompt text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = PayloadMemoryType)]
pub enum MemoryType {
    Message,
    Fact,
    Summary,
}

/// Who said a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[schema(as = PayloadRole)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Speaker {
    User,
    Assistant,
}

/// A memory that a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    pub id: String,
    pub content: String,
    /// Relevance, from 0 to 1.
    pub score: f64,
    /// Since 1970, in UTC.
    pub timestamp_micros: i64,
    pub session_id: String,
    pub message_id: Option<String>,
    pub memory_type: MemoryType,
    pub speaker: Option<Speaker>,
}

/// A candidate on its way through the chain: the steps change only its content.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub candidate: Candidate,
    /// Characters before redaction and clipping.
    pub original_length: usize,
    pub was_redacted: bool,
}

impl Entry {
    pub fn new(candidate: Candidate) -> Self {
        Self {
            original_length: char_count(&candidate.content),
            was_redacted: false,
            candidate,
        }
    }

    pub fn id(&self) -> &str {
        &self.candidate.id
    }

    pub fn content(&self) -> &str {
        &self.candidate.content
    }
}

/// Best first; of equal scores the newest first, then by id, so that no order depends on how the
/// candidates came in.
pub fn by_score(a: &Entry, b: &Entry) -> std::cmp::Ordering {
    let (a, b) = (&a.candidate, &b.candidate);
    b.score
        .total_cmp(&a.score)
        .then_with(|| b.timestamp_micros.cmp(&a.timestamp_micros))
        .then_with(|| a.id.cmp(&b.id))
}

/// Newest first; of the same time the best first, then by id.
pub fn by_recency(a: &Entry, b: &Entry) -> std::cmp::Ordering {
    let (a, b) = (&a.candidate, &b.candidate);
    b.timestamp_micros
        .cmp(&a.timestamp_micros)
        .then_with(|| b.score.total_cmp(&a.score))
        .then_with(|| a.id.cmp(&b.id))
}
