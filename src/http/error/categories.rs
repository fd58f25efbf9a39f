//! Problem documents for categories.

use super::ApiError;
use crate::base::problems;
use crate::categories::CategoryError;

impl From<CategoryError> for ApiError {
    fn from(error: CategoryError) -> Self {
        let detail = error.to_string();
        let told = |kind| Self::new(kind, detail.as_str());
        match error {
            CategoryError::Invalid(errors) => Self::invalid(errors),
            CategoryError::NotFound(_) | CategoryError::NoChunk(_) | CategoryError::NoChange(_) => {
                Self::not_found(detail)
            }
            CategoryError::UndoneBefore(_) => told(problems::CHANGE_CONFLICTS)
                .fix("Nothing is left to undo. The list of changes shows when it was undone (GET /v1/categories/changes)."),
            CategoryError::Conflicts(_) => told(problems::CHANGE_CONFLICTS),
            CategoryError::TooDeep { depth } => told(problems::MAX_DEPTH).with("depth", depth),
            CategoryError::Exists { existing } => {
                told(problems::CATEGORY_EXISTS).with("category_id", existing)
            }
            CategoryError::Full { level, limit, .. } => told(problems::CATEGORY_LIMIT)
                .with("level", level)
                .with("limit", limit),
            CategoryError::NotEmpty(_) => told(problems::CATEGORY_NOT_EMPTY),
            CategoryError::NotALeaf { level, depth, .. } => told(problems::NOT_A_LEAF)
                .with("level", level)
                .with("depth", depth),
            CategoryError::Store(error) => error.into(),
        }
    }
}
