//! Rows of `memories` and of the tables that describe them: written, and read one by one.

use std::collections::HashMap;
use std::sync::Arc;

use super::dialect::{BindAll as _, BindNumber as _, Statement};
use super::rows::{Stored as _, Written as _, to_json, written_row};
use super::{StoreError, Tx};
use crate::base::clock::Timestamp;
use crate::base::ids::{Space, ThreadId};
use crate::model::memory::{FileHint, Memory};

/// The columns of memories `m`.
pub(super) const COLUMNS: &str = Memory::COLUMNS;

/// What is written besides the columns of [`Memory`]: what lists are sorted and searched by.
const COMPUTED: &str = "space, importance, has_topics, tier, enrichment_begun";

written_row! {
    Memory as "m." {
        id, user_id, thread_id, kind = "type", role, title, content_hash, source,
        file as FileHint { path = "file_path", sha256 = "file_sha256", mtime = "file_mtime" },
        turn_index, category, message_type, own_importance, important, pinned, confidence,
        suggested_topic, suggested_category, access_count, vocabulary_version, enrichment_model,
        enrichment_state, enrichment_job, superseded_by, superseded_at, created_at, stored_at,
        updated_at, last_access_at, labels = "labels_json", evidence = "evidence_json", content,
    }
    numbered { seq }
}

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
        let returning = self.dialect().returning("id, seq");
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
            let columns = format!("{COMPUTED}, {}", Memory::NAMES);
            let row = format!("({})", vec!["?"; columns.split(',').count()].join(", "));
            let rows = vec![row.as_str(); some.len()].join(", ");
            let sql = format!(
                "INSERT INTO memories ({columns}) VALUES {rows}{}",
                returning.as_deref().unwrap_or_default()
            );
            let kept = some.len() == 1 || some.len() == ROWS;
            let insert = self.composed(&sql).persistent(kept);
            let insert = some
                .iter()
                .fold(insert, |insert, memory| bind_memory(insert, space, memory));

            seqs.extend(self.read_all::<(String, i64)>(insert).await?);
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
            let query = self.dialect().query_list(sql, some.len());
            let query = query
                .persistent(some.len() == 1)
                .bind(space.as_str())
                .bind_all(some.iter().map(|memory| memory.id.to_string()));
            all.extend(self.read_all::<(String, i64)>(query).await?);
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
            let query = self.dialect().query_for_update(&sql);
            let query = query
                .persistent(some.len() == 1)
                .bind(space.as_str())
                .bind_all(some.iter().cloned());
            for row in self.fetch_all(query).await? {
                all.push(Memory::read(&row)?);
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
        let query = self.composed(&entries);
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
        rows.iter().map(Memory::read).collect()
    }

    async fn count(&mut self, query: Statement) -> Result<usize, StoreError> {
        let number: Option<i64> = self.read_value(query).await?;
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
            let query = self.composed(&sql);
            let query = query.persistent(some.len() == 1);
            let query = query
                .bind(space.as_str())
                .bind(thread_id.as_str().to_owned())
                .bind_all(some.iter().map(|hash| (*hash).to_owned()));
            for row in self.fetch_all(query).await? {
                all.push(Memory::read(&row)?);
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
            .bind(memory.suggested_category.clone())
            .bind(i16::from(!memory.labels.topics.is_empty()))
            .bind(stored_tier(memory))
            .bind(memory.access_count)
            .bind(memory.vocabulary_version.clone())
            .bind(memory.enrichment_model.clone())
            .bind(memory.enrichment_state.into_str())
            .bind(memory.enrichment_job.clone())
            .bind(0_i16)
            .bind(memory.superseded_by.clone())
            .bind(memory.superseded_at.map(Timestamp::as_micros))
            .bind(memory.updated_at.as_micros())
            .bind(memory.last_access_at.map(Timestamp::as_micros))
            .bind(to_json(&memory.labels))
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
            let delete = self.dialect().query_list(sql, some.len());
            let delete = delete.bind(space.as_str());
            removed += self.execute(delete.bind_all(some.iter().cloned())).await?;
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

fn bind_memory(insert: Statement, space: &Space, memory: &Memory) -> Statement {
    let insert = insert
        .bind(space.as_str())
        .bind_number(memory.importance())
        .bind(i16::from(!memory.labels.topics.is_empty()))
        .bind(stored_tier(memory))
        .bind(0_i16);
    memory.bind(insert)
}
