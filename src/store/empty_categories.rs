//! Deletes the categories that a source leaves empty, as far as no history of others refers to them.

use std::collections::{BTreeSet, HashSet};

use super::categories::AT_ONCE;
use super::dialect::BindAll as _;
use super::source_erasure::select_above;
use super::text_uses::count;
use super::{Store, StoreError, Tx};
use crate::base::ids::Space;
use crate::model::category::CategoryState;
use crate::model::erasure::RowCounts;

impl Store {
    /// The categories that are or were below these, also closed ones, each with what it is or was below.
    pub async fn list_ever_below(
        &self,
        space: &Space,
        parents: &[i64],
    ) -> Result<Vec<(i64, i64)>, StoreError> {
        let mut found = Vec::new();
        for some in parents.chunks(AT_ONCE) {
            let marks = vec!["?"; some.len()].join(",");
            let sql = format!(
                "SELECT k.id, k.parent_key AS parent_id FROM categories k WHERE k.space = ? AND k.parent_key IN ({marks}) \
                 UNION SELECT s.category_id, s.parent_id FROM category_states s WHERE s.space = ? \
                 AND s.parent_id IN ({marks})"
            );
            let below = self.read_all::<(i64, i64)>("list_ever_below", || {
                let query = self.dialect().assembled(&sql).persistent(false);
                let query = query.bind(space.as_str()).bind_all(some.iter().copied());
                query.bind(space.as_str()).bind_all(some.iter().copied())
            });
            found.extend(below.await?);
        }

        Ok(found)
    }
}

impl Tx {
    /// Deletes those of these leaves that have no chunk of any version, and then those above them
    /// that have become empty, also those that were above them, with their changes and aliases. A
    /// category stays that the history of others refers to, because `as_of` shows it and undoing returns
    /// chunks to it. Returns the ids of those that went. The caller holds the space's lock.
    pub async fn remove_empty_categories(
        &mut self,
        space: &Space,
        leaves: &[i64],
        counts: &mut RowCounts,
    ) -> Result<Vec<i64>, StoreError> {
        let mut removed = Vec::new();
        let mut level: BTreeSet<i64> = leaves.iter().copied().collect();
        while !level.is_empty() {
            let ids: Vec<i64> = level.iter().copied().collect();
            let mut above = BTreeSet::new();
            for some in ids.chunks(AT_ONCE) {
                let query = select_above(self.dialect(), space, some);
                above.extend(self.read_values::<i64>(query).await?);
            }

            // What goes may have been the last that referred to others.
            let mut waiting = level;
            while !waiting.is_empty() {
                let before = removed.len();
                waiting = self
                    .remove_unused(space, waiting, counts, &mut removed)
                    .await?;
                if removed.len() == before {
                    break;
                }
            }

            level = above;
        }

        if !removed.is_empty() {
            self.count_category_removal(space).await?;
        }

        Ok(removed)
    }

    /// Deletes those of these categories, and of the closed ones below them, in which nothing is and to
    /// which nothing refers. Returns those that something refers to, and closed ones to which something
    /// that went referred.
    async fn remove_unused(
        &mut self,
        space: &Space,
        ids: BTreeSet<i64>,
        counts: &mut RowCounts,
        removed: &mut Vec<i64>,
    ) -> Result<BTreeSet<i64>, StoreError> {
        let mut empty = Vec::new();
        for id in ids {
            let is_empty = !self.has_chunks_in(space, &[id]).await?
                && self.list_children(space, &[id]).await?.is_empty();
            if is_empty {
                empty.extend(self.list_closed_below(space, id).await?);
            }
        }

        let (mut kept, mut heirs) = (BTreeSet::new(), Vec::new());
        let states = self.list_states(space, &empty).await?;
        let referred_to = self.list_referred_to(space, &empty).await?;
        for id in empty {
            if referred_to.contains(&id) || self.has_any_below(space, id).await? {
                kept.insert(id);
                continue;
            }

            self.forget_category(space, id, counts).await?;
            count(counts, "categories", 1);
            self.remove_categories(space, &[id]).await?;
            removed.push(id);
            heirs.extend(states.get(&id).and_then(CategoryState::successor));
        }

        let heirs = self.list_states(space, &heirs).await?.into_values();
        kept.extend(heirs.filter(|heir| heir.is_closed).map(|heir| heir.id));
        Ok(kept)
    }

    /// Those of these categories in which chunks were filed, below which categories were, or in favour of
    /// which others are closed.
    async fn list_referred_to(
        &mut self,
        space: &Space,
        ids: &[i64],
    ) -> Result<HashSet<i64>, StoreError> {
        let mut found = HashSet::new();
        for some in ids.chunks(AT_ONCE) {
            for sql in [
                "SELECT DISTINCT category_id FROM chunk_placements WHERE space = ? AND category_id IN (??)",
                "SELECT DISTINCT parent_id FROM category_states WHERE space = ? AND parent_id IN (??)",
                "SELECT DISTINCT merged_into FROM categories WHERE space = ? AND merged_into IN (??)",
            ] {
                let query = self.dialect().query_list(sql, some.len());
                let query = query.bind(space.as_str());
                let query = query.bind_all(some.iter().copied());
                found.extend(self.read_values::<i64>(query).await?);
            }
        }

        Ok(found)
    }

    async fn has_any_below(&mut self, space: &Space, id: i64) -> Result<bool, StoreError> {
        let sql = "SELECT id FROM categories WHERE space = ? AND parent_key = ? LIMIT 1";
        let query = self.sql(sql).bind(space.as_str()).bind(id);
        Ok(self.fetch_optional(query).await?.is_some())
    }
}
