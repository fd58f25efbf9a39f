//! Where chunks begin and end in the text of their version: a text is cut twice, for searching and
//! for filing.

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::candidates::StatementBuilder;
use super::{Store, StoreError};
use crate::base::ids::Space;
use crate::model::chunk::{ChunkRange, TAXONOMY};

/// Ids per statement.
const AT_ONCE: usize = 500;

const RANGE: &str = "SELECT c.id, c.version_id, c.profile, c.start_char, c.end_char, c.token_count, \
                     COALESCE(c.category_id, 0) AS leaf FROM chunks c";

impl Store {
    /// The ranges of chunks, by id; deleted ones are missing.
    pub async fn list_chunk_ranges(
        &self,
        space: &Space,
        ids: &[i64],
    ) -> Result<Vec<ChunkRange>, StoreError> {
        // By id only: if its index could be used, SQLite would scan the whole space.
        let condition = " WHERE COALESCE(c.space, '') = ?";
        self.list_ranges(space, condition, " AND c.id IN (", ids)
            .await
    }

    /// The ranges of the filed chunks of some versions.
    pub async fn list_filed_ranges(
        &self,
        space: &Space,
        version_ids: &[i64],
    ) -> Result<Vec<ChunkRange>, StoreError> {
        let condition = format!(" WHERE c.profile = '{TAXONOMY}' AND c.space = ?");
        self.list_ranges(space, &condition, " AND c.version_id IN (", version_ids)
            .await
    }

    async fn list_ranges(
        &self,
        space: &Space,
        condition: &str,
        list: &str,
        values: &[i64],
    ) -> Result<Vec<ChunkRange>, StoreError> {
        let mut found = Vec::new();
        for some in values.chunks(AT_ONCE) {
            let mut statement = StatementBuilder::of(RANGE);
            statement.text(condition, space.as_str());
            statement.numbers(list, some);
            let rows = self.retry("list_ranges", || async {
                self.fetch_all(self.put_together(&statement, false)).await
            });

            for row in rows.await? {
                found.push(read_range(&row)?);
            }
        }

        Ok(found)
    }
}

fn read_range(row: &AnyRow) -> Result<ChunkRange, StoreError> {
    let profile: String = row.try_get("profile")?;
    Ok(ChunkRange {
        chunk_id: row.try_get("id")?,
        version_id: row.try_get("version_id")?,
        is_filed: profile == TAXONOMY,
        start_char: row.try_get("start_char")?,
        end_char: row.try_get("end_char")?,
        token_count: row.try_get("token_count")?,
        leaf: row.try_get("leaf")?,
    })
}
