//! Whole spaces: list, count and delete.

use std::collections::BTreeMap;

use super::api_keys::ALL_SPACES;
use super::dialect::{BindAll as _, Statement};
use super::jobs::COLUMNS;
use super::rows::Stored as _;
use super::{Engine, Store, StoreError};
use crate::base::clock::Timestamp;
use crate::base::ids::Space;
use crate::model::job::Job;
use crate::model::llm_call::UsageDay;

/// Every table with rows of a space, in the order in which they can be deleted: referring tables
/// first. Two are not among them. `counters` contains only numbers, and the write counter of a space
/// must keep growing: it tells every process that its cache is outdated, even if a space of that
/// name is created again. `erasures` contains only hashes and numbers, and shows what was deleted.
pub const SPACE_TABLES: &[&str] = &[
    // First, so that no key can open the space while it is deleted.
    "api_keys",
    "embeddings",
    "search_entries",
    "search_changes",
    "memory_topics",
    "memory_entities",
    "memory_tags",
    "memories",
    "thread_receipts",
    "threads",
    "vocabularies",
    "lexicon",
    "chunks",
    "category_changes",
    "category_aliases",
    "category_states",
    "chunk_placements",
    "categories",
    "document_versions",
    "contextual_helpers",
    "source_tags",
    "source_versions",
    "sources",
    "job_batches",
    "job_events",
    "job_checkpoints",
    "job_requests",
    "llm_calls",
    "jobs",
    "queries",
    "idempotency_keys",
    "text_uses",
    "usage_days",
    "policies",
    "workspaces",
    "settings",
];

/// A table that exists only where PostgreSQL has pgvector.
const VECTORS: &str = "embedding_vectors";
/// Rows that one transaction deletes.
const PART: i64 = 1000;
/// Rows that may contain a whole text and that one transaction deletes: a statement must end within
/// its deadline.
const PART_OF_TEXTS: i64 = 20;
const TABLES_OF_TEXTS: &[&str] = &[
    "source_versions",
    "job_requests",
    "job_checkpoints",
    "job_events",
    "queries",
    "idempotency_keys",
];
/// The keys of tables that have no rowid on SQLite.
const KEYS: &[(&str, &str)] = &[
    ("document_versions", "space, version_id"),
    ("contextual_helpers", "space, source_id, version"),
    ("source_tags", "space, source_id, tag"),
    ("job_batches", "space, job_id, seq"),
    ("job_events", "space, job_id, seq"),
    ("job_checkpoints", "space, job_id, step"),
    ("text_uses", "space, used, holder_kind, holder_id"),
];
/// Tables that are written only under the lock of the space's chunks.
const TABLES_OF_CHUNKS: &[&str] = &[
    VECTORS,
    "embeddings",
    "search_entries",
    "chunks",
    "category_changes",
    "category_aliases",
    "category_states",
    "chunk_placements",
    "categories",
];

/// The contents of a space.
#[derive(Debug, Clone, Default)]
pub struct SpaceSize {
    pub sources: i64,
    pub versions: i64,
    /// Bytes of the texts of all versions.
    pub text_bytes: i64,
    pub chunks: i64,
    pub categories: i64,
    pub queries: i64,
    pub api_keys: i64,
    pub jobs: BTreeMap<String, i64>,
}

impl Store {
    /// Spaces with rows, by name, after the given one; a space that has only counters counts as
    /// empty.
    pub async fn list_spaces(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        // One index lookup per table and space: the tables may be large, and each lookup skips a
        // whole space.
        let next = |table: &&str| {
            let keys_of_all = if *table == "api_keys" {
                format!(" AND space <> '{ALL_SPACES}'")
            } else {
                String::new()
            };
            format!("SELECT MIN(space) AS space FROM {table} WHERE space > ?{keys_of_all}")
        };

        let parts: Vec<String> = SPACE_TABLES.iter().map(next).collect();
        let sql = format!(
            "SELECT MIN(space) AS next_space FROM ({}) AS found",
            parts.join(" UNION ALL ")
        );

        let mut found: Vec<String> = Vec::new();
        while found.len() < limit {
            let last = found.last().map_or(after, String::as_str).to_owned();
            let next = self.read_value::<Option<String>>("list_spaces", || {
                let query = self.composed(&sql);
                query.bind_all(SPACE_TABLES.iter().map(|_| last.as_str()))
            });

            match next.await?.flatten() {
                Some(space) => found.push(space),
                None => break,
            }
        }

        Ok(found)
    }

    /// Whether a space has any row.
    pub async fn has_space(&self, space: &Space) -> Result<bool, StoreError> {
        let one = |table: &&str| {
            format!("(SELECT COUNT(*) FROM (SELECT 1 FROM {table} WHERE space = ? LIMIT 1) AS t)")
        };
        let parts: Vec<String> = SPACE_TABLES.iter().map(one).collect();
        let sql = format!("SELECT {} AS found", parts.join(" + "));
        let found = self.read_value::<i64>("has_space", || {
            let query = self.composed(&sql);
            query.bind_all(SPACE_TABLES.iter().map(|_| space.as_str()))
        });
        Ok(found.await?.unwrap_or(0) > 0)
    }

