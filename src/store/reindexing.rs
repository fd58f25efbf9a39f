//! The version of the stored search terms of each space, the words of which they are made, and the
//! entries whose terms are replaced (`search::reindex`).

use std::collections::{BTreeSet, HashMap};
use std::sync::PoisonError;

use memoir_index::OwnerKind;
use serde_json::Value;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::dialect::BindAll as _;
use super::jobs::read_json;
use super::rows::row;
use super::{Engine, Store, StoreError, Tx, row_limit};
use crate::base::clock::Timestamp;
use crate::base::ids::{SourceId, Space};
use crate::model::memory::{Labels, searched_text};

/// The setting with the version of a space's terms.
const VERSION: &str = "terms_version";
/// The version of spaces from before versions were stored.
const FIRST_VERSION: i64 = 1;
const SELECT_VERSION: &str = "SELECT value_json FROM settings WHERE space = ? AND name = ?";

/// An entry, and the text and headings that its terms are made of.
#[derive(Debug, Clone)]
pub struct EntryText {
    pub entry_id: i64,
    pub text: String,
    pub heading: Option<String>,
}

/// An entry about a source, and what is stored with the version that it belongs to.
#[derive(Debug, Clone)]
pub struct VersionEntry {
    pub entry_id: i64,
    pub version_id: i64,
    pub source_id: SourceId,
    pub topic: Option<String>,
    pub note: Option<String>,
    pub provider: Option<String>,
    pub metadata: Value,
}

/// New terms of an entry.
#[derive(Debug, Clone)]
pub struct EntryTerms {
    pub entry_id: i64,
    pub length: i64,
    pub tokens: String,
}

impl Store {
    /// Gives spaces with entries and without a version the first one. Writers may settle on a later
    /// version only after this.
    pub async fn settle_terms_versions(&self, now: Timestamp) -> Result<(), StoreError> {
        // Every writer of entries counts its writes, so every space with entries has a counter.
        let sql = "SELECT DISTINCT c.space FROM counters c WHERE NOT EXISTS (SELECT 1 FROM settings s \
                   WHERE s.space = c.space AND s.name = ?) AND EXISTS (SELECT 1 FROM search_entries e \
                   WHERE e.space = c.space)";
        self.retry("settle_terms_versions", || async {
            let rows = self.fetch_all(self.sql(sql).bind(VERSION)).await?;
            for row in &rows {
                let space: String = row.try_get("space")?;
                let mut tx = self.begin().await?;
                tx.insert_terms_version(&space, FIRST_VERSION, now).await?;
                tx.commit().await?;
            }

            Ok(())
        })
        .await
    }

    /// Spaces whose terms have another version than this, with theirs.
    pub async fn list_other_terms_versions(
        &self,
        version: i64,
    ) -> Result<Vec<(String, i64)>, StoreError> {
        let sql = "SELECT space, value_json FROM settings WHERE name = ? AND value_json <> ?";
        let stored = self.read_all::<(String, String)>("list_other_terms_versions", || {
            self.sql(sql).bind(VERSION).bind(version.to_string())
        });
        let versions = stored.await?.into_iter();
        Ok(versions
            .map(|(space, version)| (space, version.parse().unwrap_or(0)))
            .collect())
    }

    /// The words of chunks or memories by ascending entry, after the given one.
    pub async fn list_entry_texts(
        &self,
        space: &Space,
        kind: OwnerKind,
        after: i64,
        limit: usize,
    ) -> Result<Vec<EntryText>, StoreError> {
        const CHUNKS: &str = "SELECT t.id, c.heading, NULL AS labels_json, c.text_content FROM search_entries t \
             JOIN chunks c ON c.id = t.owner_id \
             WHERE t.space = ? AND t.owner_kind = ? AND t.id > ? ORDER BY t.id LIMIT ?";
        const MEMORIES: &str = "SELECT t.id, NULL AS heading, m.labels_json, m.content AS text_content \
             FROM search_entries t JOIN memories m ON m.seq = t.owner_id \
             WHERE t.space = ? AND t.owner_kind = ? AND t.id > ? ORDER BY t.id LIMIT ?";
        let sql = if kind == OwnerKind::Memory {
            MEMORIES
        } else {
            CHUNKS
        };
        self.retry("list_entry_texts", || async {
            let query = self
                .sql(sql)
                .bind(space.as_str())
                .bind(kind.into_str())
                .bind(after)
                .bind(row_limit(limit));
            self.fetch_all(query).await?.iter().map(read_text).collect()
        })
        .await
    }

