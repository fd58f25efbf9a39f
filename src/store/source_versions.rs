//! Rows of `source_versions`: the versions of sources.

use std::collections::HashMap;

use serde_json::Value;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::dialect::{BindAll as _, Statement};
use super::{Store, StoreError, Tx, row_limit};
use crate::base::clock::Timestamp;
use crate::base::ids::{SourceId, Space};
use crate::model::source_version::{SourceVersion, VersionFacts, stored_metadata, whole_metadata};

pub(super) const COLUMNS: &str = "id AS version_id, source_id, version, sha256, settings_key, size_bytes, mtime, char_count, token_count, \
     provider, topic, note, metadata_json, job_id, content_version_id, ingested_at";

/// A version `w` that is completely written: one that is written in batches gets its row in
/// `document_versions` only at the end.
pub(super) const IS_WHOLE: &str =
    "EXISTS (SELECT 1 FROM document_versions x WHERE x.space = w.space AND x.version_id = w.id)";

/// Versions per statement.
const AT_ONCE: usize = 500;

/// A version to store.
#[derive(Debug, Clone, Copy)]
pub struct NewVersion<'v> {
    pub source_id: &'v SourceId,
    pub version: i64,
    /// Empty if it shares its text: with `content_version_id`, or with its filed chunks.
    pub content: &'v str,
    pub facts: &'v VersionFacts,
    pub content_version_id: Option<i64>,
}

impl Store {
    pub async fn find_source_version(
        &self,
        space: &Space,
        source_id: &SourceId,
        version: i64,
    ) -> Result<Option<SourceVersion>, StoreError> {
        let (name, condition) = ("find_source_version", " AND version = ?");
        let found = self.list_versions_where(space, source_id, name, condition, |query| {
            query.bind(version)
        });
        Ok(found.await?.pop())
    }

    /// The text of a version.
    pub async fn find_content(
        &self,
        space: &Space,
        source_id: &SourceId,
        version: i64,
    ) -> Result<Option<String>, StoreError> {
        let sql = "SELECT id, content, char_count, content_version_id FROM source_versions \
                   WHERE space = ? AND source_id = ? AND version = ?";
        let found = self.retry("find_content", || async {
            let query = self
                .sql(sql)
                .bind(space.as_str())
                .bind(source_id.as_str())
                .bind(version);
            self.fetch_all(query).await
        });

        let found = found.await?;
        let Some(row) = found.first() else {
            return Ok(None);
        };
        let content: String = row.try_get("content")?;
        if !content.is_empty() || row.try_get::<i64, _>("char_count")? == 0 {
            return Ok(Some(content));
        }

        let shared: Option<i64> = row.try_get("content_version_id")?;
        let id = shared.map_or_else(|| row.try_get("id"), Ok)?;
        Ok(self.list_texts(space, &[id]).await?.remove(&id))
    }

    /// The texts of versions by their ids: their content, or their filed chunks if these are the
    /// only copy. Deleted ones are missing.
    pub(super) async fn list_texts(
        &self,
        space: &Space,
        ids: &[i64],
    ) -> Result<HashMap<i64, String>, StoreError> {
        let contents = "SELECT id, content AS part FROM source_versions WHERE space = ? AND id IN (??) AND content <> ''";
        let chunks = "SELECT c.version_id AS id, c.text_content AS part FROM chunks c WHERE c.space = ? \
                      AND c.version_id IN (??) AND c.profile = 'taxonomy' ORDER BY c.version_id, c.ordinal";

        let mut texts: HashMap<i64, String> = HashMap::new();
        for sql in [contents, chunks] {
            let missing: Vec<i64> = ids
                .iter()
                .copied()
                .filter(|id| !texts.contains_key(id))
                .collect();

            for some in missing.chunks(AT_ONCE) {
                let rows = self.retry("list_texts", || async {
                    let query = self.dialect().query_list(sql, some.len());
                    let query = query.bind(space.as_str());
                    self.fetch_all(query.bind_all(some.iter().copied())).await
                });

                for row in rows.await? {
                    let part: String = row.try_get("part")?;
                    texts.entry(row.try_get("id")?).or_default().push_str(&part);
                }
            }
        }

        Ok(texts)
    }

