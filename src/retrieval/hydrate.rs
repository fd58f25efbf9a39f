//! From numbers to texts.

use std::collections::HashMap;

use super::Item;
use crate::base::ids::Space;
use crate::model::chunk::SourceChunk;
use crate::model::memory::Memory;
use crate::model::scope::QueryScope;
use crate::store::{Store, StoreError};

/// A text that is stored under a number.
pub trait Stored: Sized {
    fn number(&self) -> i64;

    /// Reads texts in any order; deleted ones are missing.
    fn read(
        store: &Store,
        space: &Space,
        numbers: &[i64],
        scope: Option<&QueryScope>,
    ) -> impl Future<Output = Result<Vec<Self>, StoreError>> + Send;
}

impl Stored for SourceChunk {
    fn number(&self) -> i64 {
        self.id
    }

    async fn read(
        store: &Store,
        space: &Space,
        numbers: &[i64],
        scope: Option<&QueryScope>,
    ) -> Result<Vec<Self>, StoreError> {
        store.list_source_chunks(space, numbers, scope).await
    }
}

impl Stored for Memory {
    fn number(&self) -> i64 {
        self.seq
    }

    /// A scope of sources says nothing about memories.
    async fn read(
        store: &Store,
        space: &Space,
        numbers: &[i64],
        _scope: Option<&QueryScope>,
    ) -> Result<Vec<Self>, StoreError> {
        store.list_memories_at(space, numbers).await
    }
}

/// Reads what a finder returned, in its order, without what was deleted meanwhile; with a scope,
/// without chunks outside of it.
///
/// # Errors
/// The store's.
pub async fn hydrate<T: Stored, S>(
    store: &Store,
    space: &Space,
    scope: Option<&QueryScope>,
    found: Vec<(i64, S)>,
) -> Result<Vec<Item<T, S>>, StoreError> {
    let numbers: Vec<i64> = found.iter().map(|(number, _)| *number).collect();
    let texts = T::read(store, space, &numbers, scope).await?;
    let mut texts: HashMap<i64, T> = texts.into_iter().map(|one| (one.number(), one)).collect();
    let items = found
        .into_iter()
        .filter_map(|(number, scores)| Some(Item::new(texts.remove(&number)?, scores)));

    Ok(items.collect())
}
