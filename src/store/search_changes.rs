//! Rows of `search_changes`: which sources changed for searches without new entries.
//!
//! An index in memory learns of most changes from new entries. A row here tells of the others: a
//! source was deleted or excluded, or a version became current whose entries were there already.

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::space::CHUNK_WRITES;
use super::{Store, StoreError, Tx};
use crate::base::clock::Timestamp;
use crate::base::ids::Space;
use crate::model::search::SearchGroup;

/// Sources in one statement.
const AT_ONCE: usize = 500;

impl Store {
    /// The sources that changed after a write, by the space's write counter.
    pub async fn list_search_changes(
        &self,
        space: &Space,
        after: i64,
    ) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT group_id FROM search_changes WHERE space = ? AND seq > ?";
        self.retry("list_search_changes", || async {
            let query = self.sql(sql).bind(space.as_str()).bind(after);
            let rows = self.fetch_all(query).await?;
            rows.iter()
                .map(|row| Ok(row.try_get("group_id")?))
                .collect()
        })
        .await
    }

    /// Some sources, each with its current version; deleted ones are missing.
    pub async fn list_search_groups_of(
        &self,
        space: &Space,
        ids: &[String],
    ) -> Result<Vec<SearchGroup>, StoreError> {
        let sql =
            "SELECT id, eligible, content_version_id FROM sources WHERE space = ? AND id IN (??)";
        let mut found = Vec::with_capacity(ids.len());
        for some in ids.chunks(AT_ONCE) {
            let rows = self.retry("list_search_groups_of", || async {
                let query = self.backend.dialect.query_list(sql, some.len());
                let query = query.bind(space.as_str());
                let query = some.iter().fold(query, |query, id| query.bind(id.clone()));
                self.fetch_all(query).await
            });

            for row in rows.await? {
                found.push(read_search_group(&row)?);
            }
        }

        Ok(found)
    }

    /// Deletes old changes. An index that was not updated for so long is loaded again.
    pub async fn remove_search_changes(&self, before: Timestamp) -> Result<(), StoreError> {
        self.retry("remove_search_changes", || async {
            // Usually there are none, and a write would wait for its turn.
            let old = self.sql("SELECT seq FROM search_changes WHERE created_at < ? LIMIT 1");
            if self
                .fetch_all(old.bind(before.as_micros()))
                .await?
                .is_empty()
            {
                return Ok(());
            }

            let mut tx = self.begin().await?;
            let delete = tx.sql("DELETE FROM search_changes WHERE created_at < ?");
            tx.execute(delete.bind(before.as_micros())).await?;
            tx.commit().await
        })
        .await
    }
}

impl Tx {
    /// Tells indexes that a source changed. The caller holds [`Tx::lock_chunks`].
    pub async fn add_search_change(
        &mut self,
        space: &Space,
        source_id: &str,
    ) -> Result<(), StoreError> {
        let insert = "INSERT INTO search_changes (space, seq, group_id, created_at) SELECT space, value, ?, @now \
                      FROM counters WHERE space = ? AND name = ? AND window_start = 0";
        let insert = self.sql(insert).bind(source_id.to_owned());
        self.execute(insert.bind(space.as_str()).bind(CHUNK_WRITES))
            .await
            .map(|_| ())
    }
}

pub(super) fn read_search_group(row: &AnyRow) -> Result<SearchGroup, StoreError> {
    Ok(SearchGroup {
        id: row.try_get("id")?,
        version_id: row.try_get("content_version_id")?,
        eligible: row.try_get::<i64, _>("eligible")? != 0,
    })
}
