//! SQL for the balance of the hierarchy: what has grown too large, and what is known about it.

use super::categories::AT_ONCE;
use super::dialect::BindAll as _;
use super::{Store, StoreError, Tx};
use crate::base::ids::Space;
use crate::model::category::{ChangeKind, NamedBy};

impl Tx {
    /// Leaves with more chunks than this.
    pub async fn list_leaves_above(
        &mut self,
        space: &Space,
        depth: i64,
        chunks: i64,
    ) -> Result<Vec<i64>, StoreError> {
        let sql = "SELECT id FROM categories WHERE space = ? AND level = ? AND chunk_count > ? AND closed_at IS NULL";
        let query = self.sql(sql).bind(space.as_str()).bind(depth);
        self.read_values(query.bind(chunks)).await
    }

    /// Parents with more children than this, and how many they have; 0 stands for the root.
    pub async fn list_crowded_parents(
        &mut self,
        space: &Space,
        children: i64,
    ) -> Result<Vec<(i64, i64)>, StoreError> {
        let sql = "SELECT parent_key, COUNT(*) AS children FROM categories WHERE space = ? AND closed_at IS NULL \
                   GROUP BY parent_key HAVING COUNT(*) > ?";
        let query = self.sql(sql).bind(space.as_str()).bind(children);
        self.read_all(query).await
    }

    /// Changes of these categories that memoir made and a person undid: the category, and the one that
    /// took its place.
    pub async fn list_undone(
        &mut self,
        space: &Space,
        kind: ChangeKind,
        ids: &[i64],
    ) -> Result<Vec<(i64, Option<i64>)>, StoreError> {
        let mut found = Vec::new();
        for some in ids.chunks(AT_ONCE) {
            let sql = "SELECT category_id, to_id FROM category_changes WHERE space = ? AND kind = ? AND actor = ? \
                       AND undone_at IS NOT NULL AND category_id IN (??)";
            let query = self
                .dialect()
                .query_list(sql, some.len())
                .bind(space.as_str())
                .bind(kind.into_str())
                .bind(NamedBy::Embedded.into_str());
            let query = query.bind_all(some.iter().copied());
            found.extend(self.read_all::<(i64, Option<i64>)>(query).await?);
        }

        Ok(found)
    }
}

impl Store {
    /// The beginning of the first chunk of each of these leaves.
    pub async fn list_first_texts(
        &self,
        space: &Space,
        leaves: &[i64],
        chars: i32,
    ) -> Result<Vec<(i64, String)>, StoreError> {
        let mut found = Vec::new();
        for some in leaves.chunks(AT_ONCE) {
            let sql = "SELECT c.category_id, SUBSTR(c.text_content, 1, ?) AS beginning FROM (SELECT MIN(f.id) AS id \
                       FROM chunks f WHERE f.space = ? AND f.category_id IN (??) GROUP BY f.category_id) o \
                       JOIN chunks c ON c.id = o.id";
            let texts = self.read_all("list_first_texts", || {
                let query = self.dialect().query_list(sql, some.len());
                let query = query.persistent(false).bind(chars).bind(space.as_str());
                query.bind_all(some.iter().copied())
            });
            found.extend(texts.await?);
        }

        Ok(found)
    }

    /// The sources of the chunks of these leaves, each once.
    pub async fn list_sources_of_leaves(
        &self,
        space: &Space,
        leaves: &[i64],
    ) -> Result<Vec<(i64, String)>, StoreError> {
        let mut found = Vec::new();
        for some in leaves.chunks(AT_ONCE) {
            let sql = "SELECT DISTINCT category_id, source_id FROM chunks WHERE space = ? AND category_id IN (??)";
            let sources = self.read_all("list_sources_of_leaves", || {
                let query = self.dialect().query_list(sql, some.len());
                let query = query.persistent(false).bind(space.as_str());
                query.bind_all(some.iter().copied())
            });
            found.extend(sources.await?);
        }

        Ok(found)
    }
}
