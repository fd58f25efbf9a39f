//! Problem documents for failed queries, with everything that was done for them.

use super::ApiError;
use crate::queries::{Failed, QueryError};

impl From<Failed> for ApiError {
    fn from(failed: Failed) -> Self {
        let context = failed.context();

        let mut error = match failed.error {
            QueryError::Invalid(errors) => return Self::invalid(errors),
            QueryError::Store(error) => return error.into(),
            QueryError::Llm(error) => Self::from(error),
            error => Self::new(error.kind(), error.to_string()).fix(error.remediation()),
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
