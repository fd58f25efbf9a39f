//! The prompt workbench: composes a prompt in a fixed order, with a reason for everything in it.
//!
//! `workspace` holds the rules and defaults of a space, `runs` what is in progress. Nothing of a
//! prompt is stored.

pub mod runs;
pub mod workspace;

use std::sync::Arc;

use crate::base::field_error::FieldError;
use crate::base::ids::RunId;
use crate::config;
use crate::conversation::ConversationError;
use crate::llm::LlmError;
use crate::store::{Store, StoreError};

use runs::PromptRuns;
use workspace::Workspaces;

/// Entry point of the workbench; cheap to clone.
#[derive(Clone)]
pub struct Workbench {
    workspaces: Workspaces,
    runs: PromptRuns,
}

/// A request to the workbench failed.
#[derive(Debug, thiserror::Error)]
pub enum WorkbenchError {
    /// 422: fields violate a rule.
    #[error("the request is invalid")]
    Invalid(Vec<FieldError>),
    /// 404: it has ended, or another process runs it.
    #[error("this process runs nothing with the id {0}")]
    NoRun(String),
    /// 409: the id is in use.
    #[error("the run {0} is still in progress")]
    RunExists(RunId),
    /// 409: the run was cancelled.
    #[error("the run {0} was cancelled")]
    Cancelled(RunId),
    /// 412: it has changed since it was read.
    #[error("the workspace has changed since you read it")]
    Changed,
    #[error(transparent)]
    Conversation(#[from] ConversationError),
    #[error(transparent)]
    Llm(#[from] LlmError),
    /// 503 or 500, as the store says.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl WorkbenchError {
    pub fn invalid(field: &str, rule: impl Into<String>) -> Self {
        Self::Invalid(vec![FieldError::new(field, rule)])
    }
}

impl Workbench {
    #[must_use]
    pub fn new(store: Store, config: config::Workbench) -> Self {
        let config = Arc::new(config);
        Self {
            workspaces: Workspaces::new(store, config),
            runs: PromptRuns::default(),
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
