//! The workspace of a space: hard rules, project memory, and the defaults of a run. Every change is a
//! new version; none is ever changed.

use memoir_text::field_error::FieldError;
use memoir_text::text::char_count;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::WorkbenchError;
use crate::base::clock::Timestamp;
use crate::base::json_object::object_or_null;
use crate::config;
use crate::model::call::CallContext;
use crate::store::{Store, StoreError, WorkspaceRow};

/// Maximum characters of the hard rules, and of the project memory.
const MAX_RULE_CHARS: usize = 20_000;
const MAX_MEMORY_CHARS: usize = 100_000;
/// Turns of the recency window, and tokens of the episodic layer.
const DEFAULT_K: i64 = 4;
const DEFAULT_EPISODIC_TOKENS: u64 = 800;

/// A workspace. Omitted fields get their defaults from the configuration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(as = UpdateWorkspaceRequest, example = json!({
    "hard_rules": "Answer in English.", "project_memory": "Memoir is written in Rust.",
    "agents": {"audit": false}, "settings": {"theta": 0.6}, "ceilings": {"tokens": 8000}
}))]
pub struct WorkspaceInput {
    /// The first block of every prompt, verbatim.
    #[schema(max_length = 20000)]
    pub hard_rules: Option<String>,
    /// The second block of every prompt, verbatim.
    #[schema(max_length = 100_000)]
    pub project_memory: Option<String>,
    #[serde(deserialize_with = "object_or_null")]
    pub agents: Option<AgentsInput>,
    #[serde(deserialize_with = "object_or_null")]
    pub settings: Option<RunSettingsInput>,
    #[serde(deserialize_with = "object_or_null")]
    pub ceilings: Option<CeilingsInput>,
    #[serde(deserialize_with = "object_or_null")]
    pub timeouts: Option<TimeoutsInput>,
    /// Ignored, like `created_at`, so that a response can be changed and sent back.
    #[serde(skip_serializing)]
    pub version: Option<i64>,
    #[serde(skip_serializing)]
    pub created_at: Option<String>,
}

