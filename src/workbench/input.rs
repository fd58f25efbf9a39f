//! A request to compose a prompt, and its rules.

use memoir_index::Kind;
use memoir_text::field_error::FieldError;
use memoir_text::text::char_count;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::WorkbenchError;
use super::files::PromptFile;
use super::target::Target;
use super::workspace::{
    AgentsInput, CeilingsInput, RunSettingsInput, TimeoutsInput, Workspace, WorkspaceInput,
};
use crate::model::scope::ScopeInput;

/// Maximum characters of a task.
const MAX_TASK_CHARS: usize = 100_000;
const MAX_MODE_CHARS: usize = 500;

/// How chunks are compared with the task: by meaning (`semantic`), by keyword (`keyword`), or both
/// (`hybrid`, the default).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PromptSearch {
    /// By meaning: the cosine of their vectors.
    Semantic,
    /// By words.
    Keyword,
    /// By both.
    #[default]
    Hybrid,
}

impl PromptSearch {
    pub fn kind(self) -> Kind {
        match self {
            Self::Semantic => Kind::Semantic,
            Self::Keyword => Kind::Keyword,
            Self::Hybrid => Kind::Hybrid,
        }
    }
}

/// A prompt to compose. Omitted settings come from the workspace.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(as = ComposePromptRequest, example = json!({
    "task": "Write a plan for moving the lamp.", "files": [{"path": "/docs/lamp.md", "mode": "pack"}],
    "theta": 0.6, "target": "anthropic"
}))]
pub struct ComposeInput {
    /// What the prompt asks for.
    #[schema(required, min_length = 1, max_length = 100_000, pattern = "\\S")]
    pub task: String,
    /// How to work on the task, in a few words, such as `review`; becomes part of the task block.
    #[schema(max_length = 500)]
    pub mode: Option<String>,
    /// Files to inject, in this order.
    #[schema(max_items = 50)]
    pub files: Vec<PromptFile>,
    /// Exact file lock: only the injected files are used; nothing is retrieved.
    pub lock: bool,
    /// Search only these sources; all that are eligible if empty.
    #[schema(max_items = 100)]
    pub source_ids: Vec<String>,
    /// Search only sources that have all of these tags.
    #[schema(max_items = 100)]
    pub tags: Vec<String>,
    /// Sources that are off in this run: they are not searched, and messages about them are
    /// ignored.
    #[schema(max_items = 10_000)]
    pub off_source_ids: Vec<String>,
    /// Only sources and files of this end user; those of all users if omitted. With `thread_id`, it
    /// must be the owner of the thread.
    #[serde(default, deserialize_with = "crate::base::user_id::trimmed")]
    pub user_id: Option<String>,
    /// The thread that the task belongs to.
    pub thread_id: Option<String>,
    /// Which stages run.
    #[serde(deserialize_with = "crate::base::json_object::object_or_null")]
    pub agents: Option<AgentsInput>,
    /// Number of turns in the recency window, which are the last turns of the thread.
    #[schema(minimum = 1, maximum = 50)]
    pub k: Option<i64>,
    /// Maximum tokens of the episodic layer, which are older turns that matter.
    #[schema(minimum = 0, maximum = 200_000)]
    pub episodic_tokens: Option<u64>,
    /// Whether the prompt shows the recency window.
    pub include_recent_history: Option<bool>,
    /// Maximum number of chunks to retrieve.
    #[schema(minimum = 1, maximum = 100)]
    pub top_k: Option<u64>,
    /// Minimum score of a chunk to pass the entailment gate, from 0 to 1.
    #[schema(minimum = 0, maximum = 1)]
    pub theta: Option<f64>,
    /// Maximum tokens of a packed file.
    #[schema(minimum = 50, maximum = 100_000)]
    pub pack_tokens: Option<u64>,
    /// Ceilings that are lower than those of the workspace; higher ones have no effect.
    #[serde(deserialize_with = "crate::base::json_object::object_or_null")]
    pub ceilings: Option<CeilingsInput>,
    #[serde(deserialize_with = "crate::base::json_object::object_or_null")]
    pub timeouts: Option<TimeoutsInput>,
    pub search_type: PromptSearch,
    /// The model for every stage, as `provider:model`. The estimate is for this model too.
    pub model: Option<String>,
    /// The form of the prompt: text only, or messages for a provider's API.
    pub target: Target,
    /// A UUID of your own for this run, with which you can cancel it before its response arrives.
    pub run_id: Option<String>,
}

impl ComposeInput {
    /// The scope of its search.
    pub fn scope(&self) -> ScopeInput {
        ScopeInput {
            source_ids: self.source_ids.clone(),
            tags: self.tags.clone(),
            user_id: self.user_id.clone(),
            ..ScopeInput::default()
        }
    }

    /// The workspace as this run uses it.
    ///
    /// # Errors
    /// [`WorkbenchError::Invalid`].
    pub fn effective(&self, workspace: Workspace) -> Result<Workspace, WorkbenchError> {
        let mut errors = Vec::new();
        if self.task.trim().is_empty() || char_count(&self.task) > MAX_TASK_CHARS {
            let rule = format!("must have 1 to {MAX_TASK_CHARS} characters");
            errors.push(FieldError::new("task", rule));
        }
        if self.mode.as_deref().map_or(0, char_count) > MAX_MODE_CHARS {
            let rule = format!("must have at most {MAX_MODE_CHARS} characters");
            errors.push(FieldError::new("mode", rule));
        }
        if !errors.is_empty() {
            return Err(WorkbenchError::Invalid(errors));
        }

        let ceilings = workspace.ceilings.clone();
        let mut used = workspace.with(WorkspaceInput {
            agents: self.agents.clone(),
            settings: Some(RunSettingsInput {
                k: self.k,
                episodic_tokens: self.episodic_tokens,
                include_recent_history: self.include_recent_history,
                top_k: self.top_k,
                theta: self.theta,
                pack_tokens: self.pack_tokens,
            }),
            ceilings: self.ceilings.clone(),
            timeouts: self.timeouts.clone(),
            ..WorkspaceInput::default()
        });
        used.check().map_err(in_request)?;
        used.ceilings.tokens = used.ceilings.tokens.min(ceilings.tokens);
        used.ceilings.cost_usd = used.ceilings.cost_usd.min(ceilings.cost_usd);
        Ok(used)
    }
}

/// A request has no group `settings`: it sends each setting as a field of its own.
fn in_request(error: WorkbenchError) -> WorkbenchError {
    match error {
        WorkbenchError::Invalid(mut errors) => {
            for error in &mut errors {
                let field = error.field.strip_prefix("settings.").map(str::to_owned);
                error.field = field.unwrap_or_else(|| error.field.clone());
            }
            WorkbenchError::Invalid(errors)
        }
        error => error,
    }
}
