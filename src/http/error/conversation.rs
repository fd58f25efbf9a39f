//! Errors of conversations.

use super::ApiError;
use crate::base::problems;
use crate::conversation::ConversationError;

impl From<ConversationError> for ApiError {
    fn from(error: ConversationError) -> Self {
        let detail = error.to_string();
        match error {
            ConversationError::Invalid(errors) => Self::invalid(errors),
            ConversationError::NotFound { .. } => Self::not_found(detail)
                .fix("Check the id, the user_id, and that the header X-Memoir-Space names the right space."),
            ConversationError::ThreadExists(_) | ConversationError::VocabularyConflict(_) => {
                Self::new(problems::CONFLICT, detail)
            }
            ConversationError::Superseded { by, .. } => Self::new(problems::MEMORY_SUPERSEDED, detail)
                .with("superseded_by", by),
            ConversationError::Erased => Self::new(problems::ERASED, detail)
                .fix("Repeat the request: the messages that are left are summarised."),
            ConversationError::Changed(what) => Self::new(problems::PRECONDITION_FAILED, detail)
                .fix(format!("Get the {what} again and repeat the change with its new ETag.")),
            ConversationError::Jobs(error) => error.into(),
            ConversationError::Llm(error) => error.into(),
            ConversationError::Search(error) => error.into(),
            ConversationError::Store(error) => error.into(),
        }
    }
}
