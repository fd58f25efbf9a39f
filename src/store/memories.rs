//! Rows of `memories` and of the tables that describe them: written, and read one by one.

use std::collections::HashMap;
use std::sync::Arc;

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::dialect::{BindNumber as _, Statement};
use super::{StoreError, Tx};
use crate::base::clock::Timestamp;
use crate::base::ids::{MemoryId, Space, ThreadId};
use crate::model::memory::{EnrichmentState, FileHint, Memory, MemoryKind};

/// The columns that [`read_memory`] reads, of memories `m`.
pub(super) const COLUMNS: &str = "m.seq, m.id, m.user_id, m.thread_id, m.type, m.role, m.title, m.content_hash, m.source, m.file_path, \
     m.file_sha256, m.file_mtime, m.turn_index, m.category, m.message_type, m.own_importance, m.important, m.pinned, \
     m.confidence, m.suggested_topic, m.suggested_category, m.access_count, m.vocabulary_version, m.enrichment_model, \
     m.enrichment_state, m.enrichment_job, m.superseded_by, m.superseded_at, m.created_at, m.stored_at, m.updated_at, \
     m.last_access_at, m.labels_json, m.evidence_json, m.content";

const INSERT: &str = "INSERT INTO memories (space, id, user_id, thread_id, type, role, title, content_hash, source, file_path, \
     file_sha256, file_mtime, turn_index, category, message_type, own_importance, importance, important, pinned, \
     confidence, suggested_topic, suggested_category, has_topics, tier, access_count, vocabulary_version, \
     enrichment_model, enrichment_state, enrichment_job, enrichment_begun, superseded_by, superseded_at, created_at, \
     stored_at, updated_at, last_access_at, labels_json, evidence_json, content) VALUES ";
const COLUMN_COUNT: usize = 39;
/// Rows and bytes of text per insert.
const ROWS: usize = 50;
const BYTES: usize = 1_000_000;
/// Ids per statement.
const AT_ONCE: usize = 500;
/// Memories that lose their vectors in one transaction: more than one request can store.
const MAX_EVICTED: usize = 2000;

impl Tx {
    /// Stores memories with their descriptions; returns the number of each by its id.
    pub async fn add_memories(
        &mut self,
        space: &Space,
        memories: &[Memory],
    ) -> Result<HashMap<String, i64>, StoreError> {
        let returning = self.backend.dialect.returning("id, seq");
        let mut seqs = HashMap::with_capacity(memories.len());
        let mut rest = memories;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fitting = rest.iter().take(ROWS).take_while(|memory| {
                bytes += memory.content.len();
                bytes <= BYTES
            });

            let (some, after) = rest.split_at(fitting.count().max(1));
            rest = after;
            let row = format!("({})", vec!["?"; COLUMN_COUNT].join(", "));
            let rows = vec![row.as_str(); some.len()].join(", ");
            let sql = format!("{INSERT}{rows}{}", returning.as_deref().unwrap_or_default());
            let kept = some.len() == 1 || some.len() == ROWS;
            let insert = self.backend.dialect.assembled(&sql).persistent(kept);
            let insert = some
                .iter()
                .fold(insert, |insert, memory| bind_memory(insert, space, memory));

            for row in self.fetch_all(insert).await? {
                seqs.insert(row.try_get("id")?, row.try_get("seq")?);
            }
        }

        if returning.is_none() {
            seqs = self.list_memory_seqs(space, memories).await?;
        }

