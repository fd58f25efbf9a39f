//! Files a chunk in another leaf, where it stays: no second look moves it, and when its source is
//! ingested again, a chunk with the same text is filed there.

use memoir_text::field_error::FieldError;

use super::change::Change;
use super::{Care, CareOutcome};
use crate::categories::CategoryError;
use crate::model::category::{ChangeKind, NewChange};

/// # Errors
/// [`CategoryError::NoChunk`], [`CategoryError::NotALeaf`], [`CategoryError::Invalid`], or the store's.
pub(super) async fn move_chunk(
    care: &mut Care<'_>,
    id: i64,
    leaf: i64,
) -> Result<CareOutcome, CategoryError> {
    let space = &care.call.space;
    let chunk = care.tx.find_filed_chunk(space, id).await?;
    let (from, is_current) = chunk.ok_or(CategoryError::NoChunk(id))?;
    if from == 0 {
        let rule = "the chunk was cut for searching and is not filed; move the chunk of the profile taxonomy";
        return Err(CategoryError::Invalid(vec![FieldError::new(
            "category_id",
            rule,
        )]));
    }

    let to = care.find_named("category_id", leaf).await?;
    let depth = care.taxonomy.depth();
    if to.level != depth {
        return Err(CategoryError::NotALeaf {
            id: leaf,
            level: to.level,
            depth,
        });
    }

    if from == leaf && care.tx.is_pinned(space, id).await? {
        return Ok(CareOutcome::default());
    }

    let new = NewChange {
        from_id: Some(from),
        to_id: Some(leaf),
        chunk_id: Some(id),
        ..NewChange::of(ChangeKind::MoveChunk, leaf, care.actor)
    };
    let mut change = Change::begin(care, &new).await?;
    change.move_chunk(id, (from, leaf), is_current).await?;
    change.end().await
}
