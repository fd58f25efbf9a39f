//! Rows of `search_changes`: which sources changed for searches without new entries.
//!
//! An index in memory learns of most changes from new entries. A row here tells of the others: a
//! source was deleted or excluded, or a version became current whose entries were there already.

use memoir_index::SearchGroup;

use super::dialect::BindAll as _;
use super::rows::row;
use super::space::CHUNK_WRITES;
use super::{Store, StoreError, Tx};
use crate::base::clock::Timestamp;
use crate::base::ids::Space;

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
        self.read_values("list_search_changes", || {
            self.sql(sql).bind(space.as_str()).bind(after)
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
            let groups = self.read_all("list_search_groups_of", || {
                let query = self.dialect().query_list(sql, some.len());
                query
                    .bind(space.as_str())
                    .bind_all(some.iter().map(String::as_str))
            });
            found.extend(groups.await?);
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

row! {
    SearchGroup as "" { id, version_id = "content_version_id", eligible }
}
