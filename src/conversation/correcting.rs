//! Corrections: a user replaces what a model said about a memory, in terms of the vocabulary. What
//! is corrected stays when the memory is classified again.

use super::memories::MemoryChange;
use crate::model::memory::{CorrectedField, Memory, MemoryKind, USER_PREFERENCE};
use crate::model::vocabulary::Vocabulary;
use memoir_text::field_error::FieldError;

/// Topics of one memory.
pub const MAX_TOPICS: usize = 3;

impl MemoryChange {
    /// What the vocabulary or the kind of the memory does not allow.
    pub(super) fn faults(&self, memory: &Memory, vocabulary: &Vocabulary) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let Some(Some(topics)) = &self.topics {
            check_topics(topics, vocabulary, &mut errors);
        }

        if let Some(Some(category)) = &self.category {
            check_category(category, vocabulary, &mut errors);
            if memory.kind == MemoryKind::Preference && category != USER_PREFERENCE {
                let rule = format!("must be {USER_PREFERENCE}, because the memory is a preference");
                errors.push(FieldError::new("category", rule));
            }
        }

        if let Some(Some(message_type)) = &self.message_type
            && !vocabulary.terms.message_types.contains(message_type)
        {
            errors.push(unknown("message_type", "a message type", message_type));
        }

        errors
    }

    /// Puts the terms in, and notes what is corrected now.
    pub(super) fn correct(&self, memory: &mut Memory, vocabulary: &Vocabulary) {
        let labels = &mut memory.labels;
        let mut note = |field: CorrectedField, is_corrected: bool| {
            if is_corrected {
                labels.corrected.insert(field);
            } else {
                labels.corrected.remove(&field);
            }
        };

        if let Some(topics) = &self.topics {
            note(CorrectedField::Topics, topics.is_some());
        }

        if let Some(category) = &self.category {
            note(CorrectedField::Category, category.is_some());
        }

        if let Some(message_type) = &self.message_type {
            note(CorrectedField::MessageType, message_type.is_some());
        }

        if let Some(importance) = self.importance {
            note(CorrectedField::Importance, importance.is_some());
            memory.own_importance = importance;
        }

        // The user has decided, so the memory no longer suggests a term that is missing.
        if let Some(Some(topics)) = &self.topics {
            memory.labels.topics = distinct(topics);
            memory.suggested_topic = None;
            // What a model has classified keeps the version of its other terms, by which it is found
            // when all messages are classified again.
            if memory.enrichment_model.is_none() {
                memory.vocabulary_version = Some(vocabulary.version.clone());
            }
        }

        match &self.category {
            Some(Some(category)) => {
                memory.category = Some(category.clone());
                memory.suggested_category = None;
            }
            // A classification leaves the category of a preference alone, and this was none.
            Some(None) if memory.kind != MemoryKind::Preference && memory.is_preference() => {
                memory.category = None;
            }
            _ => {}
        }

        if let Some(Some(message_type)) = &self.message_type {
            memory.message_type = Some(message_type.clone());
        }
    }
}

/// Checks topics against the vocabulary.
pub(super) fn check_topics(
    topics: &[String],
    vocabulary: &Vocabulary,
    errors: &mut Vec<FieldError>,
) {
    if topics.len() > MAX_TOPICS {
        let rule = format!("must have at most {MAX_TOPICS} entries");
        errors.push(FieldError::new("topics", rule));
    }

    for topic in topics {
        if !vocabulary.terms.topics.contains(topic) {
            errors.push(unknown("topics", "a topic", topic));
        }
    }
}

/// Checks a category against the vocabulary.
pub(super) fn check_category(
    category: &str,
    vocabulary: &Vocabulary,
    errors: &mut Vec<FieldError>,
) {
    let known = &vocabulary.terms.categories;
    if category != USER_PREFERENCE && !known.iter().any(|one| one == category) {
        errors.push(unknown("category", "a category", category));
    }
}

/// Each topic once, in the given order.
pub(super) fn distinct(topics: &[String]) -> Vec<String> {
    let mut kept: Vec<String> = Vec::with_capacity(topics.len());
    for topic in topics {
        if !kept.contains(topic) {
            kept.push(topic.clone());
        }
    }

    kept
}

fn unknown(field: &str, what: &str, term: &str) -> FieldError {
    let rule = format!("{term:?} is not {what} of the vocabulary (GET /v1/vocabulary)");
    FieldError::new(field, rule)
}
