//! Why a query has no result, as its problem document says.

use memoir_text::field_error::FieldError;
use serde_json::{Map, Value, json};

use super::result::QueryResult;
use crate::base::problems::{self, ProblemKind};
use crate::jobs::{Failure, JobError};
use crate::llm::LlmError;
use crate::search::SearchError;
use crate::store::{AsStoreError, StoreError};

/// A query failed.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// 422: fields violate a rule.
    #[error("the query is invalid")]
    Invalid(Vec<FieldError>),
    /// 400.
    #[error("{0}")]
    Cursor(&'static str),
    /// 404: no receipt with this id.
    #[error("there is no query {0} in this space")]
    NotFound(String),
    /// 410: the receipt is there, but what it was based on was deleted.
    #[error("text that query {0} used has been deleted, and its answer with it")]
    Erased(String),
    /// 404: no chunks under any selected path.
    #[error("no chunks were found under any selected path")]
    NoChunks,
    /// 429: the query may exceed its limits; no model was called.
    #[error(
        "this query may need up to {needed} {unit}, but the limit is {limit}; nothing was spent"
    )]
    MayCostMore {
        unit: &'static str,
        limit: f64,
        needed: f64,
    },
    /// 422: not even the best path fits.
    #[error(
        "the chunks do not fit the budget of {budget} tokens: the last path alone needs {needed}"
    )]
    BudgetExceeded { budget: i64, needed: i64 },
    /// 422: the budget leaves no space for chunks.
    #[error("the budget of {budget} tokens is too small: {reason}")]
    BudgetTooSmall { budget: i64, reason: String },
    /// 422: the summaries are too long.
    #[error("the summaries have {combined} characters in total; at most {allowed} are allowed")]
    CharacterBudget { combined: i64, allowed: i64 },
    /// 422: the complete prompt exceeds the budget; it was not sent.
    #[error("the final prompt has {tokens} tokens, but the budget is {budget}")]
    FinalPromptOverBudget { tokens: i64, budget: i64 },
    /// 504.
    #[error("the query was not answered within {seconds} seconds")]
    Timeout { seconds: u64 },
    /// As the model layer says.
    #[error(transparent)]
    Llm(#[from] LlmError),
    /// 503 or 500, as the store says.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A failed query, with everything that was done for it.
#[derive(Debug)]
pub struct Failed {
    pub error: QueryError,
    /// `None` if nothing was done yet.
    pub result: Option<Box<QueryResult>>,
}

impl From<QueryError> for Failed {
    fn from(error: QueryError) -> Self {
        Self {
            error,
            result: None,
        }
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        QueryError::from(error).into()
    }
}

impl From<LlmError> for Failed {
    fn from(error: LlmError) -> Self {
        QueryError::from(error).into()
    }
}

impl AsStoreError for QueryError {
    fn as_store_error(&self) -> Option<&StoreError> {
        if let Self::Store(error) = self {
            Some(error)
        } else {
            None
        }
    }
}

impl QueryError {
    /// The kind of its problem document.
    pub fn kind(&self) -> ProblemKind {
        match self {
            Self::Invalid(_) => problems::INVALID_REQUEST,
            Self::Cursor(_) => problems::INVALID_CURSOR,
            Self::NotFound(_) => problems::NOT_FOUND,
            Self::Erased(_) => problems::ERASED,
            Self::NoChunks => problems::NO_CHUNKS_FOUND,
            Self::MayCostMore { .. } => problems::SPEND_CAP_REACHED,
            Self::BudgetExceeded { .. } => problems::BUDGET_EXCEEDED,
            Self::BudgetTooSmall { .. } => problems::BUDGET_TOO_SMALL,
            Self::CharacterBudget { .. } => problems::CHARACTER_BUDGET_NOT_MET,
            Self::FinalPromptOverBudget { .. } => problems::FINAL_PROMPT_OVER_BUDGET,
            Self::Timeout { .. } => problems::QUERY_TIMEOUT,
            Self::Llm(error) => error.kind(),
            Self::Store(_) => problems::DATABASE_UNAVAILABLE,
        }
    }

    pub fn code(&self) -> &'static str {
        self.kind().code
    }

    /// What to do about it.
    pub fn remediation(&self) -> String {
        let text = match self {
            Self::Invalid(_) => "Correct the fields listed in errors; /docs describes each field.",
            Self::Cursor(_) => {
                "Start again without a cursor, then send next_cursor unchanged and with the \
                 same query."
            }
            Self::NotFound(_) => {
                "Check the id and the space; with audit.persist = false memoir stores no \
                 receipts."
            }
            Self::Erased(_) => "Ask the query again: POST /v1/queries.",
            Self::NoChunks => {
                "Use the strategy auto, wide_branch or branch_out, or fewer filters (source_ids, \
                 tags, user_id, as_of); context shows which categories were selected. If the space is empty, ingest a text first: POST \
                 /v1/ingestions."
            }
            Self::MayCostMore { .. } => {
                "Raise max_calls or max_cost_usd, or use a narrower strategy or fewer chunks \
                 (limit); POST /v1/queries/estimate returns the upper bounds."
            }
            Self::BudgetExceeded { .. } => {
                "Raise max_token_budget, lower per_path_limit, set prompt_limiting_strategy \
                 to \"SUMMARIZE\", or set overflow to \"trim\"."
            }
            Self::BudgetTooSmall { .. } => {
                "Raise max_token_budget, read fewer chunks (limit, per_path_limit), because \
                 each chunk adds a frame, or shorten the query and the helpers of the \
                 sources."
            }
            Self::CharacterBudget { .. } => {
                "Raise query.summary_max_retries or \
                 query.summary_char_overage_tolerance_percent, choose a stronger model for \
                 the stage summarize (llm.models), or raise max_token_budget."
            }
            Self::FinalPromptOverBudget { .. } => {
                "Read fewer chunks (limit, per_path_limit), use PRUNE, or raise \
                 max_token_budget so that fewer chunks are summarised."
            }
            Self::Timeout { .. } => {
                "Raise timeout_s, use a narrower strategy, or set wait to false."
            }
            Self::Llm(error) => return error.remediation(),
            Self::Store(_) => "Try again when the database is reachable.",
        };
        text.to_owned()
    }
}

