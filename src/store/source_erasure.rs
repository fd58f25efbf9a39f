//! Erases the rows of a source, and reads the texts that explain the names of categories.

use std::collections::{BTreeMap, BTreeSet};

use memoir_index::OwnerKind;
use sqlx::Row as _;

use super::categories::AT_ONCE;
use super::dialect::{BindAll as _, Dialect, Statement};
use super::rows::{Stored as _, row};
use super::text_uses::count;
use super::{NewEntry, Store, StoreError, Tx};
use crate::base::clock::Timestamp;
use crate::base::ids::{JobId, SourceId, Space};
use crate::model::category::NamedBy;
use crate::model::erasure::RowCounts;

/// Chunks read at once.
const TEXTS: usize = 200;

/// The tables with rows of a source, with the condition that selects them.
const TABLES: [(&str, &str); 8] = [
    (
        "chunks",
        "SELECT COUNT(*) AS number FROM source_versions v JOIN chunks c ON c.space = v.space AND c.version_id = v.id \
         WHERE v.space = ? AND v.source_id = ?",
    ),
    (
        "chunk_placements",
        "SELECT COUNT(*) AS number FROM chunk_placements WHERE space = ? AND source_id = ?",
    ),
    (
        "source_versions",
        "SELECT COUNT(*) AS number FROM source_versions WHERE space = ? AND source_id = ?",
    ),
    (
        "document_versions",
        "SELECT COUNT(*) AS number FROM document_versions WHERE space = ? AND source_id = ?",
    ),
    (
        "contextual_helpers",
        "SELECT COUNT(*) AS number FROM contextual_helpers WHERE space = ? AND source_id = ?",
    ),
    (
        "source_tags",
        "SELECT COUNT(*) AS number FROM source_tags WHERE space = ? AND source_id = ?",
    ),
    (
        "search_entries",
        "SELECT COUNT(*) AS number FROM search_entries WHERE space = ? AND owner_kind IN ('chunk', 'source') \
         AND group_id = ?",
    ),
    (
        "embeddings",
        "SELECT COUNT(*) AS number FROM search_entries s JOIN embeddings e ON e.space = s.space \
         AND e.owner_kind = s.owner_kind AND e.entry_id = s.id WHERE s.space = ? AND s.owner_kind IN ('chunk', 'source') \
         AND s.group_id = ?",
    ),
];

/// A category on the way to chunks of a source, now or formerly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedCategory {
    pub id: i64,
    /// 0 on level 1.
    pub parent_id: i64,
    pub name: String,
    pub named_by: NamedBy,
    pub created_at: Timestamp,
    /// Earlier names.
    pub former: Vec<String>,
}

/// The words about a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceEntry {
    source_id: SourceId,
    owner_id: i64,
    version_id: i64,
    length: i64,
    pub tokens: String,
    created_at: Timestamp,
}

row! {
    SourceEntry as "" { source_id = "group_id", owner_id, version_id, length, tokens, created_at }
}

impl Store {
    /// The categories of a source's chunks, of all versions, those in which they were before, and all
    /// those above them, also before.
    pub async fn list_source_categories(
        &self,
        space: &Space,
        id: &SourceId,
    ) -> Result<Vec<NamedCategory>, StoreError> {
        self.retry("list_source_categories", || async {
            let mut ids = BTreeSet::new();
            let mut next = self.list_leaves_of(space, id).await?;
            while !next.is_empty() {
                ids.extend(next.iter().copied());
                let mut above = Vec::new();
                for some in next.chunks(AT_ONCE) {
                    let query = select_above(self.dialect(), space, some);
                    for row in self.fetch_all(query).await? {
                        above.push(row.try_get::<i64, _>("parent_id")?);
                    }
                }

                next = above;
                next.retain(|id| !ids.contains(id));
            }

            let ids: Vec<i64> = ids.into_iter().collect();
            self.list_named(space, &ids).await
        })
        .await
    }