        self.add_labels(space, memories).await?;
        Ok(seqs)
    }

    /// The numbers of memories, by id.
    async fn list_memory_seqs(
        &mut self,
        space: &Space,
        memories: &[Memory],
    ) -> Result<HashMap<String, i64>, StoreError> {
        let mut all = HashMap::with_capacity(memories.len());
        for some in memories.chunks(AT_ONCE) {
            let sql = "SELECT id, seq FROM memories WHERE space = ? AND id IN (??)";
            let query = self.backend.dialect.query_list(sql, some.len());
            let query = query.persistent(some.len() == 1).bind(space.as_str());
            let query = some
                .iter()
                .fold(query, |query, memory| query.bind(memory.id.to_string()));
            for row in self.fetch_all(query).await? {
                all.insert(row.try_get("id")?, row.try_get("seq")?);
            }
        }

        Ok(all)
    }

    /// Reads memories and locks them until the transaction ends.
    pub async fn hold_memories(
        &mut self,
        space: &Space,
        ids: &[String],
    ) -> Result<Vec<Memory>, StoreError> {
        let mut all = Vec::with_capacity(ids.len());
        for some in ids.chunks(AT_ONCE) {
            let marks = vec!["?"; some.len()].join(",");
            let sql = format!(
                "SELECT {COLUMNS} FROM memories m WHERE m.space = ? AND m.id IN ({marks}) ORDER BY m.seq"
            );
            let query = self.backend.dialect.query_for_update(&sql);
            let query = query.persistent(some.len() == 1).bind(space.as_str());
            let query = some.iter().fold(query, |query, id| query.bind(id.clone()));
            for row in self.fetch_all(query).await? {
                all.push(read_memory(&row)?);
            }
        }

        Ok(all)
    }

    /// The memories of a group that have vectors of a model beyond the limit: the least important
    /// first, then the oldest; at most as many as one transaction should change.
    pub async fn list_least_important(
        &mut self,
        space: &Space,
        group_id: &str,
        model: &str,
        limit: usize,
    ) -> Result<Vec<Memory>, StoreError> {
        const OF_GROUP: &str = "WHERE t.space = ? AND t.owner_kind = 'memory' AND t.group_id = ?";
        // Nearly always few enough, which the entries alone show.
        let entries = format!("SELECT COUNT(*) AS number FROM search_entries t {OF_GROUP}");
        let query = self.backend.dialect.assembled(&entries);
        let query = query.bind(space.as_str()).bind(group_id.to_owned());
        if self.count(query).await? <= limit {
            return Ok(Vec::new());
        }

        let backend = Arc::clone(&self.backend);
        let dialect = &backend.dialect;
        let vector =
            "e.space = ? AND e.owner_kind = 'memory' AND e.entry_id = t.id AND e.model = ?";
        let vectors = dialect.look_up("embeddings", "e", vector);
        let memories = dialect.look_up("memories", "m", "m.seq = t.owner_id");
        let of_group = |sql: &str| {
            let query = dialect.assembled(sql).persistent(false);
            let query = query.bind(space.as_str()).bind(model.to_owned());
            query.bind(space.as_str()).bind(group_id.to_owned())
        };
        let number = format!("SELECT COUNT(*) AS number FROM search_entries t{vectors} {OF_GROUP}");
        let over = self.count(of_group(&number)).await?.saturating_sub(limit);
        if over == 0 {
            return Ok(Vec::new());
        }

        let list = format!(
            "SELECT {COLUMNS} FROM search_entries t{vectors}{memories} {OF_GROUP} \
             ORDER BY COALESCE(m.importance, 0.5), m.created_at, m.seq LIMIT {}",
            over.min(MAX_EVICTED)
        );
        let rows = self.fetch_all(of_group(&list)).await?;
        rows.iter().map(read_memory).collect()
    }

    async fn count(&mut self, query: Statement) -> Result<usize, StoreError> {
        let row = self.fetch_optional(query).await?;
        let number: Option<i64> = row.map(|row| row.try_get("number")).transpose()?;
        Ok(number.map_or(0, |number| usize::try_from(number).unwrap_or(usize::MAX)))
    }

    /// Messages of a thread with one of these contents.
    pub async fn list_same_content(
        &mut self,
        space: &Space,
        thread_id: &ThreadId,
        hashes: &[&str],
    ) -> Result<Vec<Memory>, StoreError> {
        let mut all = Vec::new();
        for some in hashes.chunks(AT_ONCE) {
            let marks = vec!["?"; some.len()].join(",");
            let sql = format!(
                "SELECT {COLUMNS} FROM memories m WHERE m.space = ? AND m.thread_id = ? AND m.type = 'message' \
                 AND m.content_hash IN ({marks})"
            );
            let query = self.backend.dialect.assembled(&sql);
            let query = query.persistent(some.len() == 1);
            let query = query
                .bind(space.as_str())
                .bind(thread_id.as_str().to_owned());
            let query = some
                .iter()
                .fold(query, |query, hash| query.bind((*hash).to_owned()));
            for row in self.fetch_all(query).await? {
                all.push(read_memory(&row)?);
            }
        }

        Ok(all)
    }

    /// Writes everything that may change in a memory; its text stays.
    pub async fn update_memory(
        &mut self,
        space: &Space,
        memory: &Memory,
        labels_changed: bool,
    ) -> Result<(), StoreError> {
        let update = "UPDATE memories SET title = ?, category = ?, message_type = ?, own_importance = ?, importance = ?, \
                      important = ?, pinned = ?, confidence = ?, suggested_topic = ?, suggested_category = ?, \
                      has_topics = ?, tier = ?, access_count = ?, vocabulary_version = ?, enrichment_model = ?, \
                      enrichment_state = ?, enrichment_job = ?, enrichment_begun = ?, superseded_by = ?, \
                      superseded_at = ?, updated_at = ?, last_access_at = ?, labels_json = ? WHERE space = ? AND id = ?";
        let update = self
            .sql(update)
            .bind(memory.title.clone())
            .bind(memory.category.clone())
            .bind(memory.message_type.clone())
            .bind_number(memory.own_importance)
            .bind_number(memory.importance())
            .bind(i16::from(memory.important))
            .bind(i16::from(memory.pinned))
            .bind(memory.confidence.clone())
            .bind(memory.suggested_topic.clone())
            .bind(memory.suggested_category.clone());

        let update = update
            .bind(i16::from(!memory.labels.topics.is_empty()))
            .bind(stored_tier(memory))
            .bind(memory.access_count)
            .bind(memory.vocabulary_version.clone())
            .bind(memory.enrichment_model.clone())
            .bind(memory.enrichment_state.into_str())
            .bind(memory.enrichment_job.clone())
            .bind(0_i16)
            .bind(memory.superseded_by.clone())
            .bind(memory.superseded_at.map(Timestamp::as_micros));

        let update = update
            .bind(memory.updated_at.as_micros())
            .bind(memory.last_access_at.map(Timestamp::as_micros))
            .bind(labels_json(memory))
            .bind(space.as_str())
            .bind(memory.id.as_str());

        self.execute(update).await?;
        if !labels_changed {
            return Ok(());
        }

        self.remove_labels(space, memory).await?;
        self.add_labels(space, std::slice::from_ref(memory)).await
    }

    /// Counts a use of memories.
    pub async fn count_uses(
        &mut self,
        space: &Space,
        ids: &[String],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        for mut memory in self.hold_memories(space, ids).await? {
            memory.access_count += 1;
            memory.last_access_at = Some(now);
            let update = "UPDATE memories SET access_count = ?, last_access_at = ?, importance = ?, tier = ? \
                          WHERE space = ? AND id = ?";
            let update = self
                .sql(update)
                .bind(memory.access_count)
                .bind(now.as_micros())
                .bind_number(memory.importance())
                .bind(stored_tier(&memory))
                .bind(space.as_str())
                .bind(memory.id.as_str());

            self.execute(update).await?;
        }

        Ok(())
    }

    /// Deletes memories; their search entries are removed separately.
    pub async fn remove_memories(
        &mut self,
        space: &Space,
        ids: &[String],
    ) -> Result<u64, StoreError> {
        let mut removed = 0;
        for some in ids.chunks(AT_ONCE) {
            let sql = "DELETE FROM memories WHERE space = ? AND id IN (??)";
            let delete = self.backend.dialect.query_list(sql, some.len());
            let delete = delete.bind(space.as_str());
            removed += self
                .execute(
                    some.iter()
                        .fold(delete, |delete, id| delete.bind(id.clone())),
                )
                .await?;
        }

        Ok(removed)
    }
}

