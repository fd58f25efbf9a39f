//! What is said when a document cannot be given.

use axum::http::StatusCode;

use super::ApiError;
use crate::documents::DocumentError;

impl From<DocumentError> for ApiError {
    fn from(error: DocumentError) -> Self {
        let detail = error.to_string();
        match error {
            DocumentError::Invalid(errors) => Self::invalid(errors),
            DocumentError::NotFound { filter } => {
                let problem = Self::new(
                    StatusCode::NOT_FOUND,
                    "document_not_found",
                    "Document not found",
                    detail,
                );
                match filter {
                    Some(filter) => problem
                        .fix("Say less of the document, or leave out strict: then the answer tells what was relaxed.")
                        .with("filter", filter),
                    None => problem.fix(
                        "Check user_id and the header X-Memoir-Space, bring the document in (POST /v1/ingestions), or make \
                         it eligible (PATCH /v1/sources/{id}).",
                    ),
                }
            }
            DocumentError::NoSource(_) | DocumentError::NoVersion { .. } => Self::not_found(detail),
            DocumentError::ContentMissing { .. } => {
                let mut problem = Self::internal(detail.clone());
                (problem.0.code, problem.0.title) =
                    ("document_content_missing", "Document content missing");
                problem.0.detail = detail;
                problem
                    .fix("Bring its text in again: POST /v1/ingestions with its path or source_id.")
            }
            DocumentError::Store(error) => error.into(),
        }
    }
}
