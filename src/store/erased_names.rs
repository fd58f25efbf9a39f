//! Forgets names of categories when texts are deleted.

use std::collections::BTreeSet;

use memoir_text::text::name_key;

use super::category_states::name_key_of;
use super::text_uses::count;
use super::{StoreError, Tx};
use crate::base::ids::Space;
use crate::model::category::{CategoryState, ChangeKind, NamedBy};
use crate::model::erasure::RowCounts;

impl Tx {
    /// Deletes the changes and the former names of a category that goes.
    pub(super) async fn forget_category(
        &mut self,
        space: &Space,
        id: i64,
        counts: &mut RowCounts,
    ) -> Result<(), StoreError> {
        for (table, sql) in [
            (
                "category_changes",
                "DELETE FROM category_changes WHERE space = ? AND category_id = ?",
            ),
            (
                "category_aliases",
                "DELETE FROM category_aliases WHERE space = ? AND category_id = ?",
            ),
            (
                "category_states",
                "DELETE FROM category_states WHERE space = ? AND category_id = ?",
            ),
        ] {
            let delete = self.sql(sql).bind(space.as_str()).bind(id);
            count(counts, table, self.execute(delete).await?);
        }

        Ok(())
    }

    /// Forgets the former names of a category that stays: its renames, those of its aliases whose names
    /// `is_gone` tells, and its names in earlier states. Its moves stay, so that they can be undone.
    pub async fn forget_former_names(
        &mut self,
        space: &Space,
        id: i64,
        is_gone: impl Fn(&str) -> bool,
        counts: &mut RowCounts,
    ) -> Result<(), StoreError> {
        let delete = self
            .sql("DELETE FROM category_changes WHERE space = ? AND category_id = ? AND kind = ?")
            .bind(space.as_str())
            .bind(id)
            .bind(ChangeKind::Rename.into_str());
        count(counts, "category_changes", self.execute(delete).await?);

        let select =
            "SELECT DISTINCT name_key FROM category_aliases WHERE space = ? AND category_id = ?";
        let select = self.sql(select).bind(space.as_str()).bind(id);
        let mut keys = self.read_values::<String>(select).await?;
        keys.retain(|key| is_gone(key));
        for key in keys {
            let delete = self
                .sql("DELETE FROM category_aliases WHERE space = ? AND category_id = ? AND name_key = ?")
                .bind(space.as_str())
                .bind(id)
                .bind(key);
            count(counts, "category_aliases", self.execute(delete).await?);
        }

        let update = "UPDATE category_states SET name = (SELECT k.name FROM categories k WHERE k.space = ? AND k.id = ?) \
                      WHERE space = ? AND category_id = ?";
        let update = self.sql(update).bind(space.as_str()).bind(id);
        let update = update.bind(space.as_str()).bind(id);
        count(counts, "category_states", self.execute(update).await?);
        Ok(())
    }

    /// Gives a category another name without keeping the present one, unless a person has named it
    /// meanwhile; `false` if the name is taken under its parent. A closed category cannot be found by
    /// its name, before and after. The caller holds the space's lock.
    pub async fn replace_name(
        &mut self,
        space: &Space,
        id: i64,
        name: &str,
        counts: &mut RowCounts,
    ) -> Result<bool, StoreError> {
        // It may have been moved, closed or renamed since its texts were read.
        let found = self.find_state(space, id).await?;
        let Some(before) = found.filter(|state| state.named_by != NamedBy::User) else {
            return Ok(true);
        };
        let after = CategoryState {
            name: name.to_owned(),
            named_by: NamedBy::Embedded,
            ..before
        };
        let wanted = BTreeSet::from([(after.parent_id, name_key(name))]);
        let taken = self.list_categories_named(space, &wanted).await?;
        let former = self.list_aliases(space, &wanted).await?;
        if taken.values().any(|other| *other != id) || former.values().any(|of| *of != id) {
            return Ok(false);
        }

        // A name that a category has again is no alias any more.
        if let Some((parent_id, key)) = after.slot() {
            let delete = self
                .sql("DELETE FROM category_aliases WHERE space = ? AND parent_key = ? AND name_key = ?")
                .bind(space.as_str())
                .bind(parent_id)
                .bind(key);
            count(counts, "category_aliases", self.execute(delete).await?);
        }

        let update =
            "UPDATE categories SET name = ?, name_key = ?, named_by = ? WHERE space = ? AND id = ?";
        let update = self
            .sql(update)
            .bind(after.name.clone())
            .bind(name_key_of(&after))
            .bind(after.named_by.into_str())
            .bind(space.as_str())
            .bind(id);
        count(counts, "categories", self.execute(update).await?);
        self.count_category_removal(space).await?;
        Ok(true)
    }
}