    async fn list_leaves_of(&self, space: &Space, id: &SourceId) -> Result<Vec<i64>, StoreError> {
        let rows = self
            .fetch_all(select_leaves(self.dialect(), space, id))
            .await?;
        rows.iter()
            .map(|row| Ok(row.try_get("category_id")?))
            .collect()
    }

    /// Categories with all the names that they have had.
    pub async fn list_named(
        &self,
        space: &Space,
        ids: &[i64],
    ) -> Result<Vec<NamedCategory>, StoreError> {
        let mut found: BTreeMap<i64, NamedCategory> = BTreeMap::new();
        for some in ids.chunks(AT_ONCE) {
            let sql = "SELECT id, parent_key, name, named_by, created_at FROM categories \
                       WHERE COALESCE(space, '') = ? AND id IN (??)";
            let query = self.dialect().query_list(sql, some.len());
            let query = query.bind(space.as_str()).bind_all(some.iter().copied());
            for row in self.fetch_all(query).await? {
                let category = NamedCategory::read(&row)?;
                found.insert(category.id, category);
            }

            for (id, former) in self.list_former_names(space, some).await? {
                if let Some(category) = found.get_mut(&id)
                    && category.name != former
                    && !category.former.contains(&former)
                {
                    category.former.push(former);
                }
            }
        }

        Ok(found.into_values().collect())
    }

    /// The names that categories had: those that changes tell of, and those of their earlier states,
    /// which include undone ones.
    async fn list_former_names(
        &self,
        space: &Space,
        ids: &[i64],
    ) -> Result<Vec<(i64, String)>, StoreError> {
        let mut names = Vec::new();
        let list = |sql| {
            let query = self.dialect().query_list(sql, ids.len());
            query.bind(space.as_str()).bind_all(ids.iter().copied())
        };

        let sql = "SELECT category_id, before_json FROM category_changes WHERE space = ? AND category_id IN (??)";
        for row in self.fetch_all(list(sql)).await? {
            let before = super::jobs::read_json(&row, "before_json")?.unwrap_or_default();
            let former = before["name"].as_str().map(ToOwned::to_owned);
            let id = row.try_get("category_id")?;
            names.extend(former.map(|former| (id, former)));
        }

        let sql = "SELECT DISTINCT category_id, name FROM category_states WHERE space = ? AND category_id IN (??)";
        for row in self.fetch_all(list(sql)).await? {
            names.push((row.try_get("category_id")?, row.try_get("name")?));
        }

        Ok(names)
    }

    /// What is said about a source besides its chunks: its name, its tags, its helpers.
    pub async fn list_source_descriptions(
        &self,
        space: &Space,
        id: &SourceId,
    ) -> Result<Vec<String>, StoreError> {
        self.retry("list_source_descriptions", || async {
            let mut texts = Vec::new();
            for sql in [
                "SELECT filename AS text FROM sources WHERE space = ? AND id = ?",
                "SELECT path AS text FROM sources WHERE space = ? AND id = ?",
                "SELECT tag AS text FROM source_tags WHERE space = ? AND source_id = ?",
                "SELECT text FROM contextual_helpers WHERE space = ? AND source_id = ?",
                "SELECT metadata_json AS text FROM source_versions WHERE space = ? AND source_id = ?",
                "SELECT COALESCE(topic, '') AS text FROM source_versions WHERE space = ? AND source_id = ?",
                "SELECT COALESCE(note, '') AS text FROM source_versions WHERE space = ? AND source_id = ?",
            ] {
                let query = self.sql(sql).bind(space.as_str()).bind(id.as_str());
                for row in self.fetch_all(query).await? {
                    texts.push(row.try_get("text")?);
                }
            }

            Ok(texts)
        })
        .await
    }

