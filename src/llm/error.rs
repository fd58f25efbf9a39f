//! Why a model call failed.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::base::problems::{self, ProblemKind};
use crate::store::StoreError;

/// A model call failed.
#[derive(Debug, thiserror::Error)]
pub enum LlmError {
    /// 502: unreachable, too busy, or the connection broke, after all retries.
    #[error("{model} did not respond: {reason}")]
    Unavailable {
        model: String,
        reason: String,
        /// The delay that a busy provider requests.
        wait: Option<Duration>,
        /// No response came in time: it may need less time for a smaller request.
        timed_out: bool,
    },

    /// 502: the provider does not accept our key, or the key lacks a permission.
    #[error("{provider} rejected the API key: {reason}")]
    Auth {
        provider: String,
        reason: String,
        /// The provider is paused, and probed again after this time.
        next_probe_in: Option<Duration>,
    },

    /// 502: the provider does not know the model.
    #[error("the provider does not know {model}: {reason}")]
    ModelNotFound {
        model: String,
        reason: String,
        next_probe_in: Option<Duration>,
    },

    /// 502: the account at the provider is exhausted.
    #[error("{provider} has no quota left: {reason}")]
    Quota {
        provider: String,
        reason: String,
        next_probe_in: Option<Duration>,
    },

    /// 502: the provider rejected the request itself.
    #[error("{model} rejected the request: {reason}")]
    Rejected { model: String, reason: String },

    /// 502: no output matched the schema and the rules.
    #[error("{model} returned no valid output for the stage {stage}: {}", faults.join("; "))]
    InvalidOutput {
        model: String,
        stage: &'static str,
        faults: Vec<String>,
        items: Vec<i64>,
    },

    /// 502: the output was cut off, and the request cannot be made smaller.
    #[error("the output of {model} for the stage {stage} was cut off")]
    Truncated {
        model: String,
        stage: &'static str,
        items: Vec<i64>,
    },

    /// 502: the model refused to answer.
    #[error("{model} refused to answer for the stage {stage}: {reason}")]
    Refused {
        model: String,
        stage: &'static str,
        reason: String,
    },

    /// 429: the next call could exceed a cap; nothing was sent.
    #[error("the cap of {limit} {unit} per {scope} is reached: {spent} spent")]
    SpendCapReached {
        scope: &'static str,
        unit: &'static str,
        limit: f64,
        spent: f64,
        /// Seconds until the cap resets, if it does.
        resets_in: Option<u64>,
    },

    /// 422: a request names a model that is not configured.
    #[error("{given:?} is not a model of this installation: {reason}")]
    UnknownModel { given: String, reason: String },

