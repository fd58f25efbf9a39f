//! Undoes a change, if what it altered is still as it left it. Chunks that a second look has filed
//! elsewhere since stay there; later changes that moved the same chunks are undone first.

use super::{Care, CareOutcome, CategoryEffect};
use crate::categories::CategoryError;
use crate::model::category::{CategoryPosition, CategoryState, ChangeKind, NamedBy, StoredChange};

/// # Errors
/// [`CategoryError::NoChange`], [`CategoryError::UndoneBefore`], [`CategoryError::Conflicts`], or the
/// store's.
pub(super) async fn undo(care: &mut Care<'_>, id: i64) -> Result<CareOutcome, CategoryError> {
    let space = &care.call.space;
    let found = care.tx.find_category_change(space, id).await?;
    let change = found.ok_or(CategoryError::NoChange(id))?;
    if change.undone_at.is_some() {
        return Err(CategoryError::UndoneBefore(id));
    }

    let mut effects = Vec::new();
    if change.kind == ChangeKind::Rename.into_str() {
        effects.push(take_back_name(care, &change).await?);
    }

    let ids: Vec<i64> = change.after.states.iter().map(|after| after.id).collect();
    let present = care.tx.list_states(space, &ids).await?;
    let pairs = change.before.states.iter().zip(&change.after.states);
    for (before, after) in pairs.rev() {
        // What only a deleted source had filled is gone; the others can still be put back.
        if after.id == change.category_id || present.contains_key(&after.id) {
            effects.push(take_back(care, id, before, after).await?);
        }
    }

    let chunks = return_chunks(care, &change).await?;
    care.tx.mark_undone(space, id, care.call.now).await?;
    Ok(CareOutcome {
        dry_run: false,
        change: care.tx.find_listed_change(space, id).await?,
        chunks_moved: chunks,
        categories: effects,
    })
}

async fn take_back_name(
    care: &mut Care<'_>,
    change: &StoredChange,
) -> Result<CategoryEffect, CategoryError> {
    let present = unchanged(care, change.id, change.category_id, |state| {
        change.after.name.as_ref() == Some(&state.name) && !state.is_closed
    })
    .await?;

    let former = CategoryState {
        name: change.before.name.clone().unwrap_or_default(),
        // No model changes what a user has decided, and a model's name that a user takes back is such a
        // decision. Changes of earlier builds do not tell who had named it.
        named_by: match (change.before.named_by, change.after.named_by) {
            (Some(former), Some(NamedBy::User)) => former,
            _ => NamedBy::User,
        },
        ..present.clone()
    };
    put_back(care, change.id, &present, &former).await?;
    Ok(effect(&former, "renamed"))
}

/// Puts a category back where it was.
async fn take_back(
    care: &mut Care<'_>,
    id: i64,
    before: &CategoryPosition,
    after: &CategoryPosition,
) -> Result<CategoryEffect, CategoryError> {
    let present = unchanged(care, id, after.id, |state| {
        CategoryPosition::from(state) == *after
    })
    .await?;
    let former = CategoryState {
        parent_id: before.parent_id,
        is_closed: before.is_closed,
        merged_into: before.merged_into,
        ..present.clone()
    };

    put_back(care, id, &present, &former).await?;
    if present.parent_id != former.parent_id {
        let count = present.chunk_count;
        let counts = [(present.parent_id, -count), (former.parent_id, count)];
        let space = &care.call.space;
        care.tx.add_chunk_counts(space, &counts.into()).await?;
    }

    let done = match (present.is_closed, former.is_closed) {
        (true, _) => "reopened",
        (false, true) => "removed",
        (false, false) => "moved",
    };
    Ok(effect(&former, done))
}

/// A category that a change altered, if it is still so.
async fn unchanged(
    care: &mut Care<'_>,
    change: i64,
    id: i64,
    is_so: impl Fn(&CategoryState) -> bool,
) -> Result<CategoryState, CategoryError> {
    let present = care.tx.find_state(&care.call.space, id).await?;
    let Some(present) = present else {
        let cause = format!("category {id} was deleted since");
        return Err(conflict(change, &cause));
    };
    if !is_so(&present) {
        let cause = format!("category {id} was changed again since");
        return Err(conflict(change, &cause));
    }

    Ok(present)
}

