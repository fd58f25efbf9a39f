//! What categories are and were: every change of a name, a parent or of being closed goes through
//! [`Tx::change_state`], which keeps the earlier state in `category_states` and the way to it in
//! `category_aliases`.

use std::collections::{BTreeSet, HashMap};

use memoir_text::text::name_key;

use super::categories::AT_ONCE;
use super::dialect::{BindAll as _, JOINT};
use super::rows::{Stored as _, get, row};
use super::{StoreError, Tx};
use crate::base::clock::Timestamp;
use crate::base::ids::Space;
use crate::model::category::CategoryState;

row! {
    CategoryState as "" { id, parent_id = "parent_key", level, name, named_by, chunk_count, merged_into }
    from row "closed_at" { is_closed: get::<Option<i64>>(row, "closed_at")?.is_some() }
}

/// The key by which a category is found below its parent; that of a closed one is no name, so that
/// another category can have its name.
pub(super) fn name_key_of(state: &CategoryState) -> String {
    match state.slot() {
        Some((_, key)) => key,
        None => format!("{JOINT}{}", state.id),
    }
}

impl Tx {
    /// Categories by id, closed ones too; unknown ones are missing.
    pub async fn list_states(
        &mut self,
        space: &Space,
        ids: &[i64],
    ) -> Result<HashMap<i64, CategoryState>, StoreError> {
        let sql = format!(
            "SELECT {} FROM categories WHERE COALESCE(space, '') = ? AND id IN (??)",
            CategoryState::COLUMNS
        );
        let mut found = HashMap::new();
        for some in ids.chunks(AT_ONCE) {
            let marks = vec!["?"; some.len()].join(",");
            let query = self.composed(&sql.replace("??", &marks)).persistent(false);
            let query = query.bind(space.as_str()).bind_all(some.iter().copied());
            let states = self.read_all::<CategoryState>(query).await?;
            found.extend(states.into_iter().map(|state| (state.id, state)));
        }

        Ok(found)
    }

    /// A category by id, closed or not.
    pub async fn find_state(
        &mut self,
        space: &Space,
        id: i64,
    ) -> Result<Option<CategoryState>, StoreError> {
        Ok(self.list_states(space, &[id]).await?.remove(&id))
    }

    /// The open children of a category, oldest first; 0 stands for the root.
    pub async fn list_child_states(
        &mut self,
        space: &Space,
        parent_id: i64,
    ) -> Result<Vec<CategoryState>, StoreError> {
        let children = self.list_children(space, &[parent_id]).await?;
        let ids: Vec<i64> = children.iter().map(|child| child.id).collect();
        let mut states = self.list_states(space, &ids).await?;

        Ok(ids.iter().filter_map(|id| states.remove(id)).collect())
    }

    /// A category without open children, after the closed ones below it, deepest first; nothing if it is
    /// gone.
    pub(super) async fn list_closed_below(
        &mut self,
        space: &Space,
        id: i64,
    ) -> Result<Vec<i64>, StoreError> {
        let mut all: Vec<i64> = self.list_states(space, &[id]).await?.into_keys().collect();
        let mut next = 0;
        while let Some(parent) = all.get(next).copied() {
            let sql = "SELECT id FROM categories WHERE space = ? AND parent_key = ?";
            let query = self.sql(sql).bind(space.as_str()).bind(parent);
            all.extend(self.read_values::<i64>(query).await?);
            next += 1;
        }

        all.reverse();
        Ok(all)
    }

    /// The open category that has this name below this parent, if it is another one than `id`.
    pub async fn find_namesake(
        &mut self,
        space: &Space,
        (parent_id, name): (i64, &str),
        id: i64,
    ) -> Result<Option<i64>, StoreError> {
        let named = BTreeSet::from([(parent_id, name_key(name))]);
        let found = self.list_categories_named(space, &named).await?;
        Ok(found.into_values().find(|other| *other != id))
    }

