//! Puts a category with everything below it under another parent.

use memoir_text::field_error::FieldError;

use super::change::Change;
use super::{Care, CareOutcome};
use crate::categories::CategoryError;
use crate::model::category::{ChangeKind, NewChange};

/// # Errors
/// [`CategoryError::NotFound`], [`CategoryError::Invalid`], [`CategoryError::Exists`],
/// [`CategoryError::Full`], or the store's.
pub(super) async fn move_category(
    care: &mut Care<'_>,
    id: i64,
    parent_id: i64,
) -> Result<CareOutcome, CategoryError> {
    let category = care.find(id).await?;
    let parent = care.find_named("parent_id", parent_id).await?;
    let invalid = |rule: String| {
        Err(CategoryError::Invalid(vec![FieldError::new(
            "parent_id",
            rule,
        )]))
    };
    if category.level == 1 {
        return invalid(format!(
            "category {id} is on level 1, where categories have no parent; merge it instead"
        ));
    }

    if parent.level != category.level - 1 {
        return invalid(format!(
            "category {parent_id} is on level {}, but must be on level {}: a category keeps its level",
            parent.level,
            category.level - 1
        ));
    }

    if parent.id == category.parent_id {
        return invalid(format!("category {parent_id} is its parent already"));
    }

    let space = &care.call.space;
    let slot = (parent_id, category.name.as_str());
    if let Some(existing) = care.tx.find_namesake(space, slot, id).await? {
        return Err(CategoryError::Exists { existing });
    }

    let siblings = care.tx.list_children(space, &[parent_id]).await?.len();
    let new = NewChange {
        from_id: Some(category.parent_id),
        to_id: Some(parent_id),
        ..NewChange::of(ChangeKind::Move, id, care.actor)
    };
    let mut change = Change::begin(care, &new).await?;
    change.check_room(category.level, siblings + 1)?;
    change.move_below(&category, parent_id).await?;
    change.end().await
}
