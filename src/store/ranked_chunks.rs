//! What a query reads that ranks chunks one by one: where the found chunks lie, which filed chunks
//! share their text, and the chunks themselves.

use std::collections::HashMap;

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::candidates::{StatementBuilder, read_candidate};
use super::{Store, StoreError};
use crate::base::ids::Space;
use crate::model::chunk::TAXONOMY;
use crate::model::query::{Candidate, PlacedChunk, QueryScope};

/// Ids per statement.
const AT_ONCE: usize = 500;

const PLACE: &str = "SELECT c.id, c.version_id, c.profile, c.start_char, c.end_char, c.token_count, \
                     COALESCE(c.category_id, 0) AS category_id FROM chunks c";

impl Store {
    /// Where chunks lie, by id; deleted ones are missing.
    pub async fn list_placed_chunks(
        &self,
        space: &Space,
        ids: &[i64],
    ) -> Result<Vec<PlacedChunk>, StoreError> {
        // By id only: if its index could be used, SQLite would scan the whole space.
        let condition = " WHERE COALESCE(c.space, '') = ?";
        self.list_placed(space, condition, " AND c.id IN (", ids)
            .await
    }

    /// The filed chunks of some versions.
    pub async fn list_filed_chunks(
        &self,
        space: &Space,
        version_ids: &[i64],
    ) -> Result<Vec<PlacedChunk>, StoreError> {
        let condition = format!(" WHERE c.profile = '{TAXONOMY}' AND c.space = ?");
        self.list_placed(space, &condition, " AND c.version_id IN (", version_ids)
            .await
    }

    async fn list_placed(
        &self,
        space: &Space,
        condition: &str,
        list: &str,
        values: &[i64],
    ) -> Result<Vec<PlacedChunk>, StoreError> {
        let mut found = Vec::new();
        for some in values.chunks(AT_ONCE) {
            let mut statement = StatementBuilder::of(PLACE);
            statement.text(condition, space.as_str());
            statement.numbers(list, some);
            let rows = self.retry("list_placed", || async {
                self.fetch_all(self.put_together(&statement, false)).await
            });

            for row in rows.await? {
                found.push(read_placed(&row)?);
            }
        }

        Ok(found)
    }

    /// The headings above chunks, by chunk; those without a heading are missing.
    pub async fn list_chunk_headings(
        &self,
        space: &Space,
        ids: &[i64],
    ) -> Result<HashMap<i64, String>, StoreError> {
        let mut found = HashMap::new();
        for some in ids.chunks(AT_ONCE) {
            let mut statement = StatementBuilder::of("SELECT c.id, c.heading FROM chunks c");
            statement.text(" WHERE COALESCE(c.space, '') = ?", space.as_str());
            statement.numbers(" AND c.id IN (", some);
            statement.push(" AND c.heading IS NOT NULL");
            let rows = self.retry("list_chunk_headings", || async {
                self.fetch_all(self.put_together(&statement, false)).await
            });

            for row in rows.await? {
                found.insert(row.try_get("id")?, row.try_get("heading")?);
            }
        }

        Ok(found)
    }

    /// Chunks by id, filed or not, without those outside a scope; deleted ones are missing.
    pub async fn list_ranked_chunks(
        &self,
        space: &Space,
        ids: &[i64],
        scope: Option<&QueryScope>,
    ) -> Result<Vec<Candidate>, StoreError> {
        let mut found = Vec::new();
        for some in ids.chunks(AT_ONCE) {
            let mut statement = StatementBuilder::of(
                "SELECT c.id, c.source_id, v.version, c.text_content, c.start_char, c.end_char, \
                 COALESCE(c.category_id, 0) AS category_id, c.created_at, c.token_count, c.tokenizer, \
                 c.version_id, s.filename, s.path \
                 FROM chunks c JOIN source_versions v ON v.space = c.space AND v.id = c.version_id \
                 JOIN sources s ON s.space = c.space AND s.id = c.source_id",
            );

            statement.text(" WHERE COALESCE(c.space, '') = ?", space.as_str());
            statement.numbers(" AND c.id IN (", some);
            if let Some(scope) = scope {
                statement.scope(scope);
            }

            let rows = self.retry("list_ranked_chunks", || async {
                self.fetch_all(self.put_together(&statement, false)).await
            });

            for row in rows.await? {
                found.push(read_candidate(&row)?);
            }
        }

        Ok(found)
    }
}

fn read_placed(row: &AnyRow) -> Result<PlacedChunk, StoreError> {
    let profile: String = row.try_get("profile")?;
    Ok(PlacedChunk {
        chunk_id: row.try_get("id")?,
        version_id: row.try_get("version_id")?,
        filed: profile == TAXONOMY,
        start_char: row.try_get("start_char")?,
        end_char: row.try_get("end_char")?,
        token_count: row.try_get("token_count")?,
        category_id: row.try_get("category_id")?,
    })
}
