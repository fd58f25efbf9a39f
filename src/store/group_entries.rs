//! The entries of one group in `search_entries`, such as all memories of a user, with their vectors.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use memoir_index::{EntryRow, OwnerKind, VectorRow};
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::candidates::StatementBuilder;
use super::dialect::JOINT;
use super::{Store, StoreError};
use crate::base::ids::Space;

/// Values in one joined text: MySQL cuts a longer one off.
pub(super) const JOINED: usize = 20_000;

impl Store {
    /// The ids of the entries of a group. They come as one text, because each row of a result costs
    /// more than what is in it.
    pub async fn list_group_entries(
        &self,
        space: &Space,
        kind: OwnerKind,
        group_id: &str,
    ) -> Result<HashSet<i64>, StoreError> {
        let mut ids = HashSet::new();
        let mut after = 0;
        loop {
            let mut statement = StatementBuilder::of("SELECT ");
            statement.push(&self.dialect().joined("CONCAT(c.id, '')", "c.id"));
            statement.push(" AS ids FROM (SELECT id FROM search_entries");
            statement.text(" WHERE space = ?", space.as_str());
            statement.text(" AND owner_kind = ?", kind.into_str());
            statement.text(" AND group_id = ?", group_id);
            statement.number(" AND id > ?", after);
            statement.limit(" ORDER BY id", JOINED);
            statement.push(") c");

            let joined = self.read_value::<Option<String>>("list_group_entries", || {
                self.put_together(&statement, true)
            });
            let joined = joined.await?.flatten().unwrap_or_default();
            let before = ids.len();
            ids.extend(joined.split(JOINT).filter_map(|id| id.parse::<i64>().ok()));
            if ids.len() - before < JOINED {
                return Ok(ids);
            }

            after = ids.iter().copied().max().unwrap_or(after);
        }
    }

    /// The entries of a group with their vectors of a model, both by ascending id.
    pub async fn list_group_rows(
        &self,
        space: &Space,
        kind: OwnerKind,
        group_id: &str,
        model: Option<&str>,
        ids: &RangeInclusive<i64>,
    ) -> Result<(Vec<EntryRow>, Vec<VectorRow>), StoreError> {
        let mut statement = StatementBuilder::of(
            "SELECT c.id, c.owner_id, c.version_id, c.created_at, c.length, c.tokens",
        );
        if let Some(model) = model {
            statement.push(", e.vector FROM search_entries c LEFT JOIN embeddings e");
            statement.push(
                " ON e.space = c.space AND e.owner_kind = c.owner_kind AND e.entry_id = c.id",
            );
            statement.text(" AND e.model = ?", model);
        } else {
            statement.push(" FROM search_entries c");
        }
        statement.text(" WHERE c.space = ?", space.as_str());
        statement.text(" AND c.owner_kind = ?", kind.into_str());
        statement.text(" AND c.group_id = ?", group_id);
        statement.number(" AND c.id >= ?", *ids.start());
        statement.number(" AND c.id <= ?", *ids.end());
        statement.push(" ORDER BY c.id");

        self.retry("list_group_rows", || async {
            let rows = self.fetch_all(self.put_together(&statement, true)).await?;
            let mut vectors = Vec::new();
            let mut read = |row: &AnyRow| {
                let entry = EntryRow {
                    id: row.try_get("id")?,
                    owner_id: row.try_get("owner_id")?,
                    group_id: group_id.to_owned(),
                    user_id: String::new(),
                    version_id: row.try_get("version_id")?,
                    created_at: row.try_get("created_at")?,
                    length: row.try_get("length")?,
                    tokens: row.try_get("tokens")?,
                };
                if model.is_some()
                    && let Some(vector) = row.try_get::<Option<Vec<u8>>, _>("vector")?
                {
                    let entry_id = entry.id;
                    vectors.push(VectorRow { entry_id, vector });
                }
                Ok::<_, StoreError>(entry)
            };
            let entries = rows.iter().map(&mut read).collect::<Result<_, _>>()?;
            Ok((entries, vectors))
        })
        .await
    }
}
