//! Deletes what a thread or an end user has left: memories, terms, vectors and jobs, a few at a time.

use std::collections::BTreeSet;

use memoir_index::OwnerKind;
use sqlx::Row as _;

use super::dialect::BindAll as _;
use super::memories::COLUMNS;
use super::rows::Stored as _;
use super::text_uses::count;
use super::{StoreError, Tx};
use crate::base::ids::{JobId, Space, ThreadId, context_prefix, memory_group};
use crate::model::erasure::RowCounts;
use crate::model::llm_call::Payer;
use crate::model::memory::Memory;

/// Memories that one transaction deletes.
const PART: usize = 500;

/// Whose memories are deleted.
#[derive(Debug, Clone, Copy)]
pub enum RemovalScope<'r> {
    Thread(&'r ThreadId),
    User(&'r str),
}

/// How much was deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    pub messages: u64,
    /// Facts, preferences and summaries.
    pub memories: u64,
    /// The ids of both.
    pub ids: Vec<String>,
    pub rows: RowCounts,
}

impl Tx {
    /// Deletes some memories of a thread or of an end user, and with the last of them the threads.
    /// Returns them, and whether there may be more.
    pub async fn remove_conversation_part(
        &mut self,
        space: &Space,
        user_id: &str,
        scope: RemovalScope<'_>,
    ) -> Result<(Vec<Memory>, Removed, bool), StoreError> {
        let (column, value) = match scope {
            RemovalScope::Thread(id) => ("thread_id", id.as_str()),
            RemovalScope::User(user_id) => ("user_id", user_id),
        };

        if let RemovalScope::User(user_id) = scope {
            // Locked first, as by every writer of their messages: a message that is being stored is
            // seen below, and not left without its thread.
            let threads = "SELECT id FROM threads WHERE space = ? AND user_id = ? ORDER BY id";
            let threads = self.dialect().query_for_update(threads);
            self.fetch_all(threads.bind(space.as_str()).bind(user_id.to_owned()))
                .await?;
        }

        let sql = format!(
            "SELECT {COLUMNS} FROM memories m WHERE m.space = ? AND m.{column} = ? LIMIT {PART}"
        );
        let query = self.composed(&sql);
        let rows = self
            .fetch_all(query.bind(space.as_str()).bind(value.to_owned()))
            .await?;
        let memories = rows.iter().map(Memory::read);
        let memories: Vec<Memory> = memories.collect::<Result<_, _>>()?;
        let more = memories.len() == PART;
        let mut removed = self
            .remove_whole_memories(space, user_id, &memories)
            .await?;
        let jobs = memories
            .iter()
            .filter_map(|memory| memory.enrichment_job.clone());
        let mut jobs: BTreeSet<JobId> = jobs.map(JobId::from_stored).collect();
        if let RemovalScope::Thread(id) = scope {
            // The caller has another job go on with those messages.
            for shared in self.list_shared_jobs(space, id, &jobs).await? {
                jobs.remove(&shared);
            }
        }

        let jobs: Vec<JobId> = jobs.into_iter().collect();
        self.remove_jobs(space, &jobs, &mut removed.rows).await?;
        if !more {
            let threads = self.remove_threads_in(space, scope).await?;
            count(&mut removed.rows, "threads", threads);
        }

        Ok((memories, removed, more))
    }

