//! Rows of `embeddings`: the vectors of chunks, and the embedding model of each space.

use std::collections::HashSet;

use memoir_index::{OwnerKind, VectorRow};

use super::candidates::StatementBuilder;
use super::dialect::{BindAll as _, Statement};
use super::rows::row;
use super::search_entries::OF_SOURCE;
use super::{Store, StoreError, Tx, row_limit};
use crate::base::clock::Timestamp;
use crate::base::ids::Space;
use crate::model::scope::QueryScope;
use crate::model::search::Unembedded;

/// The setting with the embedding model of a space.
const MODEL: &str = "embedding_model";
const SELECT_MODEL: &str = "SELECT value_json FROM settings WHERE space = ? AND name = ?";

/// Vectors `e` of one model whose entry has none of another; binds as [`of_model`], then the other.
macro_rules! unembedded {
    () => {
        " WHERE e.space = ? AND e.owner_kind = ? AND e.model = ? \
         AND NOT EXISTS (SELECT 1 FROM embeddings n WHERE n.space = e.space \
         AND n.owner_kind = e.owner_kind AND n.entry_id = e.entry_id AND n.model = ?)"
    };
}

/// Rows and bytes per insert.
const ROWS: usize = 200;
const BYTES: usize = 1_000_000;

/// The vector of a chunk to store.
#[derive(Debug, Clone, Copy)]
pub struct NewEmbedding<'v> {
    pub entry_id: i64,
    pub dim: i64,
    /// As `memoir_index::vectors::to_bytes` writes it.
    pub vector: &'v [u8],
}

/// Which vectors are read.
#[derive(Debug, Clone, Copy)]
pub enum VectorPart<'v> {
    /// This many after an entry.
    After(i64, usize),
    /// The vectors of these entries.
    Of(&'v [i64]),
}

/// A vector and its entry.
#[derive(Debug, Clone)]
pub struct PlacedVector {
    pub owner_id: i64,
    pub group_id: String,
    pub version_id: i64,
    pub created_at: i64,
    pub vector: VectorRow,
}

impl Store {
    /// Vectors of a space's chunks by ascending id, after the given one.
    pub async fn list_vectors(
        &self,
        space: &Space,
        kind: OwnerKind,
        model: &str,
        after: i64,
        limit: usize,
    ) -> Result<Vec<VectorRow>, StoreError> {
        let sql = "SELECT entry_id, vector FROM embeddings WHERE space = ? AND owner_kind = ? AND model = ? \
                   AND entry_id > ? ORDER BY entry_id LIMIT ?";
        self.read_all("list_vectors", || {
            let query = of_model(self.sql(sql), space, kind, model);
            query.bind(after).bind(row_limit(limit))
        })
        .await
    }

    /// Vectors of the chunks of a scope, each with its source; limited to the given chunks, if any.
    pub async fn list_placed_vectors(
        &self,
        space: &Space,
        kind: OwnerKind,
        scope: Option<&QueryScope>,
        model: &str,
        part: VectorPart<'_>,
    ) -> Result<Vec<PlacedVector>, StoreError> {
        let mut statement = StatementBuilder::default();
        statement.push(
            "SELECT e.entry_id, c.owner_id, c.group_id, c.version_id, c.created_at, e.vector FROM embeddings e ",
        );
        statement.push(self.dialect().join_in_order());
        statement.push(" search_entries c ON c.id = e.entry_id");
        if scope.is_some() {
            statement.push(OF_SOURCE);
        }

        statement.text(" WHERE e.space = ?", space.as_str());
        statement.text(" AND e.owner_kind = ?", kind.into_str());
        statement.text(" AND e.model = ?", model);
        let limit = match part {
            VectorPart::After(after, limit) => {
                statement.number(" AND e.entry_id > ?", after);
                limit
            }
            VectorPart::Of(ids) => {
                // Numbers need no placeholders.
                let list = ids.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
                statement.push(&format!(
                    " AND e.entry_id IN ({})",
                    if list.is_empty() { "0" } else { &list }
                ));
                ids.len()
            }
        };

        if let Some(scope) = scope {
            statement.scope(scope);
        }

        statement.limit(" ORDER BY e.entry_id", limit);

        self.read_all("list_placed_vectors", || {
            self.put_together(&statement, false)
        })
        .await
    }