    /// Entries about sources by ascending id, after the given one.
    pub async fn list_version_entries(
        &self,
        space: &Space,
        after: i64,
        limit: usize,
    ) -> Result<Vec<VersionEntry>, StoreError> {
        let sql = "SELECT t.id, t.owner_id, t.group_id, v.topic, v.note, v.provider, v.metadata_json \
                   FROM search_entries t JOIN source_versions v ON v.id = t.owner_id \
                   WHERE t.space = ? AND t.owner_kind = ? AND t.id > ? ORDER BY t.id LIMIT ?";
        self.read_all("list_version_entries", || {
            let query = self
                .sql(sql)
                .bind(space.as_str())
                .bind(OwnerKind::Source.into_str())
                .bind(after);
            query.bind(row_limit(limit))
        })
        .await
    }

    /// The leaves that the chunks of these versions are filed in.
    pub async fn list_version_leaves(
        &self,
        space: &Space,
        versions: &[i64],
    ) -> Result<HashMap<i64, BTreeSet<i64>>, StoreError> {
        let sql = "SELECT DISTINCT version_id, category_id FROM chunks WHERE space = ? AND version_id IN (??) \
                   AND category_id IS NOT NULL";
        self.retry("list_version_leaves", || async {
            let query = self.dialect().query_list(sql, versions.len());
            let query = query
                .bind(space.as_str())
                .bind_all(versions.iter().copied());
            let mut leaves: HashMap<i64, BTreeSet<i64>> = HashMap::new();
            for row in self.fetch_all(query).await? {
                let of_version = leaves.entry(row.try_get("version_id")?).or_default();
                of_version.insert(row.try_get("category_id")?);
            }

            Ok(leaves)
        })
        .await
    }

    /// The tokens of the chunk of these versions, for those that have just one to be searched.
    pub async fn list_only_tokens(
        &self,
        space: &Space,
        versions: &[(i64, &SourceId)],
    ) -> Result<HashMap<i64, String>, StoreError> {
        let each = vec!["(group_id = ? AND version_id = ?)"; versions.len().max(1)].join(" OR ");
        let sql = format!(
            "SELECT version_id, MAX(tokens) AS tokens FROM search_entries \
             WHERE space = ? AND owner_kind = ? AND ({each}) GROUP BY version_id HAVING COUNT(*) = 1"
        );
        let tokens = self.read_all("list_only_tokens", || {
            let query = self.composed(&sql).persistent(false);
            let query = query.bind(space.as_str()).bind(OwnerKind::Chunk.into_str());
            versions.iter().fold(query, |query, (version, source)| {
                query.bind(source.as_str()).bind(*version)
            })
        });
        Ok(tokens.await?.into_iter().collect())
    }
}

impl Tx {
    /// Notes the version of the terms that are written to a space, if it has none yet.
    pub async fn settle_terms_version(
        &mut self,
        space: &Space,
        version: i64,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        // Looked up only until it is known, because every message and every text asks.
        let is_settled = {
            let settled = self.backend.settled_terms.lock();
            let settled = settled.unwrap_or_else(PoisonError::into_inner);
            settled.contains(space.as_str())
        };
        if is_settled {
            return Ok(());
        }

        let find = self.sql(SELECT_VERSION).bind(space.as_str().to_owned());
        if self.fetch_optional(find.bind(VERSION)).await?.is_some() {
            let settled = self.backend.settled_terms.lock();
            let mut settled = settled.unwrap_or_else(PoisonError::into_inner);
            settled.insert(space.as_str().to_owned());
            return Ok(());
        }

        self.insert_terms_version(space.as_str(), version, now)
            .await
    }

