//! Deletes what a thread or an end user has left: memories, terms, vectors, jobs and stored
//! responses, a few at a time.

use std::collections::BTreeSet;

use sqlx::Row as _;

use super::dialect::like_text;
use super::{Store, StoreError, Tx};
use crate::base::ids::{JobId, Space, ThreadId, context_prefix, memory_group};
use crate::model::llm_call::Payer;
use crate::model::search::OwnerKind;
use crate::model::thread::Thread;

/// Memories that one transaction deletes.
const PART: usize = 500;
/// The routes whose stored responses contain the text of a user's memories.
const ROUTES: &str =
    "'create_thread', 'create_messages', 'create_memory', 'create_context', 'create_summary'";

/// Whose memories are deleted.
#[derive(Debug, Clone, Copy)]
enum RemovalScope<'r> {
    Thread(&'r ThreadId),
    User(&'r str),
}

/// How much was deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removed {
    pub threads: u64,
    pub messages: u64,
    /// Facts, preferences and summaries.
    pub memories: u64,
    /// Search entries, with the terms of a text each.
    pub terms: u64,
    pub vectors: u64,
    pub jobs: u64,
    pub stored_responses: u64,
}

impl Removed {
    fn plus(self, other: Self) -> Self {
        Self {
            threads: self.threads + other.threads,
            messages: self.messages + other.messages,
            memories: self.memories + other.memories,
            terms: self.terms + other.terms,
            vectors: self.vectors + other.vectors,
            jobs: self.jobs + other.jobs,
            stored_responses: self.stored_responses + other.stored_responses,
        }
    }
}

impl Store {
    /// Deletes a thread and everything made from it, if `unchanged` accepts its current state;
    /// `None` if it does not. A short thread goes in one transaction, a long one in several, of
    /// which the first checks it. Safe to run again from any point.
    pub async fn remove_thread(
        &self,
        space: &Space,
        thread: &Thread,
        unchanged: impl Fn(&Thread) -> bool,
    ) -> Result<Option<Removed>, StoreError> {
        let scope = RemovalScope::Thread(&thread.id);
        let mut all = Removed::default();
        let mut begun = false;
        loop {
            let part = self.retry("remove_thread", || async {
                let mut tx = self.begin().await?;
                // Locked first, as by every writer of its messages.
                let current = tx.find_thread(space, &thread.id).await?;
                if !begun && current.as_ref().is_some_and(|current| !unchanged(current)) {
                    return Ok(None);
                }

                let (mut part, more) = tx.remove_part(space, &thread.user_id, scope).await?;
                if !more {
                    part.threads = tx.remove_threads_in(space, scope).await?;
                    part.stored_responses = tx.remove_stored_texts(space, scope).await?;
                }

                tx.commit().await?;
                Ok(Some((part, more)))
            });

            let Some((part, more)) = part.await? else {
                return Ok(None);
            };
            begun = true;
            all = all.plus(part);
            if !more {
                return Ok(Some(all));
            }
        }
    }

    /// Deletes the memories of an end user and everything made from them. Safe to run again from
    /// any point.
    pub async fn remove_user_memories(
        &self,
        space: &Space,
        user_id: &str,
    ) -> Result<Removed, StoreError> {
        let scope = RemovalScope::User(user_id);
        let mut all = Removed::default();
        loop {
            let part = self.retry("remove_user_memories", || async {
                let mut tx = self.begin().await?;
                let part = tx.remove_part(space, user_id, scope).await?;
                tx.commit().await?;
                Ok(part)
            });

            let (part, more) = part.await?;
            all = all.plus(part);
            if !more {
                break;
            }
        }

        let rest = self.retry("remove_user_memories", || async {
            let mut tx = self.begin().await?;
            let rest = Removed {
                threads: tx.remove_threads_in(space, scope).await?,
                stored_responses: tx.remove_stored_texts(space, scope).await?,
                jobs: tx.remove_user_jobs(space, user_id).await?,
                ..Removed::default()
            };
            tx.remove_context_calls(space, user_id).await?;
            tx.commit().await?;
            Ok(rest)
        });

        Ok(all.plus(rest.await?))
    }
}

