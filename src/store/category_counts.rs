//! How many chunks categories have: the stored numbers.

use std::collections::BTreeMap;

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::candidates::StatementBuilder;
use super::categories::{AT_ONCE, select_paths};
use super::dialect::BindAll as _;
use super::{Store, StoreError, Tx};
use crate::base::ids::Space;
use crate::model::category::{LeafGrowth, NamedBy};

impl Store {
    /// How many chunks are filed, and the leaf with the most of them.
    pub async fn find_largest_leaf(
        &self,
        space: &Space,
        depth: i64,
    ) -> Result<Option<(i64, i64, i64)>, StoreError> {
        let mut total = StatementBuilder::of("SELECT k.id, k.chunk_count FROM categories k");
        total.text(" WHERE k.space = ?", space.as_str());
        total.number(" AND k.level = ?", depth);
        total.push(" AND k.chunk_count > 0 ORDER BY k.chunk_count DESC, k.id");
        let rows: Vec<(i64, i64)> = self
            .read_all("find_largest_leaf", || self.put_together(&total, true))
            .await?;

        let chunks = rows.iter().map(|(_, count)| count).sum::<i64>();
        let largest = rows.first().copied();
        Ok(largest.map(|(id, count)| (chunks, id, count)))
    }
}

impl Tx {
    /// The number of chunks of current versions in each of these.
    pub async fn find_chunk_counts(
        &mut self,
        space: &Space,
        ids: &[i64],
    ) -> Result<BTreeMap<i64, i64>, StoreError> {
        let mut counts = BTreeMap::new();
        for some in ids.chunks(AT_ONCE) {
            let sql = "SELECT id, chunk_count FROM categories WHERE COALESCE(space, '') = ? AND id IN (??)";
            let query = self
                .dialect()
                .query_list(sql, some.len())
                .bind(space.as_str());

            counts.extend(
                self.read_all::<(i64, i64)>(query.bind_all(some.iter().copied()))
                    .await?,
            );
        }

        Ok(counts)
    }

    /// Adds to the counts of leaves and their ancestors, and returns the leaves; the caller holds the
    /// space's lock.
    pub async fn add_chunk_counts(
        &mut self,
        space: &Space,
        leaves: &BTreeMap<i64, i64>,
    ) -> Result<Vec<LeafGrowth>, StoreError> {
        let ids: Vec<i64> = leaves
            .iter()
            .filter(|(_, count)| **count != 0)
            .map(|(id, _)| *id)
            .collect();

        let mut deltas: BTreeMap<i64, i64> = BTreeMap::new();
        let (mut grown, mut path) = (Vec::with_capacity(ids.len()), Vec::new());
        for some in ids.chunks(AT_ONCE) {
            for row in self
                .fetch_all(select_paths(self.dialect(), space, some))
                .await?
            {
                let (leaf, id): (i64, i64) = (row.try_get("leaf")?, row.try_get("id")?);
                let delta = leaves.get(&leaf).copied().unwrap_or(0);
                *deltas.entry(id).or_default() += delta;
                path.push(row.try_get("name")?);
                if leaf == id {
                    grown.push(read_growth(&row, std::mem::take(&mut path), delta)?);
                }
            }
        }

        // Categories with the same change are updated together.
        let mut alike: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        for (id, delta) in deltas.into_iter().filter(|(_, delta)| *delta != 0) {
            alike.entry(delta).or_default().push(id);
        }

        let sql = "UPDATE categories SET chunk_count = chunk_count + ? WHERE COALESCE(space, '') = ? AND id IN (??)";
        for (delta, ids) in alike {
            for some in ids.chunks(AT_ONCE) {
                let mut update = self
                    .dialect()
                    .query_list(sql, some.len())
                    .bind(delta)
                    .bind(space.as_str());

                update = update.bind_all(some.iter().copied());

                self.execute(update).await?;
            }
        }

        Ok(grown)
    }
}

/// A leaf, before and after its count changes.
fn read_growth(row: &AnyRow, path: Vec<String>, delta: i64) -> Result<LeafGrowth, StoreError> {
    let before: i64 = row.try_get("chunk_count")?;
    let named_by: String = row.try_get("named_by")?;
    Ok(LeafGrowth {
        id: row.try_get("id")?,
        parent_id: row.try_get::<Option<i64>, _>("parent_id")?.unwrap_or(0),
        path,
        named_by: named_by.parse().unwrap_or(NamedBy::Model),
        before,
        after: before + delta,
    })
}