    async fn insert_terms_version(
        &mut self,
        space: &str,
        version: i64,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let insert =
            "INSERT INTO settings (space, name, value_json, updated_at) VALUES (?, ?, ?, ?)";
        let insert = self.dialect().insert_if_absent(insert);
        let insert = insert
            .bind(space.to_owned())
            .bind(VERSION)
            .bind(version.to_string())
            .bind(now.as_micros());

        self.execute(insert).await.map(|_| ())
    }

    /// The terms of the space now have this version.
    pub async fn update_terms_version(
        &mut self,
        space: &Space,
        version: i64,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let update =
            "UPDATE settings SET value_json = ?, updated_at = ? WHERE space = ? AND name = ?";
        let update = self
            .sql(update)
            .bind(version.to_string())
            .bind(now.as_micros())
            .bind(space.as_str().to_owned())
            .bind(VERSION);

        self.execute(update).await.map(|_| ())
    }

    /// Replaces the terms of entries that still exist and have others; returns of how many. An entry
    /// keeps its id, and so its vectors.
    pub async fn update_entry_terms(
        &mut self,
        space: &Space,
        kind: OwnerKind,
        entries: &[EntryTerms],
    ) -> Result<usize, StoreError> {
        let marks = vec!["?"; entries.len().max(1)].join(",");
        let held = format!(
            "SELECT id, length, tokens FROM search_entries WHERE space = ? AND owner_kind = ? \
             AND id IN ({marks}) ORDER BY id"
        );
        let held = self.dialect().query_for_update(&held);
        let held = held
            .persistent(false)
            .bind(space.as_str().to_owned())
            .bind(kind.into_str())
            .bind_all(entries.iter().map(|new| new.entry_id));

        let stored = self.read_all::<(i64, i64, String)>(held).await?;
        let stored: HashMap<i64, (i64, String)> = stored
            .into_iter()
            .map(|(id, length, tokens)| (id, (length, tokens)))
            .collect();

        let mut changed = 0;
        for new in entries {
            let Some((length, tokens)) = stored.get(&new.entry_id) else {
                continue;
            };
            if *length != new.length || *tokens != new.tokens {
                self.update_terms_of_entry(new).await?;
                changed += 1;
            }
        }

        Ok(changed)
    }

    async fn update_terms_of_entry(&mut self, new: &EntryTerms) -> Result<(), StoreError> {
        const UPDATE: &str = "UPDATE search_entries SET length = ?, tokens = ? WHERE id = ?";
        // SQLite's full-text index is told what to forget and what to add: it has triggers only for
        // new and for deleted entries.
        const FORGET: &str = "INSERT INTO search_entries_tokens (search_entries_tokens, rowid, tokens) \
                              SELECT 'delete', id, tokens FROM search_entries WHERE id = ?";
        const ADD: &str = "INSERT INTO search_entries_tokens (rowid, tokens) \
                           SELECT id, tokens FROM search_entries WHERE id = ?";
        let is_sqlite = self.backend.engine == Engine::Sqlite;
        if is_sqlite {
            self.execute(self.sql(FORGET).bind(new.entry_id)).await?;
        }

        let update = self.sql(UPDATE).bind(new.length).bind(new.tokens.clone());
        self.execute(update.bind(new.entry_id)).await?;
        if is_sqlite {
            self.execute(self.sql(ADD).bind(new.entry_id)).await?;
        }

        Ok(())
    }
}

fn read_text(row: &AnyRow) -> Result<EntryText, StoreError> {
    let labels: Labels = read_json(row, "labels_json")?
        .and_then(|labels| serde_json::from_value(labels).ok())
        .unwrap_or_default();
    let text: String = row.try_get("text_content")?;
    Ok(EntryText {
        entry_id: row.try_get("id")?,
        text: searched_text(labels.speaker.as_deref(), &text),
        heading: row.try_get("heading")?,
    })
}

row! {
    VersionEntry as "" {
        entry_id = "id", version_id = "owner_id", source_id = "group_id", topic, note, provider,
        metadata = "metadata_json",
    }
}
