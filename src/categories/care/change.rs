//! A change under way: it alters categories and moves chunks, and stores what undoes it.

use std::collections::BTreeMap;

use super::{Care, CareOutcome, CategoryEffect};
use crate::categories::CategoryError;
use crate::config::taxonomy::LimitScope;
use crate::model::category::{CategoryPosition, CategoryState, ChangeSide, NewCategory, NewChange};
use crate::store::{ChunkSet, NewPlacement};

/// Chunks per statement.
const AT_ONCE: usize = 500;

pub(super) struct Change<'a, 'c> {
    pub care: &'a mut Care<'c>,
    id: i64,
    before: ChangeSide,
    after: ChangeSide,
    effects: Vec<CategoryEffect>,
    chunks: i64,
}

impl<'a, 'c> Change<'a, 'c> {
    pub async fn begin(care: &'a mut Care<'c>, new: &NewChange<'_>) -> Result<Self, CategoryError> {
        let call = care.call;
        let added = care.tx.add_category_change(&call.space, new, call.now);

        Ok(Self {
            id: added.await?,
            care,
            before: ChangeSide::default(),
            after: ChangeSide::default(),
            effects: Vec::new(),
            chunks: 0,
        })
    }

    /// Puts a category below another parent, where its name must be free.
    pub async fn move_below(
        &mut self,
        category: &CategoryState,
        parent_id: i64,
    ) -> Result<(), CategoryError> {
        let moved = CategoryState {
            parent_id,
            ..category.clone()
        };
        self.alter(category, &moved, "moved", parent_id).await?;
        let count = category.chunk_count;
        self.count(&[(category.parent_id, -count), (parent_id, count)])
            .await
    }

    /// Closes a category that is empty by now.
    pub async fn close(
        &mut self,
        category: &CategoryState,
        into: Option<i64>,
    ) -> Result<(), CategoryError> {
        let closed = CategoryState {
            is_closed: true,
            merged_into: into,
            ..category.clone()
        };
        let effect = if into.is_some() { "merged" } else { "removed" };
        self.alter(category, &closed, effect, into.unwrap_or(0))
            .await
    }

    async fn alter(
        &mut self,
        before: &CategoryState,
        after: &CategoryState,
        effect: &str,
        into: i64,
    ) -> Result<(), CategoryError> {
        let call = self.care.call;
        self.care
            .tx
            .change_state(&call.space, before, after, call.now)
            .await?;
        self.before.states.push(before.into());
        self.after.states.push(after.into());
        self.effects.push(CategoryEffect {
            id: Some(after.id),
            name: after.name.clone(),
            effect: effect.to_owned(),
            into_id: Some(into).filter(|id| *id != 0),
        });

        Ok(())
    }

    /// Moves the chunks of a leaf to another one. Those that a person has placed stay pinned.
    pub async fn move_chunks(
        &mut self,
        from: &CategoryState,
        to: i64,
    ) -> Result<(), CategoryError> {
        self.place(ChunkSet::Leaf(from.id), to, None).await?;
        self.count(&[(from.id, -from.chunk_count), (to, from.chunk_count)])
            .await
    }

    /// Files a chunk in a leaf, where a person wants it.
    pub async fn move_chunk(
        &mut self,
        chunk_id: i64,
        (from, to): (i64, i64),
        is_current: bool,
    ) -> Result<(), CategoryError> {
        self.place(ChunkSet::These(&[chunk_id]), to, Some(true))
            .await?;
        let count = i64::from(is_current);
        self.count(&[(from, -count), (to, count)]).await
    }

    /// Moves chunks from one leaf to another; each with whether it is of a current version.
    pub async fn move_some(
        &mut self,
        chunks: &[(i64, bool)],
        (from, to): (i64, i64),
    ) -> Result<(), CategoryError> {
        let ids: Vec<i64> = chunks.iter().map(|(id, _)| *id).collect();
        for some in ids.chunks(AT_ONCE) {
            self.place(ChunkSet::These(some), to, None).await?;
        }

        let count: i64 = chunks.iter().map(|(_, current)| i64::from(*current)).sum();
        self.count(&[(from, -count), (to, count)]).await
    }

    /// Creates a category, which closes again in favour of `from` when the change is undone; returns its
    /// number.
    pub async fn create(&mut self, new: &NewCategory, from: i64) -> Result<i64, CategoryError> {
        let call = self.care.call;
        let tx = &mut *self.care.tx;
        tx.add_categories(&call.space, std::slice::from_ref(new), call.now)
            .await?;
        let slot = (new.parent_id.unwrap_or(0), new.name.as_str());
        let made = tx.find_namesake(&call.space, slot, 0).await?;
        let made = self.care.find(made.unwrap_or(0)).await?;

        let after = CategoryPosition::from(&made);
        self.before.states.push(CategoryPosition {
            is_closed: true,
            merged_into: Some(from),
            ..after.clone()
        });
        self.after.states.push(after);
        self.effects.push(CategoryEffect {
            id: Some(made.id),
            name: made.name,
            effect: CategoryEffect::CREATED.to_owned(),
            into_id: new.parent_id,
        });
        Ok(made.id)
    }

    async fn place(
        &mut self,
        chunks: ChunkSet<'_>,
        to: i64,
        pinned: Option<bool>,
    ) -> Result<(), CategoryError> {
        let new = NewPlacement {
            to,
            by: self.care.actor.by,
            pinned,
            change_id: Some(self.id),
        };
        let call = self.care.call;
        let moved = self
            .care
            .tx
            .place_chunks(&call.space, chunks, new, call.now)
            .await?;
        self.chunks += i64::try_from(moved).unwrap_or(i64::MAX);

        Ok(())
    }

    /// Adds to the counts of categories and of all above them.
    async fn count(&mut self, counts: &[(i64, i64)]) -> Result<(), CategoryError> {
        let mut sums: BTreeMap<i64, i64> = BTreeMap::new();
        for (id, count) in counts {
            *sums.entry(*id).or_default() += count;
        }

        let space = &self.care.call.space;
        self.care.tx.add_chunk_counts(space, &sums).await?;
        Ok(())
    }

    /// Whether a parent may have so many children.
    pub fn check_room(&self, level: i64, children: usize) -> Result<(), CategoryError> {
        let (scope, limit) = (self.care.taxonomy.scope(), self.care.taxonomy.limit(level));
        let children = i64::try_from(children).unwrap_or(i64::MAX);
        if scope == LimitScope::Parent && children > limit {
            return Err(CategoryError::Full {
                scope,
                level,
                limit,
            });
        }

        Ok(())
    }

    /// Stores what undoes the change.
    pub async fn end(self) -> Result<CareOutcome, CategoryError> {
        let space = &self.care.call.space;
        let sides = (&self.before, &self.after);
        let tx = &mut *self.care.tx;
        tx.complete_category_change(space, self.id, sides, self.chunks)
            .await?;

        Ok(CareOutcome {
            dry_run: false,
            change: tx.find_listed_change(space, self.id).await?,
            chunks_moved: self.chunks,
            categories: self.effects,
        })
    }
}
