//! Vectors once more, as pgvector compares them inside PostgreSQL: for spaces that do not fit into memory, where the
//! database has that extension. `embeddings` stays what counts; this table is made from it, and whoever writes a vector
//! writes both.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::{AnyConnection, Executor as _, Row as _};

use super::backend::Backend;
use super::embeddings::{CHUNK, NewEmbedding};
use super::{Engine, Store, StoreError, Tx};
use crate::base::ids::Space;

/// Whether there is something to make, and whether we may.
const WANTED: &str = "SELECT CASE WHEN to_regtype('vector') IS NOT NULL AND to_regclass('embedding_vectors') IS NULL \
                      AND has_schema_privilege(current_schema(), 'CREATE') THEN 1 ELSE 0 END";
const TABLE: &str = "CREATE TABLE embedding_vectors (space VARCHAR(64) NOT NULL, model VARCHAR(255) NOT NULL, \
                     chunk_id BIGINT NOT NULL REFERENCES chunks (id) ON DELETE CASCADE, embedding vector NOT NULL, \
                     PRIMARY KEY (space, model, chunk_id))";
const INDEX: &str = "CREATE INDEX embedding_vectors_chunk ON embedding_vectors (chunk_id)";
/// Rows in one insert.
const ROWS: usize = 100;

/// What a process knows of the table.
#[derive(Debug, Default)]
pub struct PgVector {
    there: AtomicBool,
    /// Whether every vector is in it.
    complete: AtomicBool,
}

/// Makes the table where the database has the extension; part of bringing the schema up to date.
pub async fn make_table(connection: &mut AnyConnection, backend: &Backend) -> Result<(), StoreError> {
    if backend.engine != Engine::Postgres {
        return Ok(());
    }
    let wanted = backend.dialect.query(WANTED).fetch_one(&mut *connection).await;
    if wanted.and_then(|row| row.try_get::<i32, _>(0)).map_err(|error| backend.explain(&error))? == 1 {
        for statement in [TABLE, INDEX] {
            connection.execute(statement).await.map_err(|error| backend.explain(&error))?;
        }
        tracing::info!("vectors are kept for pgvector, too");
    }
    Ok(())
}

impl Store {
    /// Whether the database compares vectors itself, and knows them all.
    #[must_use]
    pub fn compares_vectors(&self) -> bool {
        self.backend.pgvector.complete.load(Ordering::Relaxed)
    }

