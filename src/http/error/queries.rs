//! Problem documents for failed queries, with everything that was done for them.

use axum::http::StatusCode;

use super::ApiError;
use crate::queries::{Failed, QueryError};

impl From<Failed> for ApiError {
    fn from(failed: Failed) -> Self {
        let (code, status, title) = failed.error.kind();
        let context = failed.context();
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);

        let mut error = match failed.error {
            QueryError::Invalid(errors) => return Self::invalid(errors),
            QueryError::Store(error) => return error.into(),
            QueryError::Llm(error) => Self::from(error),
            error => Self::new(status, code, title, error.to_string()).fix(error.remediation()),
        };

        error.0.context = context;
        error
    }
}

impl From<QueryError> for ApiError {
    fn from(error: QueryError) -> Self {
        Failed::from(error).into()
    }
}
