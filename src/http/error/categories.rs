//! Problem documents for categories.

use axum::http::StatusCode;

use super::ApiError;
use crate::categories::CategoryError;

impl From<CategoryError> for ApiError {
    fn from(error: CategoryError) -> Self {
        let detail = error.to_string();
        let told = |status, code, title, fix: &str| {
            Self::new(status, code, title, detail.as_str()).fix(fix)
        };
        let refused =
            |code, title, fix: &str| told(StatusCode::UNPROCESSABLE_ENTITY, code, title, fix);
        let conflict = |code, title, fix: &str| told(StatusCode::CONFLICT, code, title, fix);

        match error {
            CategoryError::Invalid(errors) => Self::invalid(errors),
            CategoryError::NotFound(_) => Self::not_found(detail),
            CategoryError::TooDeep { depth } => refused(
                "max_depth",
                "Maximum depth reached",
                "Choose a parent on a higher level.",
            )
            .with("depth", depth),
            CategoryError::Exists { existing } => {
                let fix =
                    "Use the existing category (context.category_id), or choose another name.";
                conflict("category_exists", "Category already exists", fix)
                    .with("category_id", existing)
            }
            CategoryError::Full { level, limit } => {
                let fix = "Use an existing category, or raise taxonomy.max_categories_default or the limit of this level.";
                refused("category_limit", "Category limit reached", fix)
                    .with("level", level)
                    .with("limit", limit)
            }
            CategoryError::NotEmpty(_) => {
                let fix = "Delete the sources whose chunks are filed there, or keep the category.";
                conflict("category_not_empty", "Category not empty", fix)
            }
            CategoryError::NotALeaf { level, depth, .. } => {
                let fix = "List the children (GET /v1/categories?parent_id=…) down to a leaf.";
                refused("not_a_leaf", "Not a leaf", fix)
                    .with("level", level)
                    .with("depth", depth)
            }
            CategoryError::Store(error) => error.into(),
        }
    }
}
