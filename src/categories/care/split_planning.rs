//! Finds the parts into which a category is split, before any transaction is open: what is read and
//! computed here may take a second.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;

use super::free_names::FreeNames;
use super::leaf_plan::LeafToSplit;
use super::parent_plan::{ParentToSplit, sections};
use super::split::SplitPart;
use crate::base::ids::Space;
use crate::categories::{Categories, CategoryError};
use crate::model::call::CallContext;
use crate::model::category::{Category, CategoryState};
use crate::store::{ChunkScope, StoreError};

/// Maximum chunks of a leaf that are read.
const MAX_CHUNKS: usize = 5_000;
/// Characters of the text that says what a child is about.
const CHARS: i32 = 400;

/// Groups are found for one split of a space at a time, because that takes memory and time.
#[derive(Debug, Clone, Default)]
pub struct SplitTurns(Arc<Mutex<HashMap<Space, Turn>>>);

type Turn = Arc<tokio::sync::Mutex<()>>;

impl SplitTurns {
    /// Waits until no other split of a space is being planned.
    async fn take(&self, space: &Space) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(space.clone()).or_default())
        };
        turn.lock_owned().await
    }
}

impl Categories {
    /// Finds what leaves a category when it is split: nothing if a leaf is not too large and its chunks
    /// are all about the same.
    ///
    /// # Errors
    /// [`CategoryError::NotFound`], [`CategoryError::NotALeaf`] on level 1, or the store's.
    pub async fn plan_split(
        &self,
        call: &CallContext,
        id: i64,
    ) -> Result<Vec<SplitPart>, CategoryError> {
        let found = self.store.find_category(&call.space, id, None).await?;
        let category = found.ok_or(CategoryError::NotFound(id))?;
        let turn = self.split_turns.take(&call.space).await;
        if category.level == self.taxonomy.depth() {
            let leaf = self.read_leaf(call, category).await?;
            return compute(turn, move || leaf.plan()).await;
        }

        if category.level == 1 {
            let (level, depth) = (category.level, self.taxonomy.depth());
            return Err(CategoryError::NotALeaf { id, level, depth });
        }
        let parent = self.read_parent(call, category).await?;
        compute(turn, move || parent.plan()).await
    }

    async fn read_leaf(
        &self,
        call: &CallContext,
        leaf: Category,
    ) -> Result<LeafToSplit, CategoryError> {
        let scope = ChunkScope {
            latest: true,
            as_of: None,
        };
        let chunks = self.chunks(call, leaf.id, scope, None, MAX_CHUNKS).await?;
        let ids: Vec<i64> = chunks.iter().map(|chunk| chunk.id).collect();
        let movable = {
            let mut tx = self.store.begin().await?;
            tx.list_movable(&call.space, leaf.id, &ids).await?
        };

        let siblings = self.siblings(call, &leaf).await?;
        let former = self.former_names(call, &leaf).await?;
        // A leaf that is empty by now may get chunks again.
        let taken = siblings
            .iter()
            .filter(|one| one.chunk_count > 0 || one.id == leaf.id);
        Ok(LeafToSplit {
            names: FreeNames::beside(names_of(taken).chain(former.iter().map(String::as_str))),
            name: leaf.name,
            chunks,
            movable: movable.into_iter().map(|(id, _)| id).collect(),
            target: self.taxonomy.leaf_target(),
        })
    }

    async fn read_parent(
        &self,
        call: &CallContext,
        parent: Category,
    ) -> Result<ParentToSplit, CategoryError> {
        let (store, space) = (&self.store, &call.space);
        let children = store.list_children(space, &[parent.id]).await?;
        let ids: Vec<i64> = children.iter().map(|child| child.id).collect();
        let (texts, sources) = if parent.level + 1 == self.taxonomy.depth() {
            let texts = store.list_first_texts(space, &ids, CHARS).await?;
            (texts, store.list_sources_of_leaves(space, &ids).await?)
        } else {
            (Vec::new(), Vec::new())
        };

        let siblings = self.siblings(call, &parent).await?;
        let former = self.former_names(call, &parent).await?;
        let siblings = names_of(siblings.iter());
        Ok(ParentToSplit {
            names: FreeNames::beside(siblings.chain(former.iter().map(String::as_str))),
            name: parent.name,
            children,
            texts: texts.into_iter().collect(),
            sections: sections(&sources),
            target: self.taxonomy.children_target(),
        })
    }

    /// The categories with the same parent, this one included.
    async fn siblings(
        &self,
        call: &CallContext,
        category: &Category,
    ) -> Result<Vec<Category>, CategoryError> {
        let parent = category.parent_id.unwrap_or(0);
        Ok(self.store.list_children(&call.space, &[parent]).await?)
    }

    /// Former names below the same parent, under which texts are still filed elsewhere; without those
    /// that an undone split of this category left.
    async fn former_names(
        &self,
        call: &CallContext,
        category: &Category,
    ) -> Result<Vec<String>, CategoryError> {
        let parent = category.parent_id.unwrap_or(0);
        let parents = [parent];
        let aliases = self.store.list_aliases_below(&call.space, &parents);
        let aliases = aliases.await?;
        let ids: BTreeSet<i64> = aliases.iter().map(|(_, id)| *id).collect();
        let ids: Vec<i64> = ids.into_iter().collect();
        let states = {
            let mut tx = self.store.begin().await?;
            tx.list_states(&call.space, &ids).await?
        };

        let leads_elsewhere = |id: i64| {
            let successor = states.get(&id).and_then(CategoryState::successor);
            successor != Some(category.id)
        };
        let names = aliases.into_iter().filter(|(_, id)| leads_elsewhere(*id));
        Ok(names.map(|((_, key), _)| key).collect())
    }
}

fn names_of<'c>(categories: impl Iterator<Item = &'c Category>) -> impl Iterator<Item = &'c str> {
    categories.map(|one| one.name.as_str())
}

async fn compute(
    turn: OwnedMutexGuard<()>,
    plan: impl FnOnce() -> Vec<SplitPart> + Send + 'static,
) -> Result<Vec<SplitPart>, CategoryError> {
    #[expect(
        clippy::disallowed_methods,
        reason = "computes for a second at most, and changes nothing"
    )]
    let planned = tokio::task::spawn_blocking(move || {
        // Until it ends, also if the request is given up.
        let _turn = turn;
        plan()
    });
    let parts = planned.await.map_err(|error| StoreError::Broken {
        cause: format!("cannot plan a split: {error}"),
    })?;
    Ok(parts)
}