    /// Versions of a source, newest first, before the given one, up to a given time.
    pub async fn list_source_versions(
        &self,
        space: &Space,
        source_id: &SourceId,
        before: Option<i64>,
        as_of: Option<Timestamp>,
        limit: usize,
    ) -> Result<Vec<SourceVersion>, StoreError> {
        let condition = format!(
            " AND version < ? AND ingested_at <= ? AND {IS_WHOLE} ORDER BY version DESC LIMIT ?"
        );
        let bind = |query: Statement| {
            query
                .bind(before.unwrap_or(i64::MAX))
                .bind(as_of.map_or(i64::MAX, Timestamp::as_micros))
                .bind(row_limit(limit))
        };

        let name = "list_source_versions";
        self.list_versions_where(space, source_id, name, &condition, bind)
            .await
    }

    /// The newest version of a source, completely written or not.
    pub async fn find_newest_version(
        &self,
        space: &Space,
        source_id: &SourceId,
    ) -> Result<Option<SourceVersion>, StoreError> {
        let (name, newest) = ("find_newest_version", " ORDER BY version DESC LIMIT 1");
        let found = self.list_versions_where(space, source_id, name, newest, |query| query);
        Ok(found.await?.pop())
    }

    /// The newest version of a source that has its own chunks and this content with these settings.
    /// A partly written version, as batches may leave, does not count: the chunks of its profile
    /// must reach the end.
    pub async fn find_same_content(
        &self,
        space: &Space,
        source_id: &SourceId,
        sha256: &str,
        settings_key: &str,
        profile: Option<&'static str>,
    ) -> Result<Option<SourceVersion>, StoreError> {
        let whole = " AND char_count = (SELECT c.end_char FROM chunks c WHERE c.space = w.space \
                     AND c.version_id = w.id AND c.profile = ? ORDER BY c.ordinal DESC LIMIT 1)";
        let whole = if profile.is_some() { whole } else { "" };
        let condition = format!(
            " AND sha256 = ? AND settings_key = ? AND content_version_id IS NULL{whole} ORDER BY version DESC LIMIT 1"
        );

        let bind = |query: Statement| {
            let query = query.bind(sha256.to_owned()).bind(settings_key.to_owned());
            match profile {
                Some(profile) => query.bind(profile),
                None => query,
            }
        };

        let name = "find_same_content";
        let found = self.list_versions_where(space, source_id, name, &condition, bind);
        Ok(found.await?.pop())
    }

    /// The versions `w` of a source that meet further conditions; `bind` adds their values.
    async fn list_versions_where(
        &self,
        space: &Space,
        source_id: &SourceId,
        name: &'static str,
        condition: &str,
        bind: impl Fn(Statement) -> Statement,
    ) -> Result<Vec<SourceVersion>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM source_versions w WHERE space = ? AND source_id = ?{condition}"
        );
        self.retry(name, || async {
            let query = self
                .composed(&sql)
                .bind(space.as_str())
                .bind(source_id.as_str());

            self.fetch_all(bind(query))
                .await?
                .iter()
                .map(read_version)
                .collect()
        })
        .await
    }
}

impl Tx {
    /// Stores a version that is complete with this transaction; returns its id.
    pub async fn add_source_version(
        &mut self,
        space: &Space,
        new: NewVersion<'_>,
        now: Timestamp,
    ) -> Result<i64, StoreError> {
        let id = self.begin_source_version(space, new, now).await?;
        self.add_document_version(space, new.source_id, id).await?;
        Ok(id)
    }

    /// Stores a version whose chunks follow in several transactions; the last calls
    /// [`Tx::add_document_version`], and until then only a caller who names the version sees it.
    pub async fn begin_source_version(
        &mut self,
        space: &Space,
        new: NewVersion<'_>,
        now: Timestamp,
    ) -> Result<i64, StoreError> {
        let insert = "INSERT INTO source_versions (space, source_id, version, content, sha256, settings_key, size_bytes, \
                      mtime, char_count, token_count, provider, topic, note, metadata_json, content_version_id, job_id, \
                      ingested_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        let facts = new.facts;
        let insert = self
            .dialect()
            .insert_with_id(insert)
            .bind(space.as_str())
            .bind(new.source_id.as_str())
            .bind(new.version)
            .bind(new.content.to_owned())
            .bind(facts.sha256.as_str())
            .bind(facts.settings_key.as_str())
            .bind(facts.size_bytes)
            .bind(facts.mtime.map(Timestamp::as_micros))
            .bind(facts.char_count)
            .bind(facts.token_count)
            .bind(facts.provider.clone())
            .bind(facts.topic.clone())
            .bind(facts.note.clone())
            .bind(stored_metadata(&facts.metadata).to_string())
            .bind(new.content_version_id)
            .bind(facts.job_id.clone());

        self.insert_for_id(insert.bind(now.as_micros())).await
    }

