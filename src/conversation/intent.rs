//! The intent of a question: what it is about, in terms of the vocabulary. Without a model the
//! intent is neutral; it is never guessed from keywords.

use std::sync::Arc;
use std::time::Instant;

use memoir_text::stop_words;
use memoir_text::text::char_count;
use memoir_text::words;
use serde::Serialize;
use utoipa::ToSchema;

use super::{Conversation, ConversationError};
use crate::base::clock::{Timestamp, milliseconds_since};
use crate::base::ids::ThreadId;
use crate::llm::tasks::analyze::{ANY_TIME, Analyze};
use crate::llm::tasks::enrich::NamedEntity;
use crate::llm::{LlmError, Session};
use crate::model::memory::Entity;

/// Maximum characters of a question.
pub const MAX_QUERY_CHARS: usize = 4000;
const DAY_SECONDS: i64 = 24 * 60 * 60;

/// What a question is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = IntentResponse)]
pub struct Intent {
    /// Topics of the vocabulary that the question is about.
    pub topics: Vec<String>,
    /// The category of the vocabulary that the question belongs to, if it is clear.
    pub category: Option<String>,
    /// `today`, `yesterday`, `last_week`, `last_month` or `all`.
    pub time_scope: String,
    /// Names, numbers and amounts in the question.
    pub entities: Vec<Entity>,
    /// Whether the question is about the current thread only.
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

    /// The time since which memories are considered, if the question says when something was said:
    /// "what did I tell you yesterday" does, "what shall I cook today" does not.
    pub fn said_since(&self, query: &str, now: Timestamp) -> Option<Timestamp> {
        self.since(now).filter(|_| asks_what_was_said(query))
    }

    /// Whether a question names nothing but a time at which something was said.
    pub fn asks_for_a_time(&self, query: &str, now: Timestamp) -> bool {
        let says_little = |word: &str| {
            let mut common = ["english_common", "english"]
                .into_iter()
                .flat_map(stop_words::group);
            SAID.contains(&word)
                || SAY.contains(&word)
                || OF_TIME.contains(&word)
                || common.any(|one| one == word)
        };
        self.said_since(query, now).is_some() && words(query).iter().all(|word| says_little(word))
    }

    /// The thread to which the search is limited, if the question is about the current one.
    pub fn only_thread<'t>(&self, current: Option<&'t ThreadId>) -> Option<&'t str> {
        let only = current.filter(|_| self.search_current_thread_only);
        only.map(ThreadId::as_str)
    }
}

/// Words for what was said or written, and verbs that mean it behind `did`.
const SAID: [&str; 17] = [
    "told",
    "said",
    "discussed",
    "mentioned",
    "talked",
    "asked",
    "wrote",
    "written",
    "spoke",
    "spoken",
    "chatted",
    "promised",
    "decided",
    "agreed",
    "conversation",
    "conversations",
    "messages",
];
const SAY: [&str; 12] = [
    "tell", "say", "discuss", "mention", "talk", "ask", "write", "speak", "chat", "promise",
    "decide", "agree",
];

/// Words that only say when.
const OF_TIME: [&str; 8] = [
    "yesterday",
    "today",
    "last",
    "past",
    "week",
    "month",
    "days",
    "earlier",
];

fn words(query: &str) -> Vec<String> {
    let mut all = Vec::new();
    words::each(query, |word| all.push(word.to_owned()));
    all
}

fn asks_what_was_said(query: &str) -> bool {
    let words = words(query);
    let did = words.iter().any(|word| word == "did");
    words.iter().any(|word| {
        let word = word.as_str();
        SAID.contains(&word) || (did && SAY.contains(&word))
    })
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

impl Analyzed {
    /// For a question that nobody analyses.
    pub(super) fn skipped() -> Self {
        Self {
            intent: Intent::neutral(),
            vocabulary_version: String::new(),
            fallback: None,
            total_ms: 0.0,
            provider_ms: 0.0,
            parse_ms: 0.0,
        }
    }
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
        let vocabulary = self.vocabulary(session.call()).await?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_limits_the_search_only_if_something_was_said_then() {
        let now = Timestamp::from_micros(10 * 86_400_000_000);
        let asked = |time_scope: &str, query: &str| {
            let intent = Intent {
                time_scope: time_scope.to_owned(),
                ..Intent::neutral()
            };
            intent.said_since(query, now).is_some()
        };

        assert!(asked("yesterday", "What did I tell you yesterday?"));
        assert!(asked("last_week", "The recipe we discussed last week"));
        assert!(!asked("today", "What shall I cook today?"));
        assert!(!asked("today", "Tell me what to cook today"));
        assert!(!asked("all", "What did I tell you?"));

        let yesterday = Intent {
            time_scope: "yesterday".to_owned(),
            ..Intent::neutral()
        };
        assert!(yesterday.asks_for_a_time("What did I tell you yesterday?", now));
        assert!(!yesterday.asks_for_a_time("What did I tell you about the boat yesterday?", now));
    }
}
