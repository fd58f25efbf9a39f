//! A copy of the vectors for pgvector inside PostgreSQL, for spaces that do not fit into memory.
//! `embeddings` stays authoritative; this table is derived from it, and every write of a vector
//! updates both.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use memoir_index::OwnerKind;
use memoir_index::vectors::from_bytes;
use sqlx::{AnyConnection, Executor as _, Row as _};

use super::backend::Backend;
use super::embeddings::NewEmbedding;
use super::{Engine, Store, StoreError, Tx, row_limit};
use crate::base::ids::Space;

/// The column, if it exists: dropping the extension drops it and leaves the table.
macro_rules! column {
    () => {
        "EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = to_regclass('embedding_vectors') \
         AND a.attname = 'embedding' AND NOT a.attisdropped)"
    };
}
/// 0: nothing to do; 1: create the table; 2: it exists, but without privileges for us.
const STATE: &str = concat!(
    "SELECT CASE WHEN ",
    column!(),
    " THEN CASE WHEN has_table_privilege('embedding_vectors', 'SELECT') AND has_table_privilege('embedding_vectors', \
     'INSERT') AND has_table_privilege('embedding_vectors', 'DELETE') THEN 0 ELSE 2 END \
     WHEN to_regtype('vector') IS NOT NULL AND has_schema_privilege(current_schema(), 'CREATE') \
     AND has_table_privilege('search_entries', 'REFERENCES') THEN 1 ELSE 0 END AS state"
);
const THERE: &str = concat!(
    "SELECT CASE WHEN ",
    column!(),
    " THEN 1 ELSE 0 END AS there"
);
const TABLE: &str = "CREATE TABLE embedding_vectors (space VARCHAR(64) NOT NULL, owner_kind VARCHAR(16) NOT NULL, \
                     model VARCHAR(255) NOT NULL, entry_id BIGINT NOT NULL REFERENCES search_entries (id) ON DELETE CASCADE, \
                     embedding vector NOT NULL, PRIMARY KEY (space, owner_kind, model, entry_id))";
const INDEX: &str = "CREATE INDEX embedding_vectors_entry ON embedding_vectors (entry_id)";
/// Rows per insert, and per search for missing ones.
const ROWS: usize = 100;
const WINDOW: i64 = 2_000;

/// What a process knows about the table.
#[derive(Debug, Default)]
pub struct PgVector {
    there: AtomicBool,
    /// Whether it contains every vector.
    complete: AtomicBool,
}

/// Creates the table if the database has the extension; part of the migrations.
pub async fn make_table(
    connection: &mut AnyConnection,
    backend: &Backend,
) -> Result<(), StoreError> {
    if backend.engine != Engine::Postgres {
        return Ok(());
    }

    let state = backend
        .dialect
        .query(STATE)
        .fetch_one(&mut *connection)
        .await;

    match state.and_then(|row| row.try_get::<i32, _>("state")).map_err(|error| backend.explain(&error))? {
        1 => {
            for statement in ["DROP TABLE IF EXISTS embedding_vectors", TABLE, INDEX] {
                connection.execute(statement).await.map_err(|error| backend.explain(&error))?;
            }

            tracing::info!("vectors are also stored for pgvector");
            Ok(())
        }
        // Continuing without it would leave unnoticed gaps.
        2 => Err(StoreError::Schema(
            "another role owns the table embedding_vectors, which pgvector needs: GRANT SELECT, INSERT, DELETE ON \
             embedding_vectors TO the role that memoir connects as"
                .to_owned(),
        )),
        _ => Ok(()),
    }
}

impl Store {
    /// Whether the database can compare vectors itself, and has all of them.
    #[must_use]
    pub fn compares_vectors(&self) -> bool {
        self.backend.pgvector.complete.load(Ordering::Relaxed)
    }

    /// Copies vectors that were written before the table existed; from then on the database
    /// compares them.
    pub async fn complete_pgvector(&self) -> Result<(), StoreError> {
        if self.engine() != Engine::Postgres || !self.begin().await?.has_pgvector().await? {
            return Ok(());
        }

        // Writers that have not seen the table yet have committed by then. The wait is short,
        // because others would queue behind it.
        let mut tx = self.begin().await?;
        tx.execute(tx.sql("SET LOCAL lock_timeout = '1s'")).await?;
        tx.execute(tx.sql("LOCK TABLE embeddings IN SHARE MODE"))
            .await?;
        tx.commit().await?;
        let mut after = 0;

        while let Some(last) = self.copy_vectors(after).await? {
            after = last;
        }

        self.backend
            .pgvector
            .complete
            .store(true, Ordering::Relaxed);

        Ok(())
    }

