//! The one error type, and the one place that maps errors to HTTP statuses.
//!
//! Handlers return `ApiError`; the outermost middleware writes it as `application/problem+json`,
//! adds the request id, and logs the cause of a 5xx once.

mod categories;
mod conversation;
mod keys;
mod policies;
mod queries;
mod retrieval;
mod workbench;

use std::ops::Deref;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use memoir_text::field_error::FieldError;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::base::problems::{self, ProblemKind};
use crate::contextual_helpers::{HelperError, Refused};
use crate::erasure::ErasureError;
use crate::ingestion::IngestionError;
use crate::jobs::JobsError;
use crate::llm::LlmError;
use crate::search::SearchError;
use crate::sources::SourceError;
use crate::store::StoreError;

/// Invalid fields that one problem document lists.
const MAX_ERRORS: usize = 100;

/// A problem document as defined in RFC 9457.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "type": "urn:memoir:problem:not_found", "title": "Not found", "status": 404,
    "detail": "there is no source 0199… in this space", "code": "not_found",
    "remediation": "Check the id and the space.", "request_id": "0199a7e0-0000-7000-8000-000000000000"
}))]
pub struct Problem {
    /// A stable URI for the kind of problem: `urn:memoir:problem:` followed by the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// A short title, the same for every problem of this kind.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened in this case.
    pub detail: String,
    /// A machine-readable code to branch on.
    pub code: String,
    /// What to do about it.
    pub remediation: String,
    /// The id of this request, also found in the log and in the header `X-Request-Id`.
    pub request_id: String,
    /// The invalid fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<ProblemField>,
    /// Additional data, depending on the kind of problem.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    #[schema(value_type = std::collections::HashMap<String, serde_json::Value>)]
    pub context: serde_json::Map<String, serde_json::Value>,
}

/// An invalid field.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ProblemField {
    /// Its location in the request: `tags[2]`, `filename`.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

/// An error for the client; boxed so that the `Result` of every handler stays small.
#[derive(Debug, Clone)]
pub struct ApiError(Box<Details>);

/// The contents of an error.
#[derive(Debug, Clone)]
pub struct Details {
    pub kind: ProblemKind,
    pub detail: String,
    pub remediation: String,
    pub errors: Vec<FieldError>,
    pub context: serde_json::Map<String, serde_json::Value>,
    /// Additional headers, such as `Retry-After`.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// For the log only.
    pub cause: Option<String>,
}

impl Deref for ApiError {
    type Target = Details;

    fn deref(&self) -> &Details {
        &self.0
    }
}

