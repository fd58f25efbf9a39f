//! A memory: a message of a thread, or a fact, a preference or a summary about a user.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};
use utoipa::ToSchema;

use crate::base::clock::Timestamp;
use crate::base::ids::{MemoryId, ThreadId};
use memoir_text::hash::sha256_hex;

/// The category of preferences. It is reserved: no model is offered it.
pub const USER_PREFERENCE: &str = "user_preference";

/// The confidence of a classification that found no fitting term.
pub const LOW_CONFIDENCE: &str = "low";

/// Seconds until a memory is no longer short-term, and until it is long-term.
const SHORT_SECONDS: i64 = 24 * 60 * 60;
const MID_SECONDS: i64 = 30 * SHORT_SECONDS;

/// Importance above this makes a memory long-term.
pub const HIGH_IMPORTANCE: f64 = 0.8;
/// More uses than this make a memory long-term.
pub const MANY_USES: i64 = 10;
/// The least importance of a memory that a user marked.
const MARKED_IMPORTANCE: f64 = 0.9;
/// So many uses add so much importance.
const USES_PER_STEP: i64 = 5;
const STEP: f64 = 0.05;
/// Seconds in which a message may be the query itself.
const REPEATED_SECONDS: i64 = 60;
/// The importance of a memory that has none, where a number is needed.
pub const DEFAULT_IMPORTANCE: f64 = 0.5;

/// What a memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, EnumString)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum MemoryKind {
    Message,
    Fact,
    Preference,
    Summary,
}

impl MemoryKind {
    /// Whether it states something about a user, rather than being said or summed up.
    pub fn is_statement(self) -> bool {
        matches!(self, Self::Fact | Self::Preference)
    }
}

/// The age class of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Tier {
    #[strum(serialize = "short_term")]
    Short,
    #[strum(serialize = "mid_term")]
    Mid,
    #[strum(serialize = "long_term")]
    Long,
}

/// Whether a model has classified a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, EnumString)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum EnrichmentState {
    Pending,
    Done,
    /// The model's answers could not be used.
    Failed,
    /// Not wanted.
    #[strum(serialize = "none")]
    Off,
}

/// Something that a text names, such as a person or an amount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = EntityResponse)]
pub struct Entity {
    /// An entity type from the vocabulary.
    #[serde(rename = "type")]
    pub kind: String,
    /// The entity, as in the text.
    pub value: String,
}

/// A part of a classification that a user can correct.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum CorrectedField {
    Topics,
    Category,
    MessageType,
    Importance,
}

/// The lists that describe a memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Labels {
    pub topics: Vec<String>,
    pub entities: Vec<Entity>,
    pub tags: Vec<String>,
    /// Who speaks, where the role does not tell it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speaker: Option<String>,
    /// Whether parts of its text were replaced before it was stored.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
    /// What a user has corrected: no model changes it again.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub corrected: BTreeSet<CorrectedField>,
}

/// What a memory rests on: the messages, and for a fact the characters of one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    pub message_ids: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_char: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_char: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote: Option<String>,
    /// The memory that this one replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<String>,
}

/// The file that a memory speaks about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileHint {
    pub path: Option<String>,
    pub sha256: Option<String>,
    pub mtime: Option<Timestamp>,
}

/// What a model said about a memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Classification {
    pub topics: Vec<String>,
    pub category: Option<String>,
    pub message_type: Option<String>,
    pub entities: Vec<Entity>,
    pub importance: Option<f64>,
    pub confidence: Option<String>,
    pub suggested_topic: Option<String>,
    pub suggested_category: Option<String>,
    pub vocabulary_version: Option<String>,
    pub enrichment_model: Option<String>,
}

/// What a search needs of a memory to decide whether it is part of the result, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryOutline {
    pub seq: i64,
    pub id: MemoryId,
    pub user_id: String,
    pub thread_id: Option<ThreadId>,
    pub kind: MemoryKind,
    pub turn_index: i64,
    pub tags: Vec<String>,
    pub speaker: Option<String>,
    /// Whether another memory has replaced it, and since when.
    pub superseded: bool,
    pub superseded_at: Option<Timestamp>,
    pub created_at: Timestamp,
    /// As [`Memory::is_lasting`].
    pub lasting: bool,
}