/// Changes a category back, if its former parent and its former name allow it.
async fn put_back(
    care: &mut Care<'_>,
    change: i64,
    present: &CategoryState,
    former: &CategoryState,
) -> Result<(), CategoryError> {
    let space = &care.call.space;
    if former.parent_id != 0 {
        let parent = care.tx.find_state(space, former.parent_id).await?;
        if parent.is_none_or(|parent| parent.is_closed) {
            let cause = format!("its former parent, category {}, is gone", former.parent_id);
            return Err(conflict(change, &cause));
        }
    }

    // What the change had created closes again in favour of a category that may be closed by now, even
    // in favour of this one.
    if former.is_closed {
        let heir = former.merged_into.unwrap_or(0);
        let found = care.tx.find_state(space, heir).await?;
        if found.is_none_or(|heir| heir.is_closed) {
            let cause = format!(
                "category {heir}, which takes the place of category {}, is gone",
                former.id
            );
            return Err(conflict(change, &cause));
        }
    }

    if former.is_closed && !care.tx.list_children(space, &[former.id]).await?.is_empty() {
        let cause = format!("category {} has other children since", former.id);
        return Err(conflict(change, &cause));
    }

    let slot = (former.parent_id, former.name.as_str());
    if let Some(other) = care.tx.find_namesake(space, slot, former.id).await? {
        let cause = format!(
            "category {other} has the name that category {} had",
            former.id
        );
        return Err(conflict(change, &cause));
    }

    let now = care.call.now;
    if former.is_closed {
        care.tx.close_again(space, present, former, now).await?;
    } else {
        care.tx.change_state(space, present, former, now).await?;
    }
    Ok(())
}

/// Returns the chunks that are still where the change put them.
async fn return_chunks(care: &mut Care<'_>, change: &StoredChange) -> Result<i64, CategoryError> {
    let (space, now) = (&care.call.space, care.call.now);
    if let Some(later) = care.tx.find_later_move(space, change.id).await? {
        let cause = format!("change {later} moved the same chunks later; undo that first");
        return Err(conflict(change.id, &cause));
    }

    if let Some(chunk) = change.chunk_id
        && let Some(newer) = care.tx.find_newer_pinned(space, chunk).await?
    {
        let cause = format!(
            "chunk {newer} of a later version has the same text and was filed there as well; move that chunk instead"
        );
        return Err(conflict(change.id, &cause));
    }

    let returned = care.tx.return_chunks(space, change.id, now).await?;
    if let (Some(chunk), 0) = (change.chunk_id, returned.count) {
        let cause = format!("chunk {chunk} was moved again or deleted since");
        return Err(conflict(change.id, &cause));
    }

    let states = care.tx.list_states(space, &returned.leaves).await?;
    if let Some(closed) = states.values().find(|state| state.is_closed) {
        let cause = format!("category {}, where chunks were, is gone", closed.id);
        return Err(conflict(change.id, &cause));
    }

    // A leaf that the change had created is closed again.
    for closed in change.before.states.iter().filter(|state| state.is_closed) {
        if care.tx.has_chunks_in(space, &[closed.id]).await? {
            let cause = format!("other chunks were filed in category {} since", closed.id);
            return Err(conflict(change.id, &cause));
        }
    }

    care.tx.add_chunk_counts(space, &returned.counts).await?;
    Ok(returned.count)
}

fn effect(state: &CategoryState, done: &str) -> CategoryEffect {
    CategoryEffect {
        id: Some(state.id),
        name: state.name.clone(),
        effect: done.to_owned(),
        into_id: Some(state.parent_id).filter(|id| *id != 0),
    }
}

fn conflict(change: i64, cause: &str) -> CategoryError {
    CategoryError::Conflicts(format!("change {change} cannot be undone: {cause}"))
}