impl Failed {
    /// Facts for the problem document, including everything that was paid for.
    pub fn context(&self) -> Map<String, Value> {
        let mut context = match &self.error {
            QueryError::Llm(error) => error.context(),
            QueryError::MayCostMore {
                unit,
                limit,
                needed,
            } => {
                let facts = json!({"scope": "query", "unit": unit, "limit": limit, "needed": needed, "spent": 0});
                facts.as_object().cloned().unwrap_or_default()
            }
            _ => Map::new(),
        };

        let Some(result) = &self.result else {
            return context;
        };
        if matches!(self.error, QueryError::NoChunks) {
            // The result itself, in its documented shape.
            if let Ok(Value::Object(whole)) = serde_json::to_value(result) {
                context.extend(whole);
            }
            context.insert("found".to_owned(), false.into());
            return context;
        }

        let considered: Vec<&Vec<String>> = result.paths.iter().map(|path| &path.names).collect();
        context.insert("query_id".to_owned(), result.id.as_str().into());
        context.insert("considered_paths".to_owned(), json!(considered));
        context.insert("dropped_paths".to_owned(), json!(result.dropped_paths));
        context.insert("estimate".to_owned(), json!(result.estimate));
        context.insert("responses".to_owned(), json!(result.responses));
        if let Some(summarization) = &result.summarization {
            context.insert("summarization".to_owned(), json!(summarization));
        }

        context
    }
}

impl From<SearchError> for QueryError {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Llm(error) => Self::Llm(error),
            SearchError::Store(error) => Self::Store(error),
            SearchError::Invalid(errors) => Self::Invalid(errors),
        }
    }
}

impl From<Failed> for JobError {
    fn from(failed: Failed) -> Self {
        let context = failed.context();
        match failed.error {
            QueryError::Store(error) => error.into(),
            QueryError::Llm(error) if error.may_pass() => error.into(),
            error => {
                let mut failure =
                    Failure::new(error.kind(), error.to_string()).fix(error.remediation());
                failure.context = context;
                Self::fail(failure)
            }
        }
    }
}
