//! The intent of a question: what it is about, in terms of the vocabulary. Without a model the
//! intent is neutral; it is never guessed from keywords.

use std::sync::Arc;
use std::time::Instant;

use memoir_text::text::char_count;

use super::{Conversation, ConversationError};
use crate::base::clock::{Timestamp, milliseconds_since};
use crate::llm::tasks::analyze::{ANY_TIME, Analyze};
use crate::llm::tasks::enrich::NamedEntity;
use crate::llm::{LlmError, Session};
use crate::model::memory::Entity;

/// Maximum characters of a question.
pub const MAX_QUERY_CHARS: usize = 4000;
const DAY_SECONDS: i64 = 24 * 60 * 60;

/// What a question is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    pub topics: Vec<String>,
    pub category: Option<String>,
    pub time_scope: String,
    pub entities: Vec<Entity>,
    pub search_current_thread_only: bool,
}

impl Intent {
    /// The intent if nothing is known about the question.
    pub fn neutral() -> Self {
        Self {
            topics: Vec::new(),
            category: None,
            time_scope: ANY_TIME.to_owned(),
            entities: Vec::new(),
            search_current_thread_only: false,
        }
    }

    /// The time since which memories are considered.
    pub fn since(&self, now: Timestamp) -> Option<Timestamp> {
        let days = match self.time_scope.as_str() {
            "today" => 1,
            "yesterday" => 2,
            "last_week" => 7,
            "last_month" => 30,
            _ => return None,
        };
        Some(now.minus_seconds(days * DAY_SECONDS))
    }
}

/// An intent, and how it was found.
#[derive(Debug, Clone)]
pub struct Analyzed {
    pub intent: Intent,
    pub vocabulary_version: String,
    /// Why the intent is neutral, if no model gave one.
    pub fallback: Option<String>,
    /// Milliseconds in total and those of the model.
    pub total_ms: f64,
    pub provider_ms: f64,
    /// Milliseconds to read the answer.
    pub parse_ms: f64,
}

impl Conversation {
    /// Asks the model what a question is about.
    ///
    /// # Errors
    /// [`ConversationError::Invalid`], or the store's; a model that fails is no error.
    pub async fn analyze(
        &self,
        session: &Session,
        query: &str,
        thread_context: Option<&str>,
    ) -> Result<Analyzed, ConversationError> {
        check_query(query)?;
        let begun = Instant::now();
        let vocabulary = self.vocabulary(session.space()).await?;
        let task = Analyze {
            query: query.into(),
            thread_context: thread_context.map(Into::into),
            terms: Arc::new(vocabulary.terms),
        };

        let before: f64 = session.calls().iter().map(|call| call.latency_ms).sum();
        let answer = self.llm.ask(session, task).await;
        let after: f64 = session.calls().iter().map(|call| call.latency_ms).sum();
        let read = Instant::now();
        let (intent, fallback) = match answer {
            Ok(answered) => {
                let found = answered.value;
                let entities = found.entities.unwrap_or_default();
                let intent = Intent {
                    topics: found.topics,
                    category: found.category,
                    time_scope: found.time_scope,
                    entities: entities.into_iter().map(NamedEntity::into_entity).collect(),
                    search_current_thread_only: found.search_current_thread_only,
                };
                (intent, None)
            }
            Err(LlmError::Store(error)) => return Err(error.into()),
            Err(error) => (Intent::neutral(), Some(error.to_string())),
        };

        let parse_ms = milliseconds_since(read);
        Ok(Analyzed {
            intent,
            vocabulary_version: vocabulary.version,
            fallback,
            total_ms: milliseconds_since(begun),
            provider_ms: after - before,
            parse_ms,
        })
    }
}

pub(super) fn check_query(query: &str) -> Result<(), ConversationError> {
    if query.trim().is_empty() || char_count(query) > MAX_QUERY_CHARS {
        let rule = format!("must have 1 to {MAX_QUERY_CHARS} characters");
        return Err(ConversationError::invalid("query", rule));
    }

    Ok(())
}
