//! Chunks with their sources: what results show, and what prompts are made of.

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::candidates::StatementBuilder;
use super::{Store, StoreError};
use crate::base::clock::Timestamp;
use crate::base::ids::{SourceId, Space};
use crate::model::chunk::SourceChunk;
use crate::model::scope::QueryScope;

/// Ids per statement.
const AT_ONCE: usize = 500;

/// What [`read_source_chunk`] reads of chunks `c`, versions `v` and sources `s`.
const COLUMNS: &str = "c.id, c.source_id, v.version, c.version_id, c.profile, c.ordinal, c.text_content, c.token_count, \
     c.tokenizer, c.start_char, c.end_char, c.heading, c.created_at, s.filename, s.path, s.user_id";

/// Begins a selection of what [`read_source_chunk`] reads; `leaf` is the column with the leaf.
pub(super) fn select_source_chunks(leaf: &str) -> String {
    format!("SELECT {COLUMNS}, {leaf} AS category_id{TABLES}")
}

/// Chunks with their versions and sources.
pub(super) const TABLES: &str = " FROM chunks c JOIN source_versions v ON v.space = c.space AND v.id = c.version_id \
                                 JOIN sources s ON s.space = c.space AND s.id = c.source_id";

impl StatementBuilder {
    /// Appends the selection of chunks with what [`read_source_chunk`] reads; their leaves are those of
    /// now or of a time.
    pub(super) fn source_chunks(&mut self, as_of: Option<Timestamp>) {
        self.leaf(&format!("SELECT {COLUMNS}, "), as_of);
        self.push(&format!(" AS category_id{TABLES}"));
    }
}

impl Store {
    /// Chunks by id, without those outside of a scope; deleted ones are missing.
    pub async fn list_source_chunks(
        &self,
        space: &Space,
        ids: &[i64],
        scope: Option<&QueryScope>,
    ) -> Result<Vec<SourceChunk>, StoreError> {
        let mut found = Vec::with_capacity(ids.len());
        for some in ids.chunks(AT_ONCE) {
            let mut statement = StatementBuilder::default();
            statement.source_chunks(scope.and_then(|scope| scope.as_of));
            // By id only: if its index could be used, SQLite would scan the whole space.
            statement.text(" WHERE COALESCE(c.space, '') = ?", space.as_str());
            statement.numbers(" AND c.id IN (", some);
            if let Some(scope) = scope {
                statement.scope(scope);
            }

            let rows = self.retry("list_source_chunks", || async {
                self.fetch_all(self.put_together(&statement, false)).await
            });

            for row in rows.await? {
                found.push(read_source_chunk(&row)?);
            }
        }

        Ok(found)
    }
}

pub(super) fn read_source_chunk(row: &AnyRow) -> Result<SourceChunk, StoreError> {
    let text: String = row.try_get("text_content")?;
    Ok(SourceChunk {
        id: row.try_get("id")?,
        source_id: SourceId::from_stored(row.try_get("source_id")?),
        source_version: row.try_get("version")?,
        version_id: row.try_get("version_id")?,
        profile: row.try_get("profile")?,
        ordinal: row.try_get("ordinal")?,
        text: text.into(),
        token_count: row.try_get("token_count")?,
        tokenizer: row.try_get("tokenizer")?,
        start_char: row.try_get("start_char")?,
        end_char: row.try_get("end_char")?,
        heading: row.try_get("heading")?,
        category_id: row.try_get("category_id")?,
        created_at: Timestamp::from_micros(row.try_get("created_at")?),
        filename: row.try_get("filename")?,
        path: row.try_get("path")?,
        user_id: row.try_get("user_id")?,
    })
}
