//! Removes a category: what is below it goes to another one, or there is nothing.

use super::change::Change;
use super::merge::close_into;
use super::{Care, CareOutcome};
use crate::categories::CategoryError;
use crate::model::category::{CategoryState, ChangeKind, NewChange};

/// # Errors
/// [`CategoryError::NotFound`], [`CategoryError::NotEmpty`], those of a merge, or the store's.
pub(super) async fn remove(
    care: &mut Care<'_>,
    id: i64,
    into: Option<i64>,
) -> Result<CareOutcome, CategoryError> {
    if let Some(into) = into {
        return close_into(care, ChangeKind::Remove, id, into).await;
    }

    let levels = list_below(care, id).await?;
    for level in &levels {
        let ids: Vec<i64> = level.iter().map(|state| state.id).collect();
        if care.tx.has_chunks_in(&care.call.space, &ids).await? {
            return Err(CategoryError::NotEmpty(id));
        }
    }

    let new = NewChange {
        from_id: Some(id),
        ..NewChange::of(ChangeKind::Remove, id, care.actor)
    };
    let mut change = Change::begin(care, &new).await?;
    for category in levels.iter().rev().flatten() {
        change.close(category, None).await?;
    }

    change.end().await
}

/// A category and all below it, level by level.
async fn list_below(
    care: &mut Care<'_>,
    id: i64,
) -> Result<Vec<Vec<CategoryState>>, CategoryError> {
    let mut levels = vec![vec![care.find(id).await?]];
    while let Some(last) = levels.last() {
        let ids: Vec<i64> = last.iter().map(|state| state.id).collect();
        let space = &care.call.space;
        let below = care.tx.list_children(space, &ids).await?;
        if below.is_empty() {
            break;
        }

        let ids: Vec<i64> = below.iter().map(|child| child.id).collect();
        let mut states = care.tx.list_states(space, &ids).await?;
        levels.push(ids.iter().filter_map(|id| states.remove(id)).collect());
    }

    Ok(levels)
}