    /// Vectors of some entries, by ascending id.
    pub async fn list_vectors_of(
        &self,
        space: &Space,
        kind: OwnerKind,
        model: &str,
        ids: &[i64],
    ) -> Result<Vec<VectorRow>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }

        let sql = "SELECT entry_id, vector FROM embeddings WHERE space = ? AND owner_kind = ? AND model = ? \
                   AND entry_id IN (??) ORDER BY entry_id";
        self.read_all("list_vectors_of", || {
            let query = self.dialect().query_list(sql, ids.len());
            of_model(query, space, kind, model).bind_all(ids.iter().copied())
        })
        .await
    }

    /// The dimension of this model's vectors in a space; `None` if there is no vector.
    pub async fn find_vector_dim(
        &self,
        space: &Space,
        kind: OwnerKind,
        model: &str,
    ) -> Result<Option<i64>, StoreError> {
        let sql =
            "SELECT dim FROM embeddings WHERE space = ? AND owner_kind = ? AND model = ? LIMIT 1";
        self.read_value("find_vector_dim", || {
            of_model(self.sql(sql), space, kind, model)
        })
        .await
    }

    /// The embedding model of a space, once it has vectors.
    pub async fn find_embedding_model(&self, space: &Space) -> Result<Option<String>, StoreError> {
        self.read_value("find_embedding_model", || {
            self.sql(SELECT_MODEL).bind(space.as_str()).bind(MODEL)
        })
        .await
    }

    /// Spaces with another embedding model than this.
    pub async fn list_other_embedding_models(
        &self,
        model: &str,
    ) -> Result<Vec<(String, String)>, StoreError> {
        let sql = "SELECT space, value_json FROM settings WHERE name = ? AND value_json <> ?";
        self.read_all("list_other_embedding_models", || {
            self.sql(sql).bind(MODEL).bind(model)
        })
        .await
    }

    /// Texts with a vector of one model and none of another, by ascending id.
    pub async fn list_unembedded(
        &self,
        space: &Space,
        kind: OwnerKind,
        old: &str,
        new: &str,
        limit: usize,
    ) -> Result<Vec<Unembedded>, StoreError> {
        const CHUNKS: &str = concat!(
            "SELECT e.entry_id, c.text_content FROM embeddings e \
             JOIN search_entries t ON t.id = e.entry_id JOIN chunks c ON c.id = t.owner_id",
            unembedded!(),
            " ORDER BY e.entry_id LIMIT ?"
        );
        const MEMORIES: &str = concat!(
            "SELECT e.entry_id, m.content AS text_content FROM embeddings e \
             JOIN search_entries t ON t.id = e.entry_id JOIN memories m ON m.seq = t.owner_id",
            unembedded!(),
            " ORDER BY e.entry_id LIMIT ?"
        );
        let sql = if kind == OwnerKind::Memory {
            MEMORIES
        } else {
            CHUNKS
        };
        self.read_all("list_unembedded", || {
            let query = of_model(self.sql(sql), space, kind, old);
            query.bind(new).bind(row_limit(limit))
        })
        .await
    }
}

impl Store {
    /// Deletes some vectors of models other than the space's; returns how many.
    pub async fn remove_other_embeddings(&self, space: &Space) -> Result<u64, StoreError> {
        // MySQL requires a derived table here.
        let sql = "DELETE FROM embeddings WHERE id IN (SELECT id FROM (SELECT e.id FROM settings s JOIN embeddings e \
                   ON e.space = s.space WHERE s.space = ? AND s.name = ? \
                   AND e.model <> s.value_json LIMIT 2000) q)";
        self.retry("remove_other_embeddings", || async {
            let mut tx = self.begin().await?;
            // Locked, so that no other process switches the space in the meantime.
            tx.lock_embedding_model(space).await?;
            let delete = tx.sql(sql).bind(space.as_str()).bind(MODEL);
            let mut removed = tx.execute(delete).await?;
            if removed == 0 {
                removed = tx.remove_other_pgvectors(space, MODEL).await?;
            }

            tx.commit().await?;
            Ok(removed)
        })
        .await
    }
}

impl Tx {
    /// Stores vectors; existing ones stay.
    pub async fn add_embeddings(
        &mut self,
        space: &Space,
        kind: OwnerKind,
        model: &str,
        vectors: &[NewEmbedding<'_>],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO embeddings (space, owner_kind, entry_id, model, dim, vector, created_at) \
                   VALUES (?, ?, ?, ?, ?, ?, ?)";
        let mut rest = vectors;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fitting = rest.iter().take(ROWS).take_while(|new| {
                bytes += new.vector.len();
                bytes <= BYTES
            });

            let (some, after) = rest.split_at(fitting.count().max(1));
            rest = after;
            let mut insert = self.dialect().insert_rows_if_absent(sql, some.len());

            for new in some {
                insert = insert
                    .bind(space.as_str())
                    .bind(kind.into_str())
                    .bind(new.entry_id)
                    .bind(model.to_owned())
                    .bind(new.dim)
                    .bind(new.vector.to_vec())
                    .bind(now.as_micros());
            }

            self.execute(insert).await?;
        }

        self.add_pgvectors(space, kind, model, vectors).await
    }