    /// 400: requests in OpenAI's protocol cannot be forwarded to this model.
    #[error("requests cannot be forwarded to {model:?}: {reason}")]
    NotForwarded { model: String, reason: &'static str },

    /// 422: a request names a provider without a key.
    #[error("the provider {provider} has no key: {variable} is not set")]
    NoKey { provider: String, variable: String },

    /// 409: a replay reached a call that its record does not contain.
    #[error("the receipt contains no output for this {stage} call")]
    NotRecorded { stage: &'static str },

    /// The ledger could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl LlmError {
    /// The kind of its problem document.
    pub fn kind(&self) -> ProblemKind {
        match self {
            Self::Unavailable { .. } => problems::LLM_UNAVAILABLE,
            Self::Auth { .. } => problems::PROVIDER_AUTH,
            Self::ModelNotFound { .. } => problems::MODEL_NOT_FOUND,
            Self::Quota { .. } => problems::PROVIDER_QUOTA,
            Self::Rejected { .. } => problems::LLM_REJECTED,
            Self::InvalidOutput { .. } => problems::LLM_INVALID_OUTPUT,
            Self::Truncated { .. } => problems::LLM_OUTPUT_TRUNCATED,
            Self::Refused { .. } => problems::LLM_REFUSED,
            Self::SpendCapReached { .. } => problems::SPEND_CAP_REACHED,
            Self::UnknownModel { .. } => problems::UNKNOWN_MODEL,
            Self::NotForwarded { .. } => problems::MODEL_NOT_SUPPORTED,
            Self::NoKey { .. } => problems::PROVIDER_NOT_CONFIGURED,
            Self::NotRecorded { .. } => problems::REPLAY_DIVERGED,
            Self::Store(_) => problems::DATABASE_UNAVAILABLE,
        }
    }

    /// The code of its problem document.
    pub fn code(&self) -> &'static str {
        self.kind().code
    }

    /// What to do about it.
    pub fn remediation(&self) -> String {
        match self {
            Self::Unavailable { .. } => {
                "Check that the provider is running and that its base_url is correct (POST \
                 /v1/models/probe), or set llm.fallback_model; then try again."
                    .to_owned()
            }
            Self::Auth { provider, .. } => format!(
                "Set a key for llm.providers.{provider} that is valid and has access to this model, \
                 and restart. Jobs wait in the meantime and resume automatically; POST \
                 /v1/models/probe tests the provider immediately."
            ),
            Self::ModelNotFound { .. } => {
                "Set a model that the provider has (llm.model, llm.models.<stage>, or in the \
                 request), and check its base_url, which usually ends in /v1. Then restart. \
                 If the model is set in the configuration, jobs wait in the meantime; POST \
                 /v1/models/probe tests it immediately."
                    .to_owned()
            }
            Self::Quota { provider, .. } => format!(
                "Top up the account of llm.providers.{provider}, or choose another provider \
                 and restart. Jobs wait in the meantime and resume automatically; POST \
                 /v1/models/probe tests it immediately."
            ),
            Self::Rejected { .. } => {
                "Read the message from the provider. If the request is too long, use smaller \
                 chunks, a smaller budget, or a model with a larger context."
                    .to_owned()
            }
            Self::InvalidOutput { .. } => {
                "Try again. If the error persists, raise llm.validation_retries, choose a \
                 stronger model for this stage (llm.models), or set llm.fallback_model."
                    .to_owned()
            }
            Self::Truncated { .. } => {
                "Raise llm.max_output_tokens, or choose a model that can write longer output."
                    .to_owned()
            }
            Self::Refused { .. } => {
                "Choose another model for this stage (llm.models) or set llm.fallback_model."
                    .to_owned()
            }
            Self::SpendCapReached { scope, .. } => match *scope {
                "query" => "Raise llm.caps.query or the limits of the request, or use a narrower \
                     strategy."
                    .to_owned(),
                "job" => "Raise llm.caps.job and restart; POST /v1/jobs/{id}/retry then resumes \
                     where the job stopped."
                    .to_owned(),
                "key and day" => {
                    "Wait until tomorrow (UTC), or raise the daily caps of the key (limits.day \
                     with PATCH /v1/admin/keys/{id}, or day in auth.keys). Jobs resume where \
                     they stopped with POST /v1/jobs/{id}/retry."
                        .to_owned()
                }
                _ => "Wait until tomorrow (UTC), or raise llm.caps.space_day and restart. Jobs \
                     resume where they stopped with POST /v1/jobs/{id}/retry."
                    .to_owned(),
            },
            Self::NoKey { provider, variable } => {
                format!("Set {variable}, or llm.providers.{provider}.api_key_file, and restart.")
            }
            Self::UnknownModel { .. } => {
                "Choose a provider from GET /v1/models, and write the model as provider:model."
                    .to_owned()
            }
            Self::NotForwarded { .. } => {
                "Choose a model from GET /openai/v1/models, whose provider has the kind openai."
                    .to_owned()
            }
            Self::NotRecorded { .. } => {
                "The inputs have changed since, or the calls were not stored. Replay the \
                 query with mode live instead."
                    .to_owned()
            }
            Self::Store(_) => "Try again when the database is reachable.".to_owned(),
        }
    }

    /// Additional data for the problem document.
    pub fn context(&self) -> Map<String, Value> {
        let mut context = Map::new();
        match self {
            Self::InvalidOutput {
                model,
                stage,
                faults,
                items,
            } => {
                context.insert("model".to_owned(), model.as_str().into());
                context.insert("stage".to_owned(), (*stage).into());
                context.insert("violations".to_owned(), faults.clone().into());
                context.insert("items".to_owned(), items.clone().into());
            }
            Self::Truncated { model, stage, .. } | Self::Refused { model, stage, .. } => {
                context.insert("model".to_owned(), model.as_str().into());
                context.insert("stage".to_owned(), (*stage).into());
            }
            Self::SpendCapReached {
                scope,
                unit,
                limit,
                spent,
                resets_in,
            } => {
                context.insert("scope".to_owned(), (*scope).into());
                context.insert("unit".to_owned(), (*unit).into());
                context.insert("limit".to_owned(), (*limit).into());
                context.insert("spent".to_owned(), (*spent).into());

                if let Some(seconds) = resets_in {
                    context.insert("resets_in_seconds".to_owned(), (*seconds).into());
                }
            }
            Self::Unavailable { model, .. }
            | Self::ModelNotFound { model, .. }
            | Self::Rejected { model, .. } => {
                context.insert("model".to_owned(), model.as_str().into());
            }
            _ => {}
        }

        context
    }

    /// Whether retrying the whole work later may help.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Unavailable { .. }) || self.next_probe_in().is_some()
    }

    /// The provider is paused for a reason that an operator has to remove; it is probed again after
    /// this time.
    pub fn next_probe_in(&self) -> Option<Duration> {
        match self {
            Self::Auth { next_probe_in, .. }
            | Self::Quota { next_probe_in, .. }
            | Self::ModelNotFound { next_probe_in, .. } => *next_probe_in,
            _ => None,
        }
    }

    /// When to retry, if that is known.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unavailable { wait, .. } => *wait,
            Self::SpendCapReached { resets_in, .. } => resets_in.map(Duration::from_secs),
            error => error.next_probe_in(),
        }
    }

    /// Whether another model may succeed. A wrong key or an exhausted budget must be reported, not
    /// hidden.
    pub(super) fn another_may_help(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { .. }
                | Self::InvalidOutput { .. }
                | Self::Truncated { .. }
                | Self::Refused { .. }
                // A replay calls no other model; the record shows whether one was called.
                | Self::NotRecorded { .. }
        )
    }
}
