//! Problem documents for document retrieval.

use axum::http::StatusCode;

use super::ApiError;
use crate::sources::retrieval::RetrievalError;

impl From<RetrievalError> for ApiError {
    fn from(error: RetrievalError) -> Self {
        let detail = error.to_string();
        match error {
            RetrievalError::Invalid(errors) => Self::invalid(errors),
            RetrievalError::NotFound { filter } => {
                let problem = Self::new(
                    StatusCode::NOT_FOUND,
                    "document_not_found",
                    "Source not found",
                    detail,
                );
                match filter {
                    Some(filter) => problem
                        .fix(
                            "Use fewer filters, or omit strict: the response then lists the \
                             ignored filters in relaxed.",
                        )
                        .with("filter", filter),
                    None => problem.fix(
                        "Check user_id and the header X-Memoir-Space, ingest the source \
                         (POST /v1/ingestions), or make it eligible (PATCH \
                         /v1/sources/{id}).",
                    ),
                }
            }
            RetrievalError::NoSource(_) | RetrievalError::NoVersion { .. } => {
                Self::not_found(detail)
            }
            RetrievalError::ContentMissing { .. } => {
                let mut problem = Self::internal(detail.clone());
                (problem.0.code, problem.0.title) =
                    ("document_content_missing", "Source content missing");
                problem.0.detail = detail;
                problem.fix(
                    "Ingest its text again: POST /v1/ingestions with the path or the \
                         source_id.",
                )
            }
            RetrievalError::Store(error) => error.into(),
        }
    }
}