    /// The embedding model of the space; if it has none yet, this one from now on. The caller holds
    /// the space's lock.
    pub async fn settle_embedding_model(
        &mut self,
        space: &Space,
        model: &str,
        now: Timestamp,
    ) -> Result<String, StoreError> {
        if let Some(known) = self.hold_embedding_model(space).await? {
            return Ok(known);
        }

        let insert =
            "INSERT INTO settings (value_json, updated_at, space, name) VALUES (?, ?, ?, ?)";
        let insert = self.dialect().insert_if_absent(insert);
        let insert = insert
            .bind(model.to_owned())
            .bind(now.as_micros())
            .bind(space.as_str().to_owned())
            .bind(MODEL);

        self.execute(insert).await?;
        let settled = self.hold_embedding_model(space).await?;
        Ok(settled.unwrap_or_else(|| model.to_owned()))
    }

    async fn hold_embedding_model(&mut self, space: &Space) -> Result<Option<String>, StoreError> {
        let find = self.dialect().query_for_share(SELECT_MODEL);
        self.read_embedding_model(find, space).await
    }

    /// Locks the model for a transaction that may switch the space to another one; all other users
    /// of the model wait.
    pub async fn lock_embedding_model(
        &mut self,
        space: &Space,
    ) -> Result<Option<String>, StoreError> {
        let find = self.dialect().query_for_update(SELECT_MODEL);
        self.read_embedding_model(find, space).await
    }

    async fn read_embedding_model(
        &mut self,
        find: Statement,
        space: &Space,
    ) -> Result<Option<String>, StoreError> {
        self.read_value(find.bind(space.as_str()).bind(MODEL)).await
    }

    /// Switches the space to another embedding model. The caller holds the space's lock.
    pub async fn update_embedding_model(
        &mut self,
        space: &Space,
        model: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let update = self
            .sql("UPDATE settings SET value_json = ?, updated_at = ? WHERE space = ? AND name = ?");
        let update = update
            .bind(model.to_owned())
            .bind(now.as_micros())
            .bind(space.as_str())
            .bind(MODEL);

        self.execute(update).await.map(|_| ())
    }

    /// Which of these entries exist; they are locked until this transaction ends.
    pub async fn hold_entries(
        &mut self,
        space: &Space,
        kind: OwnerKind,
        ids: &[i64],
    ) -> Result<HashSet<i64>, StoreError> {
        let marks = vec!["?"; ids.len().max(1)].join(",");
        let sql = format!(
            "SELECT id FROM search_entries WHERE space = ? AND owner_kind = ? AND id IN ({marks})"
        );
        let query = self.dialect().query_for_share(&sql);
        let query = query
            .persistent(false)
            .bind(space.as_str().to_owned())
            .bind(kind.into_str());

        let held = self
            .read_values(query.bind_all(ids.iter().copied()))
            .await?;
        Ok(held.into_iter().collect())
    }

    /// Whether entries of chunks have a vector of one model and none of another.
    pub async fn has_unembedded(
        &mut self,
        space: &Space,
        kind: OwnerKind,
        old: &str,
        new: &str,
    ) -> Result<bool, StoreError> {
        let sql = concat!(
            "SELECT e.entry_id FROM embeddings e",
            unembedded!(),
            " LIMIT 1"
        );
        let query = of_model(self.sql(sql), space, kind, old).bind(new.to_owned());
        Ok(self.fetch_optional(query).await?.is_some())
    }
}

fn of_model(query: Statement, space: &Space, kind: OwnerKind, model: &str) -> Statement {
    query
        .bind(space.as_str().to_owned())
        .bind(kind.into_str())
        .bind(model.to_owned())
}

row! {
    VectorRow as "" { entry_id, vector }
}

row! {
    PlacedVector as "" { owner_id, group_id, version_id, created_at }
    from row { vector: VectorRow::read(row)? }
}

row! {
    Unembedded as "" { entry_id, text = "text_content" }
}