    /// The next chunks of a source with their headings, of all versions, after the given one.
    pub async fn list_source_texts(
        &self,
        space: &Space,
        id: &SourceId,
        after: i64,
    ) -> Result<Vec<(i64, String)>, StoreError> {
        let sql = format!(
            "SELECT c.id, c.heading, c.text_content FROM source_versions v JOIN chunks c ON c.space = v.space \
             AND c.version_id = v.id WHERE v.space = ? AND v.source_id = ? AND c.id > ? ORDER BY c.id LIMIT {TEXTS}"
        );
        let texts = self.read_all("list_source_texts", || {
            let query = self.composed(&sql).bind(space.as_str());
            query.bind(id.as_str()).bind(after)
        });
        let texts = texts.await?.into_iter();
        Ok(texts
            .map(|(id, heading, text)| (id, with_heading(heading, text)))
            .collect())
    }

    /// The next chunks of a leaf with their headings and sources, of all versions, after the given
    /// one.
    pub async fn list_filed_texts(
        &self,
        space: &Space,
        leaf: i64,
        after: i64,
    ) -> Result<Vec<(i64, SourceId, String)>, StoreError> {
        let sql = format!(
            "SELECT id, source_id, heading, text_content FROM chunks WHERE space = ? AND category_id = ? AND id > ? \
             ORDER BY id LIMIT {TEXTS}"
        );
        let texts = self.read_all("list_filed_texts", || {
            let query = self.composed(&sql).bind(space.as_str());
            query.bind(leaf).bind(after)
        });
        let texts = texts.await?.into_iter();
        Ok(texts
            .map(|(id, source, heading, text)| (id, source, with_heading(heading, text)))
            .collect())
    }

    /// The next chunks that were in a leaf before, as [`Store::list_filed_texts`] lists those that are.
    pub async fn list_former_texts(
        &self,
        space: &Space,
        leaf: i64,
        after: i64,
    ) -> Result<Vec<(i64, SourceId, String)>, StoreError> {
        let sql = format!(
            "SELECT c.id, c.source_id, c.heading, c.text_content FROM (SELECT DISTINCT p.chunk_id FROM chunk_placements p \
             WHERE p.space = ? AND p.category_id = ? AND p.chunk_id > ? ORDER BY p.chunk_id LIMIT {TEXTS}) f \
             JOIN chunks c ON c.id = f.chunk_id ORDER BY c.id"
        );
        let texts = self.read_all("list_former_texts", || {
            let query = self.composed(&sql).bind(space.as_str());
            query.bind(leaf).bind(after)
        });
        let texts = texts.await?.into_iter();
        Ok(texts
            .map(|(id, source, heading, text)| (id, source, with_heading(heading, text)))
            .collect())
    }

    /// Whether a category of the space has this name.
    pub async fn has_category_named(&self, space: &Space, name: &str) -> Result<bool, StoreError> {
        let sql = "SELECT id FROM categories WHERE space = ? AND name = ? LIMIT 1";
        let found = self.read_value::<i64>("has_category_named", || {
            self.sql(sql).bind(space.as_str()).bind(name)
        });
        Ok(found.await?.is_some())
    }
}

/// The leaves in which a source's chunks are, or were.
fn select_leaves(dialect: &Dialect, space: &Space, id: &SourceId) -> Statement {
    let sql = "SELECT c.category_id FROM source_versions v JOIN chunks c ON c.space = v.space \
               AND c.version_id = v.id WHERE v.space = ? AND v.source_id = ? AND c.category_id IS NOT NULL \
               UNION SELECT p.category_id FROM chunk_placements p WHERE p.space = ? AND p.source_id = ?";
    let query = dialect.query(sql).bind(space.as_str()).bind(id.as_str());
    query.bind(space.as_str()).bind(id.as_str())
}