/// The tier as stored: what is promoted, whatever its age.
fn stored_tier(memory: &Memory) -> &'static str {
    if memory.is_promoted() {
        "long_term"
    } else {
        "by_age"
    }
}

fn labels_json(memory: &Memory) -> String {
    serde_json::to_value(&memory.labels)
        .unwrap_or_default()
        .to_string()
}

fn bind_memory(insert: Statement, space: &Space, memory: &Memory) -> Statement {
    let insert = insert
        .bind(space.as_str())
        .bind(memory.id.as_str().to_owned())
        .bind(memory.user_id.clone())
        .bind(memory.thread_id.as_ref().map(ToString::to_string))
        .bind(memory.kind.into_str())
        .bind(memory.role.clone())
        .bind(memory.title.clone())
        .bind(memory.content_hash.clone())
        .bind(memory.source.clone())
        .bind(memory.file.path.clone())
        .bind(memory.file.sha256.clone())
        .bind(memory.file.mtime.map(Timestamp::as_micros))
        .bind(memory.turn_index);

    let insert = insert
        .bind(memory.category.clone())
        .bind(memory.message_type.clone())
        .bind_number(memory.own_importance)
        .bind_number(memory.importance())
        .bind(i16::from(memory.important))
        .bind(i16::from(memory.pinned))
        .bind(memory.confidence.clone())
        .bind(memory.suggested_topic.clone())
        .bind(memory.suggested_category.clone())
        .bind(i16::from(!memory.labels.topics.is_empty()))
        .bind(stored_tier(memory))
        .bind(memory.access_count)
        .bind(memory.vocabulary_version.clone());

    insert
        .bind(memory.enrichment_model.clone())
        .bind(memory.enrichment_state.into_str())
        .bind(memory.enrichment_job.clone())
        .bind(0_i16)
        .bind(memory.superseded_by.clone())
        .bind(memory.superseded_at.map(Timestamp::as_micros))
        .bind(memory.created_at.as_micros())
        .bind(memory.stored_at.as_micros())
        .bind(memory.updated_at.as_micros())
        .bind(memory.last_access_at.map(Timestamp::as_micros))
        .bind(labels_json(memory))
        .bind(memory.evidence.as_ref().map(|evidence| {
            serde_json::to_value(evidence)
                .unwrap_or_default()
                .to_string()
        }))
        .bind(memory.content.clone())
}

