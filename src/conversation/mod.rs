//! Conversations: what is said is stored at once, classified in the background with a shared
//! vocabulary, and returned as a context that fits a budget and shows its reasons.
//!
//! `threads` and `messages` store what is said, `memories` what is known about a user, and
//! `correcting` lets a user correct how either was classified. `vocabulary` holds the closed lists
//! that `enrichment` classifies with and `intent` asks with, and `proposing` finds terms that they
//! lack; after a change of preset, `reclassifying` has stored messages classified again. `context`
//! finds memories by search and by what lasts (`context_auto`), writes them as text that fills its
//! budget (`text_best_first`), and says which of them contradict each other (`conflicts`). By request
//! it runs the `stages` or a search alone (`context_search`), scores what they find (`scoring`) and
//! writes it by section (`text_by_section`).
//! `window`, `episodic` and `rollup` are the layers of a thread, `lexicon` holds aliases.
//! `extraction` extracts facts from messages, and `fact_check` keeps those that their quotes
//! support. `redacting` redacts what is stored.

mod backfill;
pub mod conflicts;
pub mod context;
mod context_auto;
mod context_search;
mod correcting;
mod enrichment;
pub mod episodic;
mod extraction;
pub mod fact_check;
pub mod intent;
pub mod lexicon;
pub mod memories;
pub mod messages;
mod messages_per_call;
mod proposing;
mod reader_jobs;
mod reclassifying;
mod redacting;
pub mod rollup;
pub mod scoring;
pub mod stages;
mod text_best_first;
mod text_by_section;
mod threads;
pub mod turns;
pub mod vocabulary;
pub mod window;
mod writing;

use std::sync::Arc;

use memoir_text::field_error::FieldError;
use memoir_text::text::{char_count, has_control};

use crate::base::ids::ThreadId;
use crate::base::{problems, user_id};
use crate::config;
use crate::jobs::{Failure, JobError, Jobs, JobsError, Wait, Work};
use crate::llm::{Llm, LlmError};
use crate::memory_retrieval::MemoryPolicies;
use crate::model::call::CallContext;
use crate::model::thread::Thread;
use crate::retrieval::Retrieval;
use crate::search::{Search, SearchError};
use crate::store::{Store, StoreError, as_store_error};

pub use enrichment::KIND as ENRICH;
pub use reader_jobs::READER_JOBS;
pub use threads::{NewThread, ThreadChange};

/// Entry point of conversations; cheap to clone.
#[derive(Clone)]
pub struct Conversation {
    store: Store,
    llm: Llm,
    search: Search,
    retrieval: Retrieval,
    jobs: Jobs,
    policies: MemoryPolicies,
    /// Vectors of one user.
    max_vectors: usize,
}