/// The parents of categories, also former ones.
pub(super) fn select_above(dialect: &Dialect, space: &Space, ids: &[i64]) -> Statement {
    let marks = vec!["?"; ids.len()].join(",");
    let sql = format!(
        "SELECT k.parent_id FROM categories k WHERE COALESCE(k.space, '') = ? AND k.parent_id IS NOT NULL \
         AND k.id IN ({marks}) UNION SELECT s.parent_id FROM category_states s \
         JOIN categories p ON p.space = s.space AND p.id = s.parent_id \
         WHERE s.space = ? AND s.category_id IN ({marks})"
    );
    let query = dialect.assembled(&sql).persistent(false);
    let query = query.bind(space.as_str()).bind_all(ids.iter().copied());
    query.bind(space.as_str()).bind_all(ids.iter().copied())
}

impl Tx {
    /// The rows of a source, by table.
    pub async fn count_source_rows(
        &mut self,
        space: &Space,
        id: &SourceId,
    ) -> Result<RowCounts, StoreError> {
        let mut counts = RowCounts::from([("sources".to_owned(), 1)]);
        for (table, sql) in TABLES {
            let query = self.sql(sql).bind(space.as_str()).bind(id.as_str());
            let number = self.read_value::<i64>(query).await?.unwrap_or(0);
            count(&mut counts, table, u64::try_from(number).unwrap_or(0));
        }

        Ok(counts)
    }

    /// Every job that was about a source and was not erased.
    pub async fn list_jobs_about(
        &mut self,
        space: &Space,
        id: &SourceId,
    ) -> Result<Vec<JobId>, StoreError> {
        let sql = "SELECT id FROM jobs WHERE space = ? AND source_id = ? AND COALESCE(phase, '') <> 'erased'";
        let query = self.sql(sql).bind(space.as_str());
        self.read_values(query.bind(id.as_str())).await
    }

    /// The numbers of a source's chunks, of all versions.
    pub async fn list_chunk_ids_of(
        &mut self,
        space: &Space,
        id: &SourceId,
    ) -> Result<Vec<i64>, StoreError> {
        let sql = "SELECT c.id FROM source_versions v JOIN chunks c ON c.space = v.space AND c.version_id = v.id \
                   WHERE v.space = ? AND v.source_id = ?";
        let query = self.sql(sql).bind(space.as_str()).bind(id.as_str());
        self.read_values(query).await
    }

    /// The leaves of a source's chunks, of all versions, and those in which they were before.
    pub async fn list_source_leaves(
        &mut self,
        space: &Space,
        id: &SourceId,
    ) -> Result<Vec<i64>, StoreError> {
        let query = select_leaves(self.dialect(), space, id);
        self.read_values(query).await
    }

    /// The entries with the words about a source, of all versions.
    pub async fn list_source_entries(
        &mut self,
        space: &Space,
        id: &SourceId,
    ) -> Result<Vec<SourceEntry>, StoreError> {
        let sql = "SELECT group_id, owner_id, version_id, length, tokens, created_at FROM search_entries WHERE space = ? \
                   AND owner_kind = 'source' AND group_id = ?";
        let query = self.sql(sql).bind(space.as_str()).bind(id.as_str());
        self.read_all(query).await
    }

    /// Replaces the words of such an entry. The caller holds the space's lock.
    pub async fn replace_entry(
        &mut self,
        space: &Space,
        entry: &SourceEntry,
        tokens: &str,
    ) -> Result<(), StoreError> {
        let kind = OwnerKind::Source;
        self.remove_entries(space, kind, &[entry.owner_id]).await?;
        let new = NewEntry {
            owner_id: entry.owner_id,
            group_id: entry.source_id.as_str(),
            version_id: entry.version_id,
            length: entry.length,
            tokens,
        };
        self.add_entries(space, kind, &[new], entry.created_at)
            .await
    }
}

fn with_heading(heading: Option<String>, text: String) -> String {
    match heading {
        Some(heading) => format!("{heading}\n{text}"),
        None => text,
    }
}

row! {
    NamedCategory as "" { id, parent_id = "parent_key", name, named_by, created_at }
    from _row { former: Vec::new() }
}