/// A memory as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Memory {
    /// Its number in the database; 0 before it is stored.
    pub seq: i64,
    pub id: MemoryId,
    pub user_id: String,
    pub thread_id: Option<ThreadId>,
    pub kind: MemoryKind,
    pub role: String,
    pub title: Option<String>,
    pub content: String,
    pub content_hash: String,
    pub source: String,
    pub file: FileHint,
    pub turn_index: i64,
    pub labels: Labels,
    pub category: Option<String>,
    pub message_type: Option<String>,
    /// As classified or given.
    pub own_importance: Option<f64>,
    pub important: bool,
    pub pinned: bool,
    pub confidence: Option<String>,
    pub suggested_topic: Option<String>,
    pub suggested_category: Option<String>,
    pub access_count: i64,
    pub vocabulary_version: Option<String>,
    pub enrichment_model: Option<String>,
    pub enrichment_state: EnrichmentState,
    pub enrichment_job: Option<String>,
    pub superseded_by: Option<String>,
    pub superseded_at: Option<Timestamp>,
    pub evidence: Option<Evidence>,
    pub created_at: Timestamp,
    pub stored_at: Timestamp,
    pub updated_at: Timestamp,
    pub last_access_at: Option<Timestamp>,
}

impl Memory {
    /// A new memory that nobody has classified.
    pub fn new(kind: MemoryKind, user_id: String, content: String, now: Timestamp) -> Self {
        Self {
            seq: 0,
            id: MemoryId::new(),
            user_id,
            thread_id: None,
            kind,
            role: "user".to_owned(),
            title: None,
            content_hash: sha256_hex(content.as_bytes()),
            content,
            source: "client".to_owned(),
            file: FileHint::default(),
            turn_index: 0,
            labels: Labels::default(),
            category: None,
            message_type: None,
            own_importance: None,
            important: false,
            pinned: false,
            confidence: None,
            suggested_topic: None,
            suggested_category: None,
            access_count: 0,
            vocabulary_version: None,
            enrichment_model: None,
            enrichment_state: EnrichmentState::Off,
            enrichment_job: None,
            superseded_by: None,
            superseded_at: None,
            evidence: None,
            created_at: now,
            stored_at: now,
            updated_at: now,
            last_access_at: None,
        }
    }

    /// The importance that counts: its own, raised gently by its uses, and at least 0.9 if a user
    /// marked it.
    pub fn importance(&self) -> Option<f64> {
        let steps = self.access_count / USES_PER_STEP;
        let used = (steps > 0).then(|| {
            let own = self.own_importance.unwrap_or(DEFAULT_IMPORTANCE);
            let raised = own + STEP * f64::from(i32::try_from(steps).unwrap_or(i32::MAX));
            own.max(raised.min(HIGH_IMPORTANCE))
        });

        let value = used.or(self.own_importance);
        if self.important {
            return Some(value.unwrap_or(MARKED_IMPORTANCE).max(MARKED_IMPORTANCE));
        }

        value
    }

    pub fn is_preference(&self) -> bool {
        self.category.as_deref() == Some(USER_PREFERENCE)
    }

    /// Whether it is a message of the last minute with the words of a query: an application often
    /// stores the user's question before it asks.
    pub fn repeats(&self, query: &str, now: Timestamp) -> bool {
        let age = now.as_micros() - self.created_at.as_micros();
        self.kind == MemoryKind::Message
            && (0..=REPEATED_SECONDS * 1_000_000).contains(&age)
            && self.content.trim() == query.trim()
    }

    /// Whether it says something of the user that matters whatever is talked about: a fact, a
    /// preference, or what somebody pinned. How often it was delivered does not count.
    pub fn is_lasting(&self) -> bool {
        self.kind.is_statement() || self.pinned || self.is_preference()
    }

