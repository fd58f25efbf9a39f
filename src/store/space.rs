//! Per-space state: the lock and counter of its writes, and the depth of its hierarchy.

use std::collections::BTreeMap;

use sqlx::Row as _;

use super::{Store, StoreError, Tx};
use crate::base::clock::Timestamp;
use crate::base::ids::Space;

/// The counter of writes to a space's chunks.
pub const CHUNK_WRITES: &str = "chunks";
/// The counter of writes after which every index of the space must be loaded again.
pub const CHUNK_RESETS: &str = "chunk_resets";
/// The counters of writes to other search entries: one for each group, named after it.
const MEMORY_WRITES: &str = "memory/";
/// The counter of category deletions.
const CATEGORY_REMOVALS: &str = "category_removals";
/// The counter of changes to the vocabulary.
const VOCABULARY_WRITES: &str = "vocabulary";
/// The counter that numbers sources without a name.
const UNTITLED: &str = "untitled";
/// The setting with the depth of a space's hierarchy.
const DEPTH: &str = "hierarchy_depth";

impl Store {
    /// The number of writes to the chunks and categories of a space.
    pub async fn find_chunk_writes(&self, space: &Space) -> Result<i64, StoreError> {
        let sql = "SELECT value FROM counters WHERE space = ? AND name = ? AND window_start = 0";
        let writes = self.read_value("find_chunk_writes", || {
            self.sql(sql).bind(space.as_str()).bind(CHUNK_WRITES)
        });
        Ok(writes.await?.unwrap_or(0))
    }

    /// How often the search entries of sources were written in a space: [`CHUNK_WRITES`] and
    /// [`CHUNK_RESETS`].
    pub async fn list_entry_writes(
        &self,
        space: &Space,
    ) -> Result<BTreeMap<String, i64>, StoreError> {
        let sql = "SELECT name, value FROM counters WHERE space = ? AND name IN (?, ?) AND window_start = 0";
        let writes = self.read_all("list_entry_writes", || {
            let query = self.sql(sql).bind(space.as_str());
            query.bind(CHUNK_WRITES).bind(CHUNK_RESETS)
        });
        Ok(writes.await?.into_iter().collect())
    }

    /// How often the memories of a group were written; `None` if never.
    pub async fn find_memory_writes(
        &self,
        space: &Space,
        group_id: &str,
    ) -> Result<Option<i64>, StoreError> {
        let mut writes = self.list_memory_writes(space, group_id).await?;
        Ok(writes.remove(group_id))
    }

    /// How often the memories of a group were written, by its name, if ever, and [`CHUNK_RESETS`].
    pub async fn list_memory_writes(
        &self,
        space: &Space,
        group_id: &str,
    ) -> Result<BTreeMap<String, i64>, StoreError> {
        let sql = "SELECT name, value FROM counters WHERE space = ? AND name IN (?, ?) AND window_start = 0";
        let writes = self.read_all::<(String, i64)>("list_memory_writes", || {
            let query = self.sql(sql).bind(space.as_str());
            query
                .bind(format!("{MEMORY_WRITES}{group_id}"))
                .bind(CHUNK_RESETS)
        });
        let writes = writes.await?.into_iter().map(|(name, value)| {
            let group = name.strip_prefix(MEMORY_WRITES).unwrap_or(&name);
            (group.to_owned(), value)
        });
        Ok(writes.collect())
    }

    /// Whether a space has excluded sources, so that categories may only appear to contain chunks.
    pub async fn has_ineligible(&self, space: &Space) -> Result<bool, StoreError> {
        self.retry("has_ineligible", || async {
            let query = self.sql("SELECT id FROM sources WHERE space = ? AND eligible = 0 LIMIT 1");
            Ok(!self.fetch_all(query.bind(space.as_str())).await?.is_empty())
        })
        .await
    }

    /// The next number for a source without a name. Numbers may be skipped.
    pub async fn next_untitled(&self, space: &Space) -> Result<i64, StoreError> {
        self.retry("next_untitled", || async {
            let mut tx = self.begin().await?;
            tx.count_up(space, UNTITLED).await?;
            let query = tx.sql(
                "SELECT value FROM counters WHERE space = ? AND name = ? AND window_start = 0",
            );
            let row = tx
                .fetch_optional(query.bind(space.as_str()).bind(UNTITLED))
                .await?;
            tx.commit().await?;

            Ok(row
                .map(|row| row.try_get("value"))
                .transpose()?
                .unwrap_or(1))
        })
        .await
    }