impl ApiError {
    pub fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        Self(Box::new(Details {
            kind,
            detail: detail.into(),
            remediation: kind.remedy.to_owned(),
            errors: Vec::new(),
            context: serde_json::Map::new(),
            headers: Vec::new(),
            cause: None,
        }))
    }

    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.kind.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Replaces the general remedy.
    #[must_use]
    pub fn fix(mut self, remediation: impl Into<String>) -> Self {
        self.0.remediation = remediation.into();
        self
    }

    #[must_use]
    pub fn with(mut self, name: &str, fact: impl Into<serde_json::Value>) -> Self {
        self.0.context.insert(name.to_owned(), fact.into());
        self
    }

    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers.push((name, value));
        self
    }

    /// 400: the request cannot be parsed.
    pub fn malformed(detail: impl Into<String>) -> Self {
        Self::new(problems::MALFORMED_REQUEST, detail)
    }

    /// 403.
    pub fn forbidden(detail: &str) -> Self {
        Self::new(problems::FORBIDDEN, detail)
    }

    /// 404.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(problems::NOT_FOUND, detail)
    }

    /// 422: some fields are invalid; the first [`MAX_ERRORS`] are listed, the others counted.
    pub fn invalid(mut errors: Vec<FieldError>) -> Self {
        let more = errors.len().saturating_sub(MAX_ERRORS);
        errors.truncate(MAX_ERRORS);
        let named: Vec<String> = errors
            .iter()
            .map(|e| format!("{}: {}", e.field, e.message))
            .collect();

        let mut detail = named.join("; ");
        if more > 0 {
            detail = format!("{detail}; and {more} more errors");
        }

        let mut error = Self::new(problems::INVALID_REQUEST, detail);
        if more > 0 {
            error = error.with("more_errors", more);
        }

        error.0.errors = errors;
        error
    }

    /// Adds where in the request the error is, such as the line.
    #[must_use]
    pub fn at(mut self, place: &str) -> Self {
        self.0.detail = format!("{place}: {}", self.0.detail);
        self
    }

    /// 422 for one field.
    pub fn invalid_field(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::invalid(vec![FieldError::new(field, message)])
    }

    /// 500: an internal error; the cause is for the log only.
    pub fn internal(cause: impl Into<String>) -> Self {
        let mut error = Self::new(
            problems::INTERNAL_ERROR,
            "memoir failed to process the request; nothing was changed",
        )
        .fix(
            "Try again. If the error persists, report it with the request id, which is also in \
             the log.",
        );

        error.0.cause = Some(cause.into());
        error
    }

    /// The body, once the request id is known.
    pub fn problem(&self, request_id: &str) -> Problem {
        Problem {
            kind: format!("urn:memoir:problem:{}", self.kind.code),
            title: self.kind.title.to_owned(),
            status: self.kind.status,
            detail: self.detail.clone(),
            code: self.kind.code.to_owned(),
            remediation: self.remediation.clone(),
            request_id: request_id.to_owned(),
            errors: self
                .errors
                .iter()
                .map(|e| ProblemField {
                    field: e.field.clone(),
                    message: e.message.clone(),
                })
                .collect(),
            context: self.context.clone(),
        }
    }
}

impl IntoResponse for ApiError {
    /// The middleware writes the body, because it knows the request id.
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        for (name, value) in &self.headers {
            response.headers_mut().append(name.clone(), value.clone());
        }

        response.extensions_mut().insert(self);
        response
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let cause = error.to_string();
        let away = |kind, detail: &str| {
            let mut error =
                Self::new(kind, detail).header(header::RETRY_AFTER, HeaderValue::from_static("2"));
            error.0.cause = Some(cause.clone());
            error
        };

        match error {
            StoreError::Unavailable { .. } | StoreError::CannotOpen { .. } => away(
                problems::DATABASE_UNAVAILABLE,
                "the database is unreachable; this request changed nothing",
            ),
            StoreError::Uncertain { .. } => away(
                problems::OUTCOME_UNKNOWN,
                "the connection to the database failed during the commit: this request may \
                 or may not have taken effect",
            ),
            StoreError::Contended { .. } => away(
                problems::DATABASE_BUSY,
                "this request kept conflicting with other work in the database; it changed \
                 nothing",
            ),
            StoreError::Full { .. } => away(
                problems::STORAGE_FULL,
                "the disk of the database is full; this request changed nothing",
            ),
            StoreError::Conflict { constraint } => Self::new(
                problems::CONFLICT,
                format!("{constraint} is already in use"),
            ),
            StoreError::NotADatabase { .. } | StoreError::Schema(_) | StoreError::Broken { .. } => {
                Self::internal(cause)
            }
        }
    }
}

impl From<JobsError> for ApiError {
    fn from(error: JobsError) -> Self {
        let detail = error.to_string();
        match error {
            JobsError::NotFound(_) => Self::not_found(detail),
            JobsError::WrongState { state, wanted } => Self::new(
                problems::WRONG_JOB_STATE,
                format!("{detail}; this operation requires {wanted}"),
            )
            .with("state", state.into_str()),
            JobsError::Erased(_) => {
                Self::new(problems::ERASED, detail).fix("Send the text again: POST /v1/ingestions.")
            }
            JobsError::QueueFull { most, added } => {
                let error = Self::new(problems::QUEUE_FULL, detail)
                    .header(header::RETRY_AFTER, HeaderValue::from_static("10"));
                if added == 1 {
                    let fix = "Wait until some jobs have finished and send the request again, or \
                               raise jobs.max_queued.";
                    error.fix(fix).with("waiting", most)
                } else {
                    let fix = "Wait until some jobs have finished and send the request again, \
                               send fewer items at once, or raise jobs.max_queued.";
                    error.fix(fix).with("max_queued", most)
                }
            }
            JobsError::Store(error) => error.into(),
        }
    }
}