pub(super) fn read_memory(row: &AnyRow) -> Result<Memory, StoreError> {
    let text = |name: &str| row.try_get::<Option<String>, _>(name);
    let time = |name: &str| Ok::<_, sqlx::Error>(Timestamp::from_micros(row.try_get(name)?));
    let maybe = |name: &str| {
        let micros: Option<i64> = row.try_get(name)?;
        Ok::<_, sqlx::Error>(micros.map(Timestamp::from_micros))
    };

    let labels: String = row.try_get("labels_json")?;
    let kind: String = row.try_get("type")?;
    let state: String = row.try_get("enrichment_state")?;
    Ok(Memory {
        seq: row.try_get("seq")?,
        id: MemoryId::from_stored(row.try_get("id")?),
        user_id: row.try_get("user_id")?,
        thread_id: text("thread_id")?.map(ThreadId::from_stored),
        kind: kind.parse().unwrap_or(MemoryKind::Message),
        role: row.try_get("role")?,
        title: text("title")?,
        content: row.try_get("content")?,
        content_hash: row.try_get("content_hash")?,
        source: row.try_get("source")?,
        file: FileHint {
            path: text("file_path")?,
            sha256: text("file_sha256")?,
            mtime: maybe("file_mtime")?,
        },
        turn_index: row.try_get("turn_index")?,
        labels: serde_json::from_str(&labels).unwrap_or_default(),
        category: text("category")?,
        message_type: text("message_type")?,
        own_importance: row.try_get("own_importance")?,
        important: row.try_get::<i64, _>("important")? != 0,
        pinned: row.try_get::<i64, _>("pinned")? != 0,
        confidence: text("confidence")?,
        suggested_topic: text("suggested_topic")?,
        suggested_category: text("suggested_category")?,
        access_count: row.try_get("access_count")?,
        vocabulary_version: text("vocabulary_version")?,
        enrichment_model: text("enrichment_model")?,
        enrichment_state: state.parse().unwrap_or(EnrichmentState::Off),
        enrichment_job: text("enrichment_job")?,
        superseded_by: text("superseded_by")?,
        superseded_at: maybe("superseded_at")?,
        evidence: text("evidence_json")?.and_then(|json| serde_json::from_str(&json).ok()),
        created_at: time("created_at")?,
        stored_at: time("stored_at")?,
        updated_at: time("updated_at")?,
        last_access_at: maybe("last_access_at")?,
    })
}