    /// Spaces with chunks whose hierarchy has another depth than this.
    pub async fn list_other_depths(&self, depth: i64) -> Result<Vec<(String, i64)>, StoreError> {
        let sql = "SELECT s.space, s.value_json FROM settings s WHERE s.name = ? AND s.value_json <> ? \
                   AND EXISTS (SELECT 1 FROM chunks c WHERE c.space = s.space)";
        let depths = self.read_all::<(String, String)>("list_other_depths", || {
            self.sql(sql).bind(DEPTH).bind(depth.to_string())
        });
        let depths = depths.await?.into_iter();
        Ok(depths
            .map(|(space, depth)| (space, depth.parse().unwrap_or(0)))
            .collect())
    }

    /// Updates planner statistics and the word index; only PostgreSQL needs this.
    pub async fn analyze(&self) -> Result<(), StoreError> {
        if self.engine() != super::Engine::Postgres {
            return Ok(());
        }

        for table in [
            "ANALYZE jobs",
            "ANALYZE chunks",
            "ANALYZE categories",
            "ANALYZE source_versions",
            "ANALYZE sources",
            "ANALYZE source_tags",
            "ANALYZE document_versions",
            // New words wait in a list that every keyword search scans.
            "SELECT gin_clean_pending_list('search_entries_tokens')",
        ] {
            let mut tx = self.begin().await?;
            tx.execute(tx.sql(table)).await?;
            tx.commit().await?;
        }

        Ok(())
    }
}

impl Tx {
    /// Locks out every other writer of this space's chunks and categories until this transaction
    /// ends, and counts the write. It must come after the lock of the source that is written, if
    /// any, and after that source's own rows, and before any shared row, so that writers wait for
    /// each other instead of deadlocking.
    pub async fn lock_chunks(&mut self, space: &Space) -> Result<(), StoreError> {
        self.count_up(space, CHUNK_WRITES).await
    }

    /// Tells every index of the space that everything changed.
    pub async fn count_chunk_reset(&mut self, space: &Space) -> Result<(), StoreError> {
        self.count_up(space, CHUNK_RESETS).await
    }

    /// Counts a deletion of categories, so that caches discard them.
    pub async fn count_category_removal(&mut self, space: &Space) -> Result<(), StoreError> {
        self.count_up(space, CATEGORY_REMOVALS).await
    }

    /// Counts a change of the vocabulary, and locks out others until this transaction ends.
    pub(super) async fn count_vocabulary_write(&mut self, space: &Space) -> Result<(), StoreError> {
        self.count_up(space, VOCABULARY_WRITES).await
    }

    /// Counts a write to the search entries of a group, such as the memories of a user, and locks
    /// out other writers of this group until this transaction ends; no other writer waits. Chunks
    /// are counted by [`Tx::lock_chunks`].
    pub async fn count_entry_write(
        &mut self,
        space: &Space,
        group_id: &str,
    ) -> Result<(), StoreError> {
        self.count_up(space, &format!("{MEMORY_WRITES}{group_id}"))
            .await
    }

    /// Counts a write to every search entry of the space that does not belong to a chunk.
    pub async fn count_all_entry_writes(&mut self, space: &Space) -> Result<(), StoreError> {
        let update = "UPDATE counters SET value = value + 1 WHERE space = ? AND name LIKE ? AND window_start = 0";
        let update = self.sql(update).bind(space.as_str());
        self.execute(update.bind(format!("{MEMORY_WRITES}%")))
            .await
            .map(|_| ())
    }

    pub(super) async fn count_up(&mut self, space: &Space, name: &str) -> Result<(), StoreError> {
        let insert = "INSERT INTO counters (space, name, window_start, value) VALUES (?, ?, 0, 1)";
        let insert = self
            .dialect()
            .insert_or_add(insert, "space, name, window_start", &["value"]);

        self.execute(insert.bind(space.as_str()).bind(name.to_owned()))
            .await
            .map(|_| ())
    }

    /// Stores the depth of the space's hierarchy, the first time.
    pub async fn settle_depth(
        &mut self,
        space: &Space,
        depth: i64,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let find = self.sql("SELECT value_json FROM settings WHERE space = ? AND name = ?");
        let known: Option<String> = self
            .read_value(find.bind(space.as_str()).bind(DEPTH))
            .await?;
        let depth = depth.to_string();

        let write = match known {
            Some(known) if known == depth => return Ok(()),
            // At start, memoir has checked that no chunk conflicts with this.
            Some(_) => {
                "UPDATE settings SET value_json = ?, updated_at = ? WHERE space = ? AND name = ?"
            }
            None => {
                "INSERT INTO settings (value_json, updated_at, space, name) VALUES (?, ?, ?, ?)"
            }
        };

        let write = self
            .sql(write)
            .bind(depth)
            .bind(now.as_micros())
            .bind(space.as_str())
            .bind(DEPTH);

        self.execute(write).await.map(|_| ())
    }
}