    /// Those of these jobs for which memories outside of a thread wait.
    async fn list_shared_jobs(
        &mut self,
        space: &Space,
        thread: &ThreadId,
        jobs: &BTreeSet<JobId>,
    ) -> Result<Vec<JobId>, StoreError> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }

        let sql = "SELECT DISTINCT enrichment_job FROM memories WHERE space = ? AND enrichment_state = 'pending' \
                   AND (thread_id IS NULL OR thread_id <> ?) AND enrichment_job IN (??)";
        let query = self.dialect().query_list(sql, jobs.len());
        let query = query
            .bind(space.as_str())
            .bind(thread.to_string())
            .bind_all(jobs.iter().map(|id| id.as_str().to_owned()));
        self.read_values(query).await
    }

    /// Deletes memories of an end user with everything that belongs to them.
    pub async fn remove_whole_memories(
        &mut self,
        space: &Space,
        user_id: &str,
        memories: &[Memory],
    ) -> Result<Removed, StoreError> {
        let mut removed = Removed::default();
        if memories.is_empty() {
            return Ok(removed);
        }

        let is_message = |memory: &&Memory| memory.kind.into_str() == "message";
        removed.messages = memories.iter().filter(is_message).count() as u64;
        removed.memories = memories.len() as u64 - removed.messages;
        let ids: Vec<String> = memories
            .iter()
            .map(|memory| memory.id.to_string())
            .collect();
        let seqs: Vec<i64> = memories.iter().map(|memory| memory.seq).collect();
        let (terms, vectors) = self.remove_memory_entries(space, user_id, &seqs).await?;
        count(&mut removed.rows, "search_entries", terms);
        count(&mut removed.rows, "embeddings", vectors);
        for (table, sql) in [
            (
                "memory_topics",
                "DELETE FROM memory_topics WHERE space = ? AND memory_id IN (??)",
            ),
            (
                "memory_entities",
                "DELETE FROM memory_entities WHERE space = ? AND memory_id IN (??)",
            ),
            (
                "memory_tags",
                "DELETE FROM memory_tags WHERE space = ? AND memory_id IN (??)",
            ),
            (
                "thread_receipts",
                "DELETE FROM thread_receipts WHERE space = ? AND message_id IN (??)",
            ),
        ] {
            let delete = self.dialect().query_list(sql, ids.len());
            let delete = ids.iter().fold(delete.bind(space.as_str()), |delete, id| {
                delete.bind(id.clone())
            });
            count(&mut removed.rows, table, self.execute(delete).await?);
        }

        let gone = self.remove_memories(space, &ids).await?;
        count(&mut removed.rows, "memories", gone);
        removed.ids = ids;
        Ok(removed)
    }

    /// The facts and summaries that rest on a message.
    pub async fn list_memories_resting_on(
        &mut self,
        space: &Space,
        message: &Memory,
    ) -> Result<Vec<Memory>, StoreError> {
        let Some(thread_id) = &message.thread_id else {
            return Ok(Vec::new());
        };

        let sql = format!(
            "SELECT {COLUMNS} FROM memories m WHERE m.space = ? AND m.user_id = ? AND m.thread_id = ? \
             AND m.evidence_json LIKE ?"
        );
        let query = self.dialect().query_for_update(&sql);
        let query = query
            .bind(space.as_str().to_owned())
            .bind(message.user_id.clone())
            .bind(thread_id.to_string())
            .bind(format!("%\"{}\"%", message.id));
        let rows = self.fetch_all(query).await?;
        let found = rows.iter().map(Memory::read);
        let found: Vec<Memory> = found.collect::<Result<_, _>>()?;
        // A memory that replaced it names it too, but does not rest on it.
        let rests = |memory: &Memory| {
            let evidence = memory.evidence.as_ref();
            evidence.is_some_and(|evidence| {
                let named = &evidence.message_ids;
                // Evidence that cannot be read is empty: what the statement found goes.
                let is_unreadable = named.is_empty() && evidence.supersedes.is_none();
                is_unreadable || named.iter().any(|id| id == message.id.as_str())
            })
        };
        Ok(found.into_iter().filter(rests).collect())
    }

    /// Deletes the terms and vectors of memories, and counts both.
    async fn remove_memory_entries(
        &mut self,
        space: &Space,
        user_id: &str,
        seqs: &[i64],
    ) -> Result<(u64, u64), StoreError> {
        let entries = self.list_entry_ids(space, OwnerKind::Memory, seqs).await?;
        let ids: Vec<i64> = entries.values().copied().collect();
        let vectors = self.count_vectors(space, &ids).await?;
        self.remove_entries(space, OwnerKind::Memory, seqs).await?;
        self.count_entry_write(space, &memory_group(user_id))
            .await?;
        Ok((ids.len() as u64, vectors))
    }

    async fn count_vectors(&mut self, space: &Space, entries: &[i64]) -> Result<u64, StoreError> {
        let mut count = 0;
        for some in entries.chunks(PART) {
            let sql = "SELECT COUNT(*) AS number FROM embeddings WHERE space = ? AND owner_kind = 'memory' \
                       AND entry_id IN (??)";
            let query = self.dialect().query_list(sql, some.len());
            let query = query.bind(space.as_str()).bind_all(some.iter().copied());
            if let Some(row) = self.fetch_optional(query).await? {
                count += u64::try_from(row.try_get::<i64, _>("number")?).unwrap_or(0);
            }
        }

        Ok(count)
    }

    async fn remove_threads_in(
        &mut self,
        space: &Space,
        scope: RemovalScope<'_>,
    ) -> Result<u64, StoreError> {
        let delete = match scope {
            RemovalScope::Thread(id) => self
                .sql("DELETE FROM threads WHERE space = ? AND id = ?")
                .bind(space.as_str())
                .bind(id.as_str()),
            RemovalScope::User(user_id) => self
                .sql("DELETE FROM threads WHERE space = ? AND user_id = ?")
                .bind(space.as_str())
                .bind(user_id.to_owned()),
        };

        self.execute(delete).await
    }

    /// Deletes the model calls that contexts of an end user paid for.
    pub async fn remove_context_calls(
        &mut self,
        space: &Space,
        user_id: &str,
    ) -> Result<u64, StoreError> {
        let delete = "DELETE FROM llm_calls WHERE space = ? AND payer_kind = ? AND payer_id LIKE ?";
        let kind = Payer::Context(String::new());
        let delete = self
            .sql(delete)
            .bind(space.as_str())
            .bind(kind.kind())
            .bind(format!("{}-%", context_prefix(user_id)));
        self.execute(delete).await
    }
}
