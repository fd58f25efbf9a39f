//! Splits a leaf that has become too large into siblings, or a parent with too many children. What is
//! about the same goes together, and the largest group stays with the name. Chunks that a person has
//! placed stay, and so do those of earlier versions.
//!
//! The parts are found before the transaction (`split_planning`); a chunk or child that has moved or
//! gone meanwhile is left out.

use std::collections::HashSet;

use memoir_text::text::name_key;

use super::change::Change;
use super::{Care, CareOutcome};
use crate::categories::CategoryError;
use crate::config::taxonomy::LimitScope;
use crate::model::category::{CategoryState, ChangeKind, NamedBy, NewCategory, NewChange};

/// What gets a category of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitPart {
    pub(super) name: String,
    /// Chunks of a leaf, or children of another category.
    pub(super) members: Vec<i64>,
}

/// # Errors
/// [`CategoryError::NotFound`], [`CategoryError::Full`], or the store's.
pub(super) async fn split(
    care: &mut Care<'_>,
    id: i64,
    parts: &[SplitPart],
) -> Result<CareOutcome, CategoryError> {
    let category = care.find(id).await?;
    if parts.is_empty() {
        return Ok(CareOutcome::default());
    }

    let space = &care.call.space;
    let siblings = care.tx.list_children(space, &[category.parent_id]).await?;
    let taken: HashSet<String> = siblings.iter().map(|one| name_key(&one.name)).collect();
    // A part takes an empty leaf of its name, or is left out.
    let new_parts = parts
        .iter()
        .filter(|part| !taken.contains(&name_key(&part.name)))
        .count();
    if new_parts > 0 {
        check_level(care, category.level, new_parts).await?;
    }

    let new = NewChange {
        from_id: Some(id),
        ..NewChange::of(ChangeKind::Split, id, care.actor)
    };
    let mut change = Change::begin(care, &new).await?;
    if new_parts > 0 {
        change.check_room(category.level, siblings.len() + new_parts)?;
    }

    let mut moved = false;
    for part in parts {
        moved |= move_part(&mut change, &category, part).await?;
    }

    // All of them have moved or gone meanwhile.
    if !moved {
        return Ok(CareOutcome::default());
    }

    change.end().await
}

/// Returns whether anything is left to move.
async fn move_part(
    change: &mut Change<'_, '_>,
    from: &CategoryState,
    part: &SplitPart,
) -> Result<bool, CategoryError> {
    if from.level == change.care.taxonomy.depth() {
        return move_chunks(change, from, part).await;
    }

    let space = &change.care.call.space;
    let children = change.care.tx.list_child_states(space, from.id).await?;
    let children = children.iter();
    let children: Vec<&CategoryState> = children
        .filter(|child| part.members.contains(&child.id))
        .collect();
    if children.is_empty() || namesake(change, from, part).await?.is_some() {
        return Ok(false);
    }

    let made = create(change, from, part).await?;
    for child in children {
        change.move_below(child, made).await?;
    }
    Ok(true)
}

async fn move_chunks(
    change: &mut Change<'_, '_>,
    leaf: &CategoryState,
    part: &SplitPart,
) -> Result<bool, CategoryError> {
    let space = &change.care.call.space;
    let tx = &mut *change.care.tx;
    let chunks = tx.list_movable(space, leaf.id, &part.members).await?;
    if chunks.is_empty() {
        return Ok(false);
    }

    // An earlier version of the text may have left a leaf of this name empty.
    let to = match namesake(change, leaf, part).await? {
        None => create(change, leaf, part).await?,
        Some(id) if change.care.find(id).await?.chunk_count == 0 => id,
        Some(_) => return Ok(false),
    };
    change.move_some(&chunks, (leaf.id, to)).await?;
    Ok(true)
}

/// The sibling that has the name of a part.
async fn namesake(
    change: &mut Change<'_, '_>,
    from: &CategoryState,
    part: &SplitPart,
) -> Result<Option<i64>, CategoryError> {
    let space = &change.care.call.space;
    let slot = (from.parent_id, part.name.as_str());
    let tx = &mut *change.care.tx;
    // Its own name is taken as well.
    Ok(tx.find_namesake(space, slot, 0).await?)
}

/// A category for a part, beside the one that is split.
async fn create(
    change: &mut Change<'_, '_>,
    from: &CategoryState,
    part: &SplitPart,
) -> Result<i64, CategoryError> {
    let new = NewCategory {
        parent_id: Some(from.parent_id).filter(|id| *id != 0),
        level: from.level,
        name: part.name.clone(),
        name_key: name_key(&part.name),
        named_by: NamedBy::Embedded,
    };
    change.create(&new, from.id).await
}

/// With limits per level, the level must have room.
async fn check_level(care: &mut Care<'_>, level: i64, new: usize) -> Result<(), CategoryError> {
    let (scope, limit) = (care.taxonomy.scope(), care.taxonomy.limit(level));
    if scope == LimitScope::Parent {
        return Ok(());
    }

    let counts = care.tx.count_categories(&care.call.space).await?;
    let all = counts.get(&level).copied().unwrap_or(0);
    if all + i64::try_from(new).unwrap_or(i64::MAX) > limit {
        return Err(CategoryError::Full {
            scope,
            level,
            limit,
        });
    }

    Ok(())
}