    /// Puts vectors into the table that were written before it was there; from then on the database compares them.
    pub async fn complete_pgvector(&self) -> Result<(), StoreError> {
        if self.engine() != Engine::Postgres || !self.begin().await?.has_pgvector().await? {
            return Ok(());
        }
        // Whoever has not seen the table yet has written by then.
        let mut tx = self.begin().await?;
        tx.execute(tx.sql("LOCK TABLE embeddings IN SHARE MODE")).await?;
        tx.commit().await?;
        let mut after = 0;
        while let Some(last) = self.copy_vectors(after).await? {
            after = last;
        }
        self.backend.pgvector.complete.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Copies some that are missing behind an id; gives the last of them.
    async fn copy_vectors(&self, after: i64) -> Result<Option<i64>, StoreError> {
        let find = "SELECT e.id, e.vector FROM embeddings e WHERE e.id > ? AND e.owner_kind = ? AND NOT EXISTS \
                    (SELECT 1 FROM embedding_vectors v WHERE v.space = e.space AND v.model = e.model \
                    AND v.chunk_id = e.owner_id) ORDER BY e.id LIMIT ?";
        self.retry("copy_vectors", || async {
            let rows = i64::try_from(ROWS).unwrap_or(i64::MAX);
            let missing = self.fetch_all(self.sql(find).bind(after).bind(CHUNK).bind(rows)).await?;
            let Some(last) = missing.last() else { return Ok(None) };
            let marks = vec!["(CAST(? AS BIGINT), ?)"; missing.len()].join(", ");
            // Of passages that are still there, which then stay until this is written.
            let sql = format!(
                "INSERT INTO embedding_vectors (space, model, chunk_id, embedding) \
                 SELECT e.space, e.model, c.id, CAST(x.vector AS vector) FROM (VALUES {marks}) AS x (id, vector) \
                 JOIN embeddings e ON e.id = x.id JOIN chunks c ON c.id = e.owner_id FOR KEY SHARE OF c \
                 ON CONFLICT DO NOTHING"
            );
            let mut insert = self.backend.dialect.assembled(&sql).persistent(missing.len() == ROWS);
            for row in &missing {
                insert = insert.bind(row.try_get::<i64, _>(0)?).bind(written(&row.try_get::<Vec<u8>, _>(1)?));
            }
            let mut tx = self.begin().await?;
            tx.execute(insert).await?;
            tx.commit().await?;
            Ok(Some(last.try_get(0)?))
        })
        .await
    }

    /// The nearest passages of a space, whatever document they are of; the nearest first.
    pub async fn list_nearest(
        &self,
        space: &Space,
        model: &str,
        asked: &[f32],
        most: usize,
    ) -> Result<Vec<i64>, StoreError> {
        let sql = "SELECT v.chunk_id FROM embedding_vectors v WHERE v.space = ? AND v.model = ? \
                   AND vector_dims(v.embedding) = ? ORDER BY v.embedding <=> CAST(? AS vector), v.chunk_id LIMIT ?";
        let bytes: Vec<u8> = asked.iter().flat_map(|value| value.to_le_bytes()).collect();
        let (asked, dims) = (written(&bytes), i32::try_from(asked.len()).unwrap_or(0));
        self.retry("list_nearest", || async {
            let query = self.sql(sql).bind(space.as_str()).bind(model.to_owned()).bind(dims).bind(asked.clone());
            let rows = self.fetch_all(query.bind(i64::try_from(most).unwrap_or(i64::MAX))).await?;
            rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
        })
        .await
    }
}

impl Tx {
    /// Stores vectors for pgvector as well, where it is used.
    pub(super) async fn add_pgvectors(
        &mut self,
        space: &Space,
        model: &str,
        vectors: &[NewEmbedding<'_>],
    ) -> Result<(), StoreError> {
        if vectors.is_empty() || !self.has_pgvector().await? {
            return Ok(());
        }
        let sql =
            "INSERT INTO embedding_vectors (space, model, chunk_id, embedding) VALUES (?, ?, ?, CAST(? AS vector))";
        for some in vectors.chunks(ROWS) {
            let mut insert = self.backend.dialect.insert_rows_if_absent(sql, some.len());
            for new in some {
                insert = insert.bind(space.as_str()).bind(model.to_owned()).bind(new.chunk_id);
                insert = insert.bind(written(new.vector));
            }
            self.execute(insert).await?;
        }
        Ok(())
    }

    /// Removes vectors of other models than the space is searched by, where pgvector is used.
    pub(super) async fn remove_other_pgvectors(&mut self, space: &Space, setting: &str) -> Result<(), StoreError> {
        if !self.has_pgvector().await? {
            return Ok(());
        }
        let sql = "DELETE FROM embedding_vectors v USING settings s WHERE s.space = ? AND s.name = ? \
                   AND v.space = s.space AND v.model <> s.value_json";
        let delete = self.sql(sql).bind(space.as_str()).bind(setting.to_owned());
        self.execute(delete).await.map(|_| ())
    }

    /// Looked up until it is there: another process may make the table at any time.
    async fn has_pgvector(&mut self) -> Result<bool, StoreError> {
        if self.backend.engine != Engine::Postgres {
            return Ok(false);
        }
        if self.backend.pgvector.there.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let query = self.sql("SELECT CASE WHEN to_regclass('embedding_vectors') IS NULL THEN 0 ELSE 1 END");
        let row = self.fetch_optional(query).await?;
        let there = row.map(|row| row.try_get::<i32, _>(0)).transpose()? == Some(1);
        self.backend.pgvector.there.store(there, Ordering::Relaxed);
        Ok(there)
    }
}

/// A vector of float32, little-endian, as pgvector reads it.
fn written(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 3 + 2);
    text.push('[');
    for value in bytes.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)) {
        if text.len() > 1 {
            text.push(',');
        }
        let _ = write!(text, "{value}");
    }
    text.push(']');
    text
}
