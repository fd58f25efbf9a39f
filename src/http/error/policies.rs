//! Problem documents for policies.

use super::ApiError;
use crate::base::problems;
use crate::memory_retrieval::PolicyError;

impl From<PolicyError> for ApiError {
    fn from(error: PolicyError) -> Self {
        let detail = error.to_string();
        match error {
            PolicyError::NotFound(_) => Self::not_found(detail).fix(
                "List the policies with GET /v1/policies, and their versions with GET /v1/policies/{name}/versions.",
            ),
            PolicyError::Invalid(errors) => Self::invalid(errors),
            PolicyError::Changed => Self::new(problems::PRECONDITION_FAILED, detail)
                .fix("Read the settings again, and repeat the change with their ETag."),
            PolicyError::Store(error) => error.into(),
        }
    }
}
