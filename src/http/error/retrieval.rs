//! Problem documents for document retrieval.

use super::ApiError;
use crate::base::problems;
use crate::sources::retrieval::RetrievalError;

impl From<RetrievalError> for ApiError {
    fn from(error: RetrievalError) -> Self {
        let detail = error.to_string();
        match error {
            RetrievalError::Invalid(errors) => Self::invalid(errors),
            RetrievalError::NotFound { filter } => {
                let problem = Self::new(problems::DOCUMENT_NOT_FOUND, detail);
                match filter {
                    Some(filter) => problem
                        .fix(
                            "Use fewer filters, or omit strict: the response then lists the \
                             ignored filters in relaxed.",
                        )
                        .with("filter", filter),
                    None => problem,
                }
            }
            RetrievalError::NoSource(_) | RetrievalError::NoVersion { .. } => {
                Self::not_found(detail)
            }
            RetrievalError::ContentMissing { .. } => {
                let mut problem = Self::internal(detail.clone());
                problem.0.kind = problems::DOCUMENT_CONTENT_MISSING;
                problem.0.detail = detail;
                problem.fix(problems::DOCUMENT_CONTENT_MISSING.remedy)
            }
            RetrievalError::Store(error) => error.into(),
        }
    }
}