    /// The number and time of a source's newest version, completely written or not.
    pub async fn find_last_version(
        &mut self,
        space: &Space,
        source_id: &SourceId,
    ) -> Result<Option<(i64, Timestamp)>, StoreError> {
        let query = "SELECT version, ingested_at FROM source_versions WHERE space = ? AND source_id = ? \
                     ORDER BY version DESC LIMIT 1";
        let row = self
            .fetch_optional(
                self.sql(query)
                    .bind(space.as_str())
                    .bind(source_id.as_str()),
            )
            .await?;

        row.map(|row| {
            Ok((
                row.try_get("version")?,
                Timestamp::from_micros(row.try_get("ingested_at")?),
            ))
        })
        .transpose()
    }

    /// Whether a version still exists.
    pub async fn has_source_version(&mut self, space: &Space, id: i64) -> Result<bool, StoreError> {
        let query = self.sql("SELECT id FROM source_versions WHERE space = ? AND id = ?");
        Ok(self
            .fetch_optional(query.bind(space.as_str()).bind(id))
            .await?
            .is_some())
    }

    /// Makes a version the current one of its source.
    pub async fn update_latest_version(
        &mut self,
        space: &Space,
        source_id: &SourceId,
        version: i64,
        content_version_id: i64,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let update = "UPDATE sources SET latest_size = COALESCE((SELECT v.size_bytes FROM source_versions v \
                      WHERE v.space = sources.space AND v.source_id = sources.id AND v.version = ?), 0), \
                      latest_version = ?, content_version_id = ?, updated_at = ? WHERE space = ? AND id = ?";
        let update = self
            .sql(update)
            .bind(version)
            .bind(version)
            .bind(content_version_id)
            .bind(now.as_micros());

        self.execute(update.bind(space.as_str()).bind(source_id.as_str()))
            .await
            .map(|_| ())
    }

    /// The version whose chunks are the current ones of the source.
    pub async fn find_current_content(
        &mut self,
        space: &Space,
        source_id: &SourceId,
    ) -> Result<Option<i64>, StoreError> {
        let query = self.sql("SELECT content_version_id FROM sources WHERE space = ? AND id = ?");
        let row = self
            .fetch_optional(query.bind(space.as_str()).bind(source_id.as_str()))
            .await?;
        Ok(row
            .map(|row| row.try_get("content_version_id"))
            .transpose()?
            .flatten())
    }
}

pub(super) fn read_version(row: &AnyRow) -> Result<SourceVersion, StoreError> {
    let metadata: String = row.try_get("metadata_json")?;
    Ok(SourceVersion {
        id: row.try_get("version_id")?,
        source_id: SourceId::from_stored(row.try_get("source_id")?),
        version: row.try_get("version")?,
        facts: VersionFacts {
            sha256: row.try_get("sha256")?,
            settings_key: row.try_get("settings_key")?,
            size_bytes: row.try_get("size_bytes")?,
            mtime: row
                .try_get::<Option<i64>, _>("mtime")?
                .map(Timestamp::from_micros),
            char_count: row.try_get("char_count")?,
            token_count: row.try_get("token_count")?,
            provider: row.try_get("provider")?,
            topic: row.try_get("topic")?,
            note: row.try_get("note")?,
            metadata: serde_json::from_str(&metadata).map_or(Value::Null, whole_metadata),
            job_id: row.try_get("job_id")?,
        },
        content_version_id: row.try_get("content_version_id")?,
        ingested_at: Timestamp::from_micros(row.try_get("ingested_at")?),
    })
}