    /// What a space contains now.
    pub async fn find_space_size(&self, space: &Space) -> Result<SpaceSize, StoreError> {
        let bytes = self.dialect().whole_sum("size_bytes");
        let count = |table: &str| format!("SELECT COUNT(*) AS number FROM {table} WHERE space = ?");
        let open = format!("{} AND closed_at IS NULL", count("categories"));
        Ok(SpaceSize {
            sources: self.find_number(&count("sources"), space).await?,
            versions: self.find_number(&count("source_versions"), space).await?,
            text_bytes: self
                .find_number(
                    &format!("SELECT {bytes} AS number FROM source_versions WHERE space = ?"),
                    space,
                )
                .await?,
            chunks: self.find_number(&count("chunks"), space).await?,
            categories: self.find_number(&open, space).await?,
            queries: self.find_number(&count("queries"), space).await?,
            api_keys: self.find_number(&count("api_keys"), space).await?,
            jobs: self.count_jobs_by_state(space).await?,
        })
    }

    /// The model usage of a space, as far back as the ledger goes.
    pub async fn find_space_usage(&self, space: &Space) -> Result<UsageDay, StoreError> {
        let ever = super::UsageFilter {
            from: "0000-01-01".into(),
            to: "9999-12-31".into(),
            ..Default::default()
        };
        self.find_usage_total(space, &ever).await
    }

    async fn find_number(&self, sql: &str, space: &Space) -> Result<i64, StoreError> {
        let number = self.read_value("find_space_size", || {
            self.composed(sql).bind(space.as_str())
        });
        Ok(number.await?.unwrap_or(0))
    }

    async fn count_jobs_by_state(
        &self,
        space: &Space,
    ) -> Result<BTreeMap<String, i64>, StoreError> {
        let sql = "SELECT state, COUNT(*) AS jobs FROM jobs WHERE space = ? GROUP BY state";
        let counts = self.read_all("count_jobs_by_state", || self.sql(sql).bind(space.as_str()));
        Ok(counts.await?.into_iter().collect())
    }

    /// Ends the unfinished jobs of a space, a few at a time; their workers can no longer write.
    pub async fn cancel_space_jobs(
        &self,
        space: &Space,
        now: Timestamp,
    ) -> Result<Vec<Job>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM jobs WHERE space = ? AND state NOT IN ('succeeded', 'failed', 'cancelled') \
             ORDER BY id LIMIT {PART}"
        );

        let mut all = Vec::new();
        loop {
            let some = self.retry("cancel_space_jobs", || async {
                let mut tx = self.begin().await?;
                let query = tx
                    .dialect()
                    .query_for_update(&sql)
                    .bind(space.as_str().to_owned());

                let mut cancelled = Vec::new();
                for row in tx.fetch_all(query).await? {
                    let job = Job::read(&row)?;
                    tx.cancel_job(&job, now).await?;
                    cancelled.push(job);
                }

                tx.commit().await?;
                Ok(cancelled)
            });

            let some = some.await?;
            if some.is_empty() {
                return Ok(all);
            }

            all.extend(some);
        }
    }

    /// Deletes every row of a space, a few at a time, and counts them by table. Safe to run again
    /// from any point.
    pub async fn remove_space(
        &self,
        space: &Space,
    ) -> Result<BTreeMap<&'static str, u64>, StoreError> {
        let mut removed = BTreeMap::new();
        let vectors = self.has_vectors().await?.then_some(VECTORS);
        for table in vectors.into_iter().chain(SPACE_TABLES.iter().copied()) {
            let mut count = 0;
            loop {
                let part = self.retry("remove_space", || async {
                    let mut tx = self.begin().await?;
                    // An ingestion locks its source before this lock; in the opposite order, both
                    // would deadlock. Always taken, because it also invalidates every cache of the
                    // space.
                    let locks_first = TABLES_OF_CHUNKS.contains(&table);
                    if locks_first {
                        tx.lock_chunks(space).await?;
                    }

                    let part = tx
                        .execute(self.remove_some(table).bind(space.as_str().to_owned()))
                        .await?;
                    if !locks_first {
                        tx.lock_chunks(space).await?;
                    }

                    if part > 0 && table == "api_keys" {
                        tx.count_key_change().await?;
                    }

                    if part > 0 && table == "search_entries" {
                        tx.count_all_entry_writes(space).await?;
                        tx.count_chunk_reset(space).await?;
                    }

                    if part > 0 && table == "categories" {
                        tx.count_category_removal(space).await?;
                    }

                    tx.commit().await?;
                    Ok(part)
                });

                let part = part.await?;
                count += part;
                if part == 0 {
                    break;
                }
            }

            removed.insert(table, count);
        }

        Ok(removed)
    }

    async fn has_vectors(&self) -> Result<bool, StoreError> {
        if self.engine() != Engine::Postgres {
            return Ok(false);
        }

        let mut connection = self.read().await?;
        super::catalog::has_table(&mut connection, &self.backend, VECTORS).await
    }

    /// Deletes some rows of a space; categories deepest first, because they refer to their parents.
    fn remove_some(&self, table: &str) -> Statement {
        let order = if table == "categories" {
            "ORDER BY level DESC"
        } else {
            ""
        };

        let most = if TABLES_OF_TEXTS.contains(&table) {
            PART_OF_TEXTS
        } else {
            PART
        };

        let some =
            |row: &str| format!("SELECT {row} FROM {table} WHERE space = ? {order} LIMIT {most}");
        self.composed(&match self.engine() {
            Engine::Sqlite => {
                let keys = KEYS.iter().find(|(keyed, _)| *keyed == table);
                let key = keys.map_or("rowid", |(_, key)| *key);
                format!("DELETE FROM {table} WHERE ({key}) IN ({})", some(key))
            }
            Engine::Postgres => format!(
                "DELETE FROM {table} WHERE ctid = ANY (ARRAY ({}))",
                some("ctid")
            ),
            Engine::Mysql => format!("DELETE FROM {table} WHERE space = ? {order} LIMIT {most}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_space_can_have_the_name_for_all_spaces() {
        assert!(ALL_SPACES.parse::<Space>().is_err());
    }
}