    /// Closes a category again that a change had created. An alias that another category has there
    /// stays: it was there first.
    pub async fn close_again(
        &mut self,
        space: &Space,
        before: &CategoryState,
        after: &CategoryState,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.store_state(space, before, after, now).await?;
        let Some((parent_id, key)) = before.slot() else {
            return Ok(());
        };

        let select = "SELECT category_id FROM category_aliases WHERE space = ? AND parent_key = ? AND name_key = ?";
        let select = self.sql(select).bind(space.as_str());
        let former = self
            .read_value::<i64>(select.bind(parent_id).bind(key))
            .await?;
        if former.is_none_or(|id| id == before.id) {
            self.leave_alias(space, before, after).await?;
        }

        Ok(())
    }

    /// Changes a category to another state. Where it can no longer be found by its name, an alias leads
    /// to it. The name must be free, and the caller holds the space's lock.
    pub async fn change_state(
        &mut self,
        space: &Space,
        before: &CategoryState,
        after: &CategoryState,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.store_state(space, before, after, now).await?;
        if before.slot() != after.slot() {
            self.leave_alias(space, before, after).await?;
        }

        Ok(())
    }

    async fn store_state(
        &mut self,
        space: &Space,
        before: &CategoryState,
        after: &CategoryState,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.add_state(space, before, now).await?;
        let update = self
            .sql(
                "UPDATE categories SET parent_id = ?, parent_key = ?, name = ?, name_key = ?, named_by = ?, \
                 closed_at = ?, merged_into = ? WHERE space = ? AND id = ?",
            )
            .bind(Some(after.parent_id).filter(|id| *id != 0))
            .bind(after.parent_id)
            .bind(after.name.clone())
            .bind(name_key_of(after))
            .bind(after.named_by.into_str())
            .bind(after.is_closed.then_some(now.as_micros()))
            .bind(after.merged_into)
            .bind(space.as_str())
            .bind(after.id);
        self.execute(update).await.map(|_| ())
    }

    /// Clocks may differ between processes: the states of a category end in the order of the changes.
    async fn add_state(
        &mut self,
        space: &Space,
        state: &CategoryState,
        until: Timestamp,
    ) -> Result<(), StoreError> {
        let insert = "INSERT INTO category_states (space, category_id, parent_id, name, closed, until_at) \
                      SELECT ?, ?, ?, ?, ?, CASE WHEN COALESCE(MAX(s.until_at), 0) > ? THEN MAX(s.until_at) ELSE ? END \
                      FROM category_states s WHERE s.space = ? AND s.category_id = ?";
        let insert = self
            .sql(insert)
            .bind(space.as_str())
            .bind(state.id)
            .bind(Some(state.parent_id).filter(|id| *id != 0))
            .bind(state.name.clone())
            .bind(i16::from(state.is_closed))
            .bind(until.as_micros())
            .bind(until.as_micros())
            .bind(space.as_str())
            .bind(state.id);

        self.execute(insert).await.map(|_| ())
    }

    /// A name that a category has again is no alias any more, of whichever category.
    async fn leave_alias(
        &mut self,
        space: &Space,
        before: &CategoryState,
        after: &CategoryState,
    ) -> Result<(), StoreError> {
        for (parent_id, key) in [before.slot(), after.slot()].into_iter().flatten() {
            let delete = self
                .sql("DELETE FROM category_aliases WHERE space = ? AND parent_key = ? AND name_key = ?")
                .bind(space.as_str())
                .bind(parent_id)
                .bind(key);
            self.execute(delete).await?;
        }

        if let Some((parent_id, key)) = before.slot() {
            let insert = self
                .sql("INSERT INTO category_aliases (space, parent_key, name_key, category_id) VALUES (?, ?, ?, ?)")
                .bind(space.as_str())
                .bind(parent_id)
                .bind(key)
                .bind(before.id);
            self.execute(insert).await?;
        }

        Ok(())
    }
}