    /// Whether it becomes long-term before its time.
    pub fn is_promoted(&self) -> bool {
        self.important
            || self.pinned
            || self.is_preference()
            || self.access_count > MANY_USES
            || self
                .importance()
                .is_some_and(|value| value > HIGH_IMPORTANCE)
    }

    /// Its tier at a time.
    pub fn tier(&self, now: Timestamp) -> Tier {
        let seconds = (now.as_micros() - self.created_at.as_micros()) / 1_000_000;
        if self.is_preference() {
            Tier::Long
        } else if seconds < SHORT_SECONDS {
            Tier::Short
        } else if self.is_promoted() || seconds >= MID_SECONDS {
            Tier::Long
        } else {
            Tier::Mid
        }
    }

    /// Whether a user has corrected this part of its classification.
    pub fn is_corrected(&self, field: CorrectedField) -> bool {
        self.labels.corrected.contains(&field)
    }

    /// Puts in what a model said about it, except for what a user has corrected.
    pub fn classify(&mut self, found: Classification) {
        self.labels.entities = found.entities;
        if !self.is_corrected(CorrectedField::Topics) {
            self.labels.topics = found.topics;
            self.suggested_topic = found.suggested_topic;
        }

        if !self.is_corrected(CorrectedField::Category) {
            self.suggested_category = found.suggested_category;
            if !self.is_preference() {
                self.category = found.category;
            }
        }

        if !self.is_corrected(CorrectedField::MessageType) {
            self.message_type = found.message_type;
        }

        // What a client has said about a fact counts more.
        let open = self.kind == MemoryKind::Message || self.own_importance.is_none();
        if open && !self.is_corrected(CorrectedField::Importance) {
            self.own_importance = found.importance;
        }

        self.confidence = found.confidence;
        self.vocabulary_version = found.vocabulary_version;
        self.enrichment_model = found.enrichment_model;
        self.enrichment_state = EnrichmentState::Done;
    }

    /// The text that words are searched in: who speaks counts.
    pub fn searched_text(&self) -> String {
        searched_text(self.labels.speaker.as_deref(), &self.content)
    }

    /// The name of the speaker in a composed text.
    pub fn label(&self) -> &str {
        if self.is_preference() {
            "preference"
        } else {
            &self.role
        }
    }
}

/// The text of a memory that words are searched in, with its speaker.
pub fn searched_text(speaker: Option<&str>, content: &str) -> String {
    match speaker {
        Some(speaker) => format!("{speaker}: {content}"),
        None => content.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn memory(created_at: i64) -> Memory {
        let at = Timestamp::from_micros(created_at);
        Memory::new(MemoryKind::Message, "u".into(), String::new(), at)
    }

    #[test]
    fn age_and_promotion_decide_the_tier() {
        let hour = 3_600_000_000;
        let now = Timestamp::from_micros(1000 * hour);
        let at = |hours: i64| memory((1000 - hours) * hour);
        assert_eq!(at(23).tier(now), Tier::Short);
        assert_eq!(at(24).tier(now), Tier::Mid);
        assert_eq!(at(719).tier(now), Tier::Mid);
        assert_eq!(at(720).tier(now), Tier::Long);

        let mut marked = at(23);
        marked.important = true;
        assert_eq!(marked.tier(now), Tier::Short);
        marked.created_at = at(25).created_at;
        assert_eq!(marked.tier(now), Tier::Long);

        let mut preference = at(0);
        preference.category = Some(USER_PREFERENCE.into());
        assert_eq!(preference.tier(now), Tier::Long);
    }

    #[test]
    fn uses_raise_the_importance_up_to_a_limit() {
        let mut one = memory(0);
        let mut at = |uses, own| {
            (one.access_count, one.own_importance) = (uses, own);
            one.importance()
        };

        assert_eq!(at(4, None), None);
        assert_eq!(at(5, None), Some(0.55));
        assert_eq!(at(500, Some(0.3)), Some(0.8));
        assert_eq!(at(5, Some(0.95)), Some(0.95));
        one.important = true;
        assert_eq!(one.importance(), Some(0.95));
    }
}