    /// Copies what is missing among the next rows after an id; returns the last id.
    async fn copy_vectors(&self, after: i64) -> Result<Option<i64>, StoreError> {
        let last = "SELECT MAX(w.id) AS last_id FROM (SELECT e.id FROM embeddings e WHERE e.id > ? ORDER BY e.id LIMIT ?) w";
        let find = "SELECT e.id, e.vector FROM embeddings e WHERE e.id > ? AND e.id <= ? AND NOT EXISTS \
                    (SELECT 1 FROM embedding_vectors v WHERE v.space = e.space AND v.owner_kind = e.owner_kind \
                    AND v.model = e.model AND v.entry_id = e.entry_id) ORDER BY e.id";
        self.retry("copy_vectors", || async {
            let row = self
                .fetch_all(self.sql(last).bind(after).bind(WINDOW))
                .await?;
            let Some(end) = row
                .first()
                .map(|row| row.try_get::<Option<i64>, _>("last_id"))
                .transpose()?
                .flatten()
            else {
                return Ok(None);
            };
            let missing = self.fetch_all(self.sql(find).bind(after).bind(end)).await?;

            for some in missing.chunks(ROWS) {
                let marks = vec!["(CAST(? AS BIGINT), ?)"; some.len()].join(", ");
                // Of existing chunks, which are locked until this is written.
                let sql = format!(
                    "INSERT INTO embedding_vectors (space, owner_kind, model, entry_id, embedding) \
                     SELECT e.space, e.owner_kind, e.model, t.id, CAST(x.vector AS vector) \
                     FROM (VALUES {marks}) AS x (id, vector) JOIN embeddings e ON e.id = x.id \
                     JOIN search_entries t ON t.id = e.entry_id FOR KEY SHARE OF t, e \
                     ON CONFLICT DO NOTHING"
                );

                let mut insert = self.composed(&sql).persistent(some.len() == ROWS);
                for row in some {
                    insert = insert
                        .bind(row.try_get::<i64, _>("id")?)
                        .bind(written(&from_bytes(&row.try_get::<Vec<u8>, _>("vector")?)));
                }

                let mut tx = self.begin().await?;
                tx.execute(insert).await?;
                tx.commit().await?;
            }

            Ok(Some(end))
        })
        .await
    }

    /// The nearest chunks of a space, of any source, nearest first.
    pub async fn list_nearest(
        &self,
        space: &Space,
        kind: OwnerKind,
        model: &str,
        asked: &[f32],
        most: usize,
    ) -> Result<Vec<i64>, StoreError> {
        // In a subquery: otherwise a generic plan would parse the vector again for every row.
        let sql = "SELECT v.entry_id FROM embedding_vectors v WHERE v.space = ? AND v.owner_kind = ? AND v.model = ? \
                   AND vector_dims(v.embedding) = ? ORDER BY v.embedding <=> (SELECT CAST(? AS vector)), v.entry_id LIMIT ?";
        let (asked, dims) = (written(asked), i32::try_from(asked.len()).unwrap_or(0));
        self.read_values("list_nearest", || {
            let query = self
                .sql(sql)
                .bind(space.as_str())
                .bind(kind.into_str())
                .bind(model.to_owned())
                .bind(dims)
                .bind(asked.clone());

            query.bind(row_limit(most))
        })
        .await
    }
}

impl Tx {
    /// Stores vectors for pgvector as well, where it is used.
    pub(super) async fn add_pgvectors(
        &mut self,
        space: &Space,
        kind: OwnerKind,
        model: &str,
        vectors: &[NewEmbedding<'_>],
    ) -> Result<(), StoreError> {
        if vectors.is_empty() || !self.has_pgvector().await? {
            return Ok(());
        }

        let sql = "INSERT INTO embedding_vectors (space, owner_kind, model, entry_id, embedding) \
                   VALUES (?, ?, ?, ?, CAST(? AS vector))";
        for some in vectors.chunks(ROWS) {
            let mut insert = self.dialect().insert_rows_if_absent(sql, some.len());
            for new in some {
                insert = insert
                    .bind(space.as_str())
                    .bind(kind.into_str())
                    .bind(model.to_owned())
                    .bind(new.entry_id)
                    .bind(written(&from_bytes(new.vector)));
            }

            self.execute(insert).await?;
        }

        Ok(())
    }

    /// Deletes some vectors of models other than the space's, where pgvector is used; returns how
    /// many.
    pub(super) async fn remove_other_pgvectors(
        &mut self,
        space: &Space,
        setting: &str,
    ) -> Result<u64, StoreError> {
        if !self.has_pgvector().await? {
            return Ok(0);
        }

        let sql = "DELETE FROM embedding_vectors WHERE ctid = ANY (ARRAY(SELECT v.ctid FROM settings s \
                   JOIN embedding_vectors v ON v.space = s.space WHERE s.space = ? AND s.name = ? \
                   AND v.model <> s.value_json LIMIT 2000))";
        let delete = self.sql(sql).bind(space.as_str()).bind(setting.to_owned());
        self.execute(delete).await
    }

    /// Checked until it exists: another process may create the table at any time.
    async fn has_pgvector(&mut self) -> Result<bool, StoreError> {
        if self.backend.engine != Engine::Postgres {
            return Ok(false);
        }

        if self.backend.pgvector.there.load(Ordering::Relaxed) {
            return Ok(true);
        }

        let row = self.fetch_optional(self.sql(THERE)).await?;
        let there = row.map(|row| row.try_get::<i32, _>("there")).transpose()? == Some(1);
        self.backend.pgvector.there.store(there, Ordering::Relaxed);
        Ok(there)
    }
}

/// A vector in pgvector's format.
fn written(vector: &[f32]) -> String {
    let mut text = String::with_capacity(vector.len() * 12 + 2);
    text.push('[');
    for value in vector {
        if text.len() > 1 {
            text.push(',');
        }
        let _ = write!(text, "{value}");
    }

    text.push(']');
    text
}
