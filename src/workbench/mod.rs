//! The prompt workbench: composes a prompt in a fixed order, with a reason for everything in it.
//!
//! `workspace` holds the rules and defaults of a space, `runs` what is in progress. `compose` is
//! the fixed order of a run: `shaper` states what the task asks for, `files` injects files,
//! `pass` is one pass of `retriever`, `reranker`, `entailment` and `condenser`, the `shaper`
//! audits once, and `builder` puts the blocks into the order of their authority; `target` makes
//! messages of them. `eligibility` bounds what is searched, `history` reads the conversation,
//! `older_turns` compares it with the files, `contradictions` compares all of them (a `conflict` has
//! both sides), `safety` neutralises instructions in retrieved text, `ceiling` rejects prompts that
//! are too large, `transparency` explains the others. Nothing of a prompt is stored.

mod adapters;
pub mod builder;
pub mod candidate;
pub mod ceiling;
pub mod claims;
pub mod compose;
pub mod condenser;
pub mod conflict;
mod contradictions;
mod eligibility;
pub mod entailment;
pub mod files;
pub mod history;
pub mod input;
pub mod older_turns;
mod pass;
mod reranker;
mod retriever;
pub mod runs;
pub mod safety;
pub mod sending;
pub mod shaper;
pub mod stage;
pub mod target;
pub mod transparency;
mod word_overlap;
pub mod workspace;

use std::sync::Arc;

use memoir_text::field_error::FieldError;

use crate::base::ids::RunId;
use crate::config;
use crate::conversation::{Conversation, ConversationError};
use crate::llm::{Llm, LlmError, ScoringError};
use crate::search::{Search, SearchError};
use crate::sources::{SourceError, Sources};
use crate::store::{Store, StoreError};

use adapters::Adapters;
use ceiling::PromptEstimate;
use runs::PromptRuns;
use workspace::Workspaces;

/// Entry point of the workbench; cheap to clone.
#[derive(Clone)]
pub struct Workbench {
    store: Store,
    llm: Llm,
    search: Search,
    sources: Sources,
    conversation: Conversation,
    adapters: Arc<Adapters>,
    workspaces: Workspaces,
    runs: PromptRuns,
}

/// The areas that the workbench reads.
pub struct Areas {
    pub store: Store,
    pub llm: Llm,
    pub search: Search,
    pub sources: Sources,
    pub conversation: Conversation,
}

/// A request to the workbench failed.
#[derive(Debug, thiserror::Error)]
pub enum WorkbenchError {
    /// 422: fields violate a rule.
    #[error("the request is invalid")]
    Invalid(Vec<FieldError>),
    /// 404: the run has ended, or another process runs it.
    #[error("this process has no run {0}")]
    NoRun(String),
    /// 404: no source has this path.
    #[error("there is no source at {0} in this space")]
    NoFile(String),
    /// 409: the source was registered but never ingested.
    #[error("the source at {0} has no text yet")]
    NoText(String),
    /// 409: the id is in use.
    #[error("there is already a run {0} in progress")]
    RunExists(RunId),
    /// 409: the run was cancelled.
    #[error("the run {0} was cancelled")]
    Cancelled(RunId),
    /// 412: the workspace has changed since it was read.
    #[error("the workspace has changed since you read it")]
    Changed,
    /// 422: the prompt is over a ceiling of tokens or cost.
    #[error(
        "the prompt has {} tokens and may cost {}; the ceilings are {} tokens and {} USD",
        .0.tokens,
        .0.cost_usd.map_or_else(|| "an unknown amount".to_owned(), |cost| format!("{cost:.4} USD")),
        .0.ceiling_tokens,
        .0.ceiling_cost_usd
    )]
    OverCeiling(Box<PromptEstimate>),
    /// A server that scores texts failed; a stage then falls back.
    #[error(transparent)]
    Scoring(#[from] ScoringError),
    /// A model says the same of every chunk; a stage then falls back.
    #[error("{0} judged every chunk alike, with a score of 0.5; its judgement is not used")]
    Undecided(String),
    #[error(transparent)]
    Conversation(ConversationError),
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Llm(#[from] LlmError),
    /// 503 or 500, as the store says.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A model that is down must be recognised as such.
impl From<ConversationError> for WorkbenchError {
    fn from(error: ConversationError) -> Self {
        match error {
            ConversationError::Llm(error) => Self::Llm(error),
            ConversationError::Search(error) => error.into(),
            error => Self::Conversation(error),
        }
    }
}

impl From<SearchError> for WorkbenchError {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Invalid(errors) => Self::Invalid(errors),
            SearchError::Llm(error) => Self::Llm(error),
            SearchError::Store(error) => Self::Store(error),
        }
    }
}

impl WorkbenchError {
    pub fn invalid(field: &str, rule: impl Into<String>) -> Self {
        Self::Invalid(vec![FieldError::new(field, rule)])
    }
}

impl Workbench {
    #[must_use]
    pub fn new(areas: Areas, config: config::Workbench) -> Self {
        let Areas {
            store,
            llm,
            search,
            sources,
            conversation,
        } = areas;
        let config = Arc::new(config);
        Self {
            adapters: Arc::new(Adapters::new(&config)),
            workspaces: Workspaces::new(store.clone(), config),
            runs: PromptRuns::default(),
            store,
            llm,
            search,
            sources,
            conversation,
        }
    }

    /// The rules and defaults of spaces.
    pub fn workspaces(&self) -> &Workspaces {
        &self.workspaces
    }

    /// The runs of this process.
    pub fn runs(&self) -> &PromptRuns {
        &self.runs
    }
}