impl Tx {
    /// Deletes some memories; also returns whether there may be more.
    async fn remove_part(
        &mut self,
        space: &Space,
        user_id: &str,
        scope: RemovalScope<'_>,
    ) -> Result<(Removed, bool), StoreError> {
        let (column, value) = match scope {
            RemovalScope::Thread(id) => ("thread_id", id.as_str()),
            RemovalScope::User(user_id) => ("user_id", user_id),
        };

        let sql = format!(
            "SELECT id, seq, type, enrichment_job FROM memories WHERE space = ? AND {column} = ? LIMIT {PART}"
        );
        let query = self.backend.dialect.assembled(&sql);
        let rows = self
            .fetch_all(query.bind(space.as_str()).bind(value.to_owned()))
            .await?;
        let (mut ids, mut seqs, mut jobs) = (Vec::new(), Vec::new(), BTreeSet::new());
        let mut removed = Removed::default();
        for row in &rows {
            ids.push(row.try_get::<String, _>("id")?);
            seqs.push(row.try_get::<i64, _>("seq")?);
            jobs.extend(row.try_get::<Option<String>, _>("enrichment_job")?);
            match row.try_get::<String, _>("type")?.as_str() {
                "message" => removed.messages += 1,
                _ => removed.memories += 1,
            }
        }

        if ids.is_empty() {
            return Ok((removed, false));
        }

        (removed.terms, removed.vectors) =
            self.remove_memory_entries(space, user_id, &seqs).await?;
        self.remove_memories(space, &ids).await?;
        for id in jobs {
            removed.jobs += self.remove_job(space, JobId::from_stored(id)).await?;
        }

        Ok((removed, rows.len() == PART))
    }

    /// Deletes the terms and vectors of memories, and counts both.
    pub async fn remove_memory_entries(
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
            let query = self.backend.dialect.query_list(sql, some.len());
            let query = query.bind(space.as_str());
            let query = some.iter().fold(query, |query, id| query.bind(*id));
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

    /// Deletes responses that are kept for repeated requests and contain the deleted text.
    async fn remove_stored_texts(
        &mut self,
        space: &Space,
        scope: RemovalScope<'_>,
    ) -> Result<u64, StoreError> {
        let (field, value) = match scope {
            RemovalScope::Thread(id) => ("thread_id", id.as_str()),
            RemovalScope::User(user_id) => ("user_id", user_id),
        };

        let value = serde_json::Value::from(value).to_string();
        let wanted = format!("\"{field}\":{value}");
        let escaped = like_text(&wanted);

        let delete = format!(
            "DELETE FROM idempotency_keys WHERE space = ? AND route IN ({ROUTES}) AND response_json LIKE ? ESCAPE '!'"
        );
        let delete = self.backend.dialect.assembled(&delete);
        self.execute(delete.bind(space.as_str()).bind(format!("%{escaped}%")))
            .await
    }

    /// Deletes the model calls that contexts of an end user paid for.
    async fn remove_context_calls(
        &mut self,
        space: &Space,
        user_id: &str,
    ) -> Result<(), StoreError> {
        let delete = "DELETE FROM llm_calls WHERE space = ? AND payer_kind = ? AND payer_id LIKE ?";
        let kind = Payer::Context(String::new());
        let delete = self.sql(delete).bind(space.as_str()).bind(kind.kind());
        let delete = delete.bind(format!("{}-%", context_prefix(user_id)));
        self.execute(delete).await.map(|_| ())
    }

    /// Deletes the jobs of an end user's memories.
    async fn remove_user_jobs(&mut self, space: &Space, user_id: &str) -> Result<u64, StoreError> {
        let query =
            "SELECT id FROM jobs WHERE space = ? AND user_id = ? AND kind IN ('enrich', 'extract')";
        let query = self.sql(query).bind(space.as_str());
        let rows = self.fetch_all(query.bind(user_id.to_owned())).await?;
        let mut removed = 0;
        for row in rows {
            let id = JobId::from_stored(row.try_get("id")?);
            removed += self.remove_job(space, id).await?;
        }

        Ok(removed)
    }

    /// Deletes a job with its records; if it runs, its process can no longer write.
    async fn remove_job(&mut self, space: &Space, id: JobId) -> Result<u64, StoreError> {
        let delete = self.sql("DELETE FROM jobs WHERE space = ? AND id = ?");
        let removed = self
            .execute(delete.bind(space.as_str()).bind(id.as_str().to_owned()))
            .await?;
        self.remove_calls_of(space.as_str(), &Payer::Job(id))
            .await?;
        Ok(removed)
    }
}