/// A request about conversations failed.
#[derive(Debug, thiserror::Error)]
pub enum ConversationError {
    /// 422: fields violate a rule.
    #[error("the request is invalid")]
    Invalid(Vec<FieldError>),
    /// 404: no such thread or memory, or it belongs to another user.
    #[error("there is no {what} {id} in this space")]
    NotFound { what: &'static str, id: String },
    /// 409: the id is in use.
    #[error("there is already a thread {0} in this space")]
    ThreadExists(String),
    /// 409: the vocabulary already has the term or the version.
    #[error("{0}")]
    VocabularyConflict(String),
    /// 409: another memory has replaced the one that this one should replace.
    #[error("the memory {id} was already replaced, by the memory {by}")]
    Superseded { id: String, by: String },
    /// 410: text that a model was reading was deleted meanwhile.
    #[error("a message was deleted while it was being summarised")]
    Erased,
    /// 412: the resource has changed since it was read.
    #[error("the {0} has changed since you read it")]
    Changed(&'static str),
    #[error(transparent)]
    Jobs(#[from] JobsError),
    #[error(transparent)]
    Llm(#[from] LlmError),
    #[error(transparent)]
    Search(#[from] SearchError),
    /// 503 or 500, as the store says.
    #[error(transparent)]
    Store(#[from] StoreError),
}

as_store_error!(ConversationError, Jobs);

impl ConversationError {
    /// The error in words for a caller, without what the database says.
    pub fn reason(&self) -> String {
        match self {
            Self::Store(error)
            | Self::Jobs(JobsError::Store(error))
            | Self::Search(SearchError::Store(error)) => error.reason().to_owned(),
            other => other.to_string(),
        }
    }

    pub fn invalid(field: &str, rule: impl Into<String>) -> Self {
        Self::Invalid(vec![FieldError::new(field, rule)])
    }

    fn no_thread(id: &str) -> Self {
        Self::NotFound {
            what: "thread",
            id: id.chars().take(100).collect(),
        }
    }

    fn no_memory(id: &str) -> Self {
        Self::NotFound {
            what: "memory",
            id: id.chars().take(100).collect(),
        }
    }
}

impl Conversation {
    #[must_use]
    pub fn new(
        store: Store,
        llm: Llm,
        search: Search,
        jobs: Jobs,
        policies: MemoryPolicies,
        settings: config::Memory,
    ) -> Self {
        Self {
            retrieval: Retrieval::new(store.clone(), search.clone()),
            store,
            llm,
            search,
            jobs,
            policies,
            max_vectors: usize::try_from(settings.max_vectors).unwrap_or(usize::MAX),
        }
    }

    /// The jobs of this area.
    pub fn work(&self) -> Vec<Arc<dyn Work>> {
        vec![
            Arc::new(enrichment::EnrichWork {
                conversation: self.clone(),
                per_call: messages_per_call::MessagesPerCall::default(),
            }),
            Arc::new(backfill::BackfillWork {
                conversation: self.clone(),
            }),
            Arc::new(reclassifying::ReclassifyWork {
                conversation: self.clone(),
            }),
            Arc::new(extraction::ExtractWork {
                conversation: self.clone(),
            }),
        ]
    }

    /// A thread; if a user is named, only one of theirs.
    ///
    /// # Errors
    /// [`ConversationError::NotFound`], or the store's.
    pub async fn thread(
        &self,
        call: &CallContext,
        id: &str,
        user_id: Option<&str>,
    ) -> Result<Thread, ConversationError> {
        let parsed: ThreadId = id.parse().map_err(|_| ConversationError::no_thread(id))?;
        let found = self.store.find_thread(&call.space, &parsed).await?;
        found
            .filter(|thread| user_id.is_none_or(|user_id| thread.user_id == user_id))
            .ok_or_else(|| ConversationError::no_thread(id))
    }
}

/// How a job ends because of an error.
fn job_error(error: ConversationError) -> JobError {
    match error {
        ConversationError::Llm(error) | ConversationError::Search(SearchError::Llm(error)) => {
            error.into()
        }
        ConversationError::Store(error)
        | ConversationError::Jobs(JobsError::Store(error))
        | ConversationError::Search(SearchError::Store(error)) => error.into(),
        full @ ConversationError::Jobs(JobsError::QueueFull { .. }) => {
            let failure = Failure::new(problems::QUEUE_FULL, full.reason()).fix(
                "No action is needed: the job resumes once fewer jobs wait. jobs.max_queued sets the limit.",
            );
            JobError::Wait(Box::new(failure), Wait::Queue)
        }
        other => JobError::fail(Failure::new(problems::INVALID_REQUEST, other.to_string())),
    }
}

/// Checks the name of an end user.
///
/// # Errors
/// [`ConversationError::Invalid`].
pub fn checked_user(user_id: Option<String>) -> Result<String, ConversationError> {
    let mut errors = Vec::new();
    let user_id = user_of(user_id, &mut errors);
    if errors.is_empty() {
        Ok(user_id)
    } else {
        Err(ConversationError::Invalid(errors))
    }
}

fn user_of(user_id: Option<String>, errors: &mut Vec<FieldError>) -> String {
    let user_id = user_id.unwrap_or_else(|| user_id::DEFAULT.to_owned());
    check_line("user_id", &user_id, user_id::MAX_CHARS, errors);
    user_id.trim().to_owned()
}

/// Checks a text of one line.
fn check_line(field: &str, text: &str, most: usize, errors: &mut Vec<FieldError>) {
    if text.trim().is_empty() || char_count(text) > most || has_control(text) {
        let rule =
            format!("must have 1 to {most} characters, without line breaks and control characters");
        errors.push(FieldError::new(field, rule));
    }
}