impl From<LlmError> for ApiError {
    fn from(error: LlmError) -> Self {
        let mut problem = Self::new(error.kind(), error.to_string()).fix(error.remediation());
        problem.0.context = error.context();

        if let Some(wait) = error.retry_after() {
            problem = problem.header(
                header::RETRY_AFTER,
                HeaderValue::from(wait.as_secs().max(1)),
            );
        }

        match error {
            LlmError::Store(error) => error.into(),
            _ => problem,
        }
    }
}

impl From<SourceError> for ApiError {
    fn from(error: SourceError) -> Self {
        let detail = error.to_string();
        match error {
            SourceError::Invalid(errors) => Self::invalid(errors),
            SourceError::NotFound(_) | SourceError::NoVersion { .. } => Self::not_found(detail),
            SourceError::AlreadyRegistered { existing } => {
                let error = Self::new(problems::SOURCE_EXISTS, detail).fix(
                    "Use the existing source (context.source_id), or choose another path or \
                         user_id.",
                );
                match existing {
                    Some(id) => error.with("source_id", id.as_str()),
                    None => error,
                }
            }
            SourceError::Changed => Self::new(problems::PRECONDITION_FAILED, detail),
            SourceError::Store(error) => error.into(),
        }
    }
}

impl From<ErasureError> for ApiError {
    fn from(error: ErasureError) -> Self {
        let detail = error.to_string();
        match error {
            ErasureError::NotFound { .. } => Self::not_found(detail),
            ErasureError::Changed(_) => Self::new(problems::PRECONDITION_FAILED, detail),
            ErasureError::Store(error) => error.into(),
        }
    }
}

impl From<Refused> for ApiError {
    fn from(refused: Refused) -> Self {
        let mut error = Self::invalid(refused.errors);
        if refused.bad_date {
            error.0.kind = problems::INVALID_DATE;
            error = error.fix(problems::INVALID_DATE.remedy);
        }

        error
    }
}

impl From<IngestionError> for ApiError {
    fn from(error: IngestionError) -> Self {
        match error {
            IngestionError::Invalid(errors) => Self::invalid(errors),
            IngestionError::InvalidHelper(refused) => refused.into(),
            IngestionError::Model(error) => error.into(),
            IngestionError::Source(error) => error.into(),
            IngestionError::Jobs(error) => error.into(),
            IngestionError::Store(error) => error.into(),
            IngestionError::NothingToConfirm => {
                Self::new(problems::NOTHING_TO_CONFIRM, error.to_string()).fix(
                    "Send the four fields with PUT /v1/jobs/{id}/helper first and check the \
                         preview.",
                )
            }
        }
    }
}

impl From<SearchError> for ApiError {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Invalid(errors) => Self::invalid(errors),
            SearchError::Llm(error) => error.into(),
            SearchError::Store(error) => error.into(),
        }
    }
}

impl From<HelperError> for ApiError {
    fn from(error: HelperError) -> Self {
        let detail = error.to_string();
        match error {
            HelperError::Invalid(refused) => refused.into(),
            HelperError::NoSource(_) => Self::not_found(detail),
            HelperError::NotFound(_) => Self::not_found(detail)
                .fix("Ingest a text, or set a helper with PUT /v1/sources/{id}/helper."),
            HelperError::NoText(_) => Self::new(problems::NO_TEXT, detail),
            HelperError::Llm(error) => error.into(),
            HelperError::Store(error) => error.into(),
        }
    }
}