/// Declares a group of settings: as it is given, where each may be omitted, and as it is used.
macro_rules! group {
    ($(#[$doc:meta])* $name:ident, $input:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type,)* }

        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
        #[serde(default, deny_unknown_fields)]
        pub struct $input { $($(#[$field_doc])* pub $field: Option<$type>,)* }

        impl $name {
            /// These settings with the given values.
            #[must_use]
            pub fn with(self, given: Option<$input>) -> Self {
                let given = given.unwrap_or_default();
                Self { $($field: given.$field.unwrap_or(self.$field),)* }
            }
        }
    };
}

group!(
    /// Which stages run. A stage that is `false` is skipped, and the run completes without it.
    Agents, AgentsInput {
        /// Shapes the task (agent A2, first pass): states its intent, role and form as headers.
        shape: bool,
        /// Injects the files (agent A1).
        files: bool,
        /// Reads the thread: its last turns (recency window), and older turns that matter (episodic
        /// layer).
        memory: bool,
        /// Searches chunks of the eligible sources.
        retrieve: bool,
        /// Ranks the retrieved chunks again (the reranker).
        rerank: bool,
        /// Drops chunks that do not support the task (agent A3, the entailment gate).
        nli: bool,
        /// Condenses the chunks to cited facts, constraints and open issues (agent A4).
        condense: bool,
        /// Audits the headers against the facts found, and refines them (agent A2, second pass).
        audit: bool,
    }
);

group!(
    /// Settings of a run.
    RunSettings, RunSettingsInput {
        /// Number of turns in the recency window, which are the last turns of the thread.
        #[schema(minimum = 1, maximum = 50)]
        k: i64,
        /// Maximum tokens of the episodic layer, which are older turns that matter.
        #[schema(minimum = 0, maximum = 200_000)]
        episodic_tokens: u64,
        /// Whether the prompt shows the recency window.
        include_recent_history: bool,
        /// Maximum number of chunks to retrieve.
        #[schema(minimum = 1, maximum = 100)]
        top_k: u64,
        /// Minimum score of a chunk to pass the entailment gate, from 0 to 1.
        #[schema(minimum = 0, maximum = 1)]
        theta: f64,
        /// Maximum tokens of a packed file.
        #[schema(minimum = 50, maximum = 100_000)]
        pack_tokens: u64,
    }
);

group!(
    /// The limits of a composed prompt.
    Ceilings, CeilingsInput {
        /// Maximum tokens.
        #[schema(minimum = 1, maximum = 10_000_000)]
        tokens: u64,
        /// Maximum cost of sending it in US dollars, if the price is known.
        #[schema(minimum = 0, maximum = 1_000_000)]
        cost_usd: f64,
    }
);

group!(
    /// Milliseconds after which a stage is cancelled and its fallback applies.
    Timeouts, TimeoutsInput {
        /// For the search of chunks.
        #[schema(minimum = 1, maximum = 600_000)]
        retrieval_ms: u64,
        /// For the reranker.
        #[schema(minimum = 1, maximum = 600_000)]
        rerank_ms: u64,
        /// For the entailment gate.
        #[schema(minimum = 1, maximum = 600_000)]
        nli_ms: u64,
        /// For the condenser, and for each of the stages `shape` and `audit`.
        #[schema(minimum = 1, maximum = 600_000)]
        condense_ms: u64,
    }
);

/// A workspace with every value.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Workspace {
    /// The first block of every prompt.
    pub hard_rules: String,
    /// The second block of every prompt.
    pub project_memory: String,
    pub agents: Agents,
    pub settings: RunSettings,
    pub ceilings: Ceilings,
    pub timeouts: Timeouts,
}

impl Workspace {
    /// The workspace of a space that has not set one.
    #[must_use]
    pub fn usual(config: &config::Workbench) -> Self {
        Self {
            hard_rules: String::new(),
            project_memory: String::new(),
            agents: Agents {
                shape: true,
                files: true,
                memory: true,
                retrieve: true,
                rerank: true,
                nli: true,
                condense: true,
                audit: true,
            },
            settings: RunSettings {
                k: DEFAULT_K,
                episodic_tokens: DEFAULT_EPISODIC_TOKENS,
                include_recent_history: true,
                top_k: config.top_k,
                theta: config.theta,
                pack_tokens: config.pack_tokens,
            },
            ceilings: Ceilings {
                tokens: config.prompt_ceiling,
                cost_usd: config.cost_ceiling,
            },
            timeouts: Timeouts {
                retrieval_ms: config.retrieval_timeout_ms,
                rerank_ms: config.rerank_timeout_ms,
                nli_ms: config.nli_timeout_ms,
                condense_ms: config.condense_timeout_ms,
            },
        }
    }

    /// These settings with the given values.
    #[must_use]
    pub fn with(self, given: WorkspaceInput) -> Self {
        Self {
            hard_rules: given.hard_rules.unwrap_or(self.hard_rules),
            project_memory: given.project_memory.unwrap_or(self.project_memory),
            agents: self.agents.with(given.agents),
            settings: self.settings.with(given.settings),
            ceilings: self.ceilings.with(given.ceilings),
            timeouts: self.timeouts.with(given.timeouts),
        }
    }

    /// Checks every value.
    ///
    /// # Errors
    /// [`WorkbenchError::Invalid`], with all violations.
    pub fn check(&self) -> Result<(), WorkbenchError> {
        let mut errors = Vec::new();
        let mut rule = |holds: bool, field: &str, rule: &str| {
            if !holds {
                errors.push(FieldError::new(field, rule));
            }
        };

        rule(
            char_count(&self.hard_rules) <= MAX_RULE_CHARS,
            "hard_rules",
            "must have at most 20000 characters",
        );
        rule(
            char_count(&self.project_memory) <= MAX_MEMORY_CHARS,
            "project_memory",
            "must have at most 100000 characters",
        );

        let RunSettings {
            k,
            episodic_tokens,
            top_k,
            theta,
            pack_tokens,
            ..
        } = self.settings;
        rule((1..=50).contains(&k), "settings.k", "must be from 1 to 50");
        rule(
            episodic_tokens <= 200_000,
            "settings.episodic_tokens",
            "must be at most 200000",
        );
        rule(
            (1..=100).contains(&top_k),
            "settings.top_k",
            "must be from 1 to 100",
        );
        rule(
            (0.0..=1.0).contains(&theta),
            "settings.theta",
            "must be from 0 to 1",
        );
        rule(
            (50..=100_000).contains(&pack_tokens),
            "settings.pack_tokens",
            "must be from 50 to 100000",
        );
        rule(
            (1..=10_000_000).contains(&self.ceilings.tokens),
            "ceilings.tokens",
            "must be from 1 to 10000000",
        );
        rule(
            (0.0..=1_000_000.0).contains(&self.ceilings.cost_usd),
            "ceilings.cost_usd",
            "must be from 0 to 1000000",
        );

        let Timeouts {
            retrieval_ms,
            rerank_ms,
            nli_ms,
            condense_ms,
        } = self.timeouts;
        for (field, given) in [
            ("timeouts.retrieval_ms", retrieval_ms),
            ("timeouts.rerank_ms", rerank_ms),
            ("timeouts.nli_ms", nli_ms),
            ("timeouts.condense_ms", condense_ms),
        ] {
            rule(
                (1..=600_000).contains(&given),
                field,
                "must be from 1 to 600000",
            );
        }

        if errors.is_empty() {
            Ok(())
        } else {
            Err(WorkbenchError::Invalid(errors))
        }
    }
}

/// One version of a workspace.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredWorkspace {
    /// 0 before any change.
    pub version: i64,
    pub workspace: Workspace,
    /// `None` before any change.
    pub created_at: Option<Timestamp>,
}

/// Reads and changes workspaces; cheap to clone.
#[derive(Clone)]
pub struct Workspaces {
    store: Store,
    config: std::sync::Arc<config::Workbench>,
}

impl Workspaces {
    #[must_use]
    pub fn new(store: Store, config: std::sync::Arc<config::Workbench>) -> Self {
        Self { store, config }
    }

    /// The current version.
    ///
    /// # Errors
    /// The store's.
    pub async fn current(&self, call: &CallContext) -> Result<StoredWorkspace, WorkbenchError> {
        let usual = Workspace::usual(&self.config);
        let Some(row) = self.store.find_workspace(&call.space).await? else {
            return Ok(StoredWorkspace {
                version: 0,
                workspace: usual,
                created_at: None,
            });
        };

        let given: WorkspaceInput =
            serde_json::from_str(&row.body_json).map_err(|error| StoreError::Broken {
                cause: format!("workspace {}: {error}", row.version),
            })?;
        Ok(StoredWorkspace {
            version: row.version,
            workspace: usual.with(given),
            created_at: Some(row.created_at),
        })
    }

    /// Stores a workspace as the next version. `unchanged` says whether the current one is the one
    /// that the caller has read.
    ///
    /// # Errors
    /// [`WorkbenchError::Invalid`], [`WorkbenchError::Changed`], or the store's.
    pub async fn replace(
        &self,
        call: &CallContext,
        given: WorkspaceInput,
        unchanged: impl Fn(&StoredWorkspace) -> bool,
    ) -> Result<StoredWorkspace, WorkbenchError> {
        let workspace = Workspace::usual(&self.config).with(given);
        workspace.check()?;
        let body_json = serde_json::to_string(&workspace).map_err(|error| StoreError::Broken {
            cause: error.to_string(),
        })?;

        loop {
            let current = self.current(call).await?;
            if !unchanged(&current) {
                return Err(WorkbenchError::Changed);
            }

            let row = WorkspaceRow {
                version: current.version + 1,
                body_json: body_json.clone(),
                created_at: call.now,
            };
            if self.store.add_workspace_version(&call.space, &row).await? {
                return Ok(StoredWorkspace {
                    version: row.version,
                    workspace,
                    created_at: Some(call.now),
                });
            }
        }
    }
}
