//! Merges a category into another of the same level, which takes its place.

use memoir_text::field_error::FieldError;

use super::change::Change;
use super::{Care, CareOutcome};
use crate::categories::CategoryError;
use crate::model::category::{CategoryState, ChangeKind, NamedBy, NewChange};

/// # Errors
/// [`CategoryError::NotFound`], [`CategoryError::Invalid`], [`CategoryError::Full`], or the store's.
pub(super) async fn merge(
    care: &mut Care<'_>,
    id: i64,
    into: i64,
) -> Result<CareOutcome, CategoryError> {
    close_into(care, ChangeKind::Merge, id, into).await
}

/// Merges a category as a change of this kind.
pub(super) async fn close_into(
    care: &mut Care<'_>,
    kind: ChangeKind,
    id: i64,
    into: i64,
) -> Result<CareOutcome, CategoryError> {
    let (from, to) = (care.find(id).await?, care.find_named("into", into).await?);
    if from.level != to.level {
        let rule = format!(
            "category {into} is on level {}, but must be on level {} as category {id}",
            to.level, from.level
        );
        return Err(CategoryError::Invalid(vec![FieldError::new("into", rule)]));
    }

    if id == into {
        let rule = "must be another category than the one that is closed";
        return Err(CategoryError::Invalid(vec![FieldError::new("into", rule)]));
    }

    let new = NewChange {
        from_id: Some(id),
        to_id: Some(into),
        ..NewChange::of(kind, id, care.actor)
    };
    let mut change = Change::begin(care, &new).await?;
    absorb(&mut change, from, to).await?;
    change.end().await
}

/// Empties and closes a category. Children with the name of a child of the other one are merged as well.
async fn absorb(
    change: &mut Change<'_, '_>,
    from: CategoryState,
    to: CategoryState,
) -> Result<(), CategoryError> {
    let mut waiting = vec![(from, to)];
    let mut emptied = Vec::new();
    while let Some((from, to)) = waiting.pop() {
        if from.level == change.care.taxonomy.depth() {
            check_size(change, &from, &to)?;
            change.move_chunks(&from, to.id).await?;
        } else {
            waiting.extend(move_children(change, &from, &to).await?);
        }

        emptied.push((from, to));
    }

    for (from, to) in emptied.iter().rev() {
        change.close(from, Some(to.id)).await?;
    }

    Ok(())
}

/// Only a person makes a leaf of two that the balance would split again.
fn check_size(
    change: &Change<'_, '_>,
    from: &CategoryState,
    to: &CategoryState,
) -> Result<(), CategoryError> {
    let most = change.care.taxonomy.max_leaf();
    let is_small = from.chunk_count == 0 || to.chunk_count == 0;
    if is_small
        || change.care.actor.by == NamedBy::User
        || from.chunk_count.saturating_add(to.chunk_count) <= most
    {
        return Ok(());
    }

    let rule = format!(
        "categories {} and {} together have more than {most} chunks",
        from.id, to.id
    );
    Err(CategoryError::Invalid(vec![FieldError::new("into", rule)]))
}

/// Moves the children whose names are free there; returns the others with their namesakes.
async fn move_children(
    change: &mut Change<'_, '_>,
    from: &CategoryState,
    to: &CategoryState,
) -> Result<Vec<(CategoryState, CategoryState)>, CategoryError> {
    let space = &change.care.call.space;
    let children = change.care.tx.list_child_states(space, from.id).await?;
    let mut there = change.care.tx.list_children(space, &[to.id]).await?.len();
    let mut namesakes = Vec::new();
    for child in children {
        let slot = (to.id, child.name.as_str());
        let namesake = change.care.tx.find_namesake(space, slot, child.id).await?;
        if let Some(namesake) = namesake {
            namesakes.push((child, change.care.find(namesake).await?));
            continue;
        }

        there += 1;
        change.check_room(child.level, there)?;
        change.move_below(&child, to.id).await?;
    }

    Ok(namesakes)
}
