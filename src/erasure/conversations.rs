//! Erases a thread or a memory: messages, what was made from them, their words and vectors, and the
//! jobs that read them.

use super::{Erased, ErasureError, ErasureOrder, Erasures, Running};
use crate::base::ids::{MemoryId, ThreadId};
use crate::conversation::ConversationError;
use crate::model::erasure::{RowCounts, SubjectKind};
use crate::model::job::Job;
use crate::model::memory::{Memory, MemoryKind};
use crate::model::thread::Thread;
use crate::store::{RemovalScope, Removed, StoreError, Tx};

impl Erasures {
    /// Erases a thread of the given user, or of any, if `unchanged` accepts its current state. A short
    /// thread goes in one transaction, a long one in several, of which the first checks it.
    ///
    /// # Errors
    /// [`ErasureError::NotFound`], [`ErasureError::Changed`], or the store's.
    pub async fn thread(
        &self,
        order: &ErasureOrder,
        id: &str,
        user_id: Option<&str>,
        unchanged: impl Fn(&Thread) -> bool,
    ) -> Result<Erased, ErasureError> {
        let parsed: ThreadId = id
            .parse()
            .map_err(|_| ErasureError::not_found("thread", id))?;
        let begun = self
            .store
            .retry_as("erase_thread", || async {
                let mut tx = self.store.begin().await?;
                // Locked first, as by every writer of its messages.
                let found = tx.find_thread(&order.call.space, &parsed).await?;
                let is_own = |thread: &Thread| user_id.is_none_or(|user| thread.user_id == user);
                let Some(thread) = found else {
                    return Ok(None);
                };
                if !is_own(&thread) {
                    return Err(ErasureError::not_found("thread", id));
                }
                if !unchanged(&thread) {
                    return Err(ErasureError::Changed("thread"));
                }

                let mut running = order.begin(SubjectKind::Thread, thread.id.as_str());
                let pending = running.pending();
                pending.user_id = Some(thread.user_id.clone());
                pending.since = thread.created_at.as_micros();
                pending.used = vec![thread.id.to_string()];
                let scope = RemovalScope::Thread(&thread.id);
                let (ended, _) = self
                    .remove_part(&mut tx, &mut running, &thread.user_id, scope)
                    .await?;
                tx.add_erasure(&running.erasure).await?;
                tx.commit().await?;
                Ok(Some((running, ended)))
            })
            .await?;

        let Some((mut running, ended)) = begun else {
            return self
                .go_on(order, SubjectKind::Thread, parsed.as_str())
                .await;
        };
        running.jobs_cancelled += ended.len();
        self.jobs.announce_cancelled(&ended);
        self.complete(running).await
    }

    /// Deletes some memories and ends the jobs that read them; returns those jobs, and whether there
    /// may be more.
    async fn remove_part(
        &self,
        tx: &mut Tx,
        running: &mut Running,
        user_id: &str,
        scope: RemovalScope<'_>,
    ) -> Result<(Vec<Job>, bool), StoreError> {
        let call = running.call.clone();
        let part = tx.remove_conversation_part(&call.space, user_id, scope);
        let (gone, removed, more) = part.await?;
        running.note(removed);
        let (ended, counts) = self.conversation.end_reader_jobs(tx, &call, &gone).await?;
        running.add(&counts);
        Ok((ended, more))
    }

    pub(super) async fn remove_rest_of_thread(
        &self,
        running: &mut Running,
    ) -> Result<(), StoreError> {
        let user_id = running.pending().user_id.clone().unwrap_or_default();
        let id = ThreadId::from_stored(running.pending().subject.clone());
        let scope = RemovalScope::Thread(&id);
        self.remove_conversations(running, &user_id, scope).await
    }

    /// Deletes memories part by part, and with the last of them their threads.
    pub(super) async fn remove_conversations(
        &self,
        running: &mut Running,
        user_id: &str,
        scope: RemovalScope<'_>,
    ) -> Result<(), StoreError> {
        let call = running.call.clone();
        loop {
            let before = running.erasure.clone();
            let part = self.store.retry("erase_conversation", || async {
                let mut next = Running::of(call.clone(), before.clone());
                let mut tx = self.store.begin().await?;
                if let RemovalScope::Thread(id) = scope {
                    tx.find_thread(&call.space, id).await?;
                }

                let (ended, more) = self.remove_part(&mut tx, &mut next, user_id, scope).await?;
                if !tx.update_erasure(&next.erasure).await? {
                    return Ok(None);
                }

                tx.commit().await?;
                Ok(Some((next, ended, more)))
            });

            let Some((part, ended, more)) = part.await? else {
                running.is_over = true;
                return Ok(());
            };
            running.erasure = part.erasure;
            running.messages += part.messages;
            running.memories += part.memories;
            running.jobs_cancelled += ended.len();
            self.jobs.announce_cancelled(&ended);
            if !more {
                return Ok(());
            }

            self.erase_holders(running).await?;
        }
    }

    /// Erases a memory of the given user, or of any, if `unchanged` accepts its current state; with a
    /// message go the facts and summaries that rest on it.
    ///
    /// # Errors
    /// [`ErasureError::NotFound`], [`ErasureError::Changed`], or the store's.
    pub async fn memory(
        &self,
        order: &ErasureOrder,
        id: &str,
        user_id: Option<&str>,
        unchanged: impl Fn(&Memory) -> bool,
    ) -> Result<Erased, ErasureError> {
        let parsed: MemoryId = id
            .parse()
            .map_err(|_| ErasureError::not_found("memory", id))?;
        let known = match self.conversation.memory(&order.call, id, user_id).await {
            Ok(known) => Some(known),
            Err(ConversationError::Store(error)) => return Err(error.into()),
            Err(_) => None,
        };
        let Some(known) = known else {
            return self
                .go_on(order, SubjectKind::Memory, parsed.as_str())
                .await;
        };

        let begun = self
            .store
            .retry_as("erase_memory", || async {
                let mut tx = self.store.begin().await?;
                let thread = self.thread_of(&mut tx, order, &known).await?;
                let ids = [known.id.to_string()];
                let held = tx.hold_memories(&order.call.space, &ids).await?;
                let Some(memory) = held.into_iter().next() else {
                    return Ok(None);
                };
                if !unchanged(&memory) {
                    return Err(ErasureError::Changed("memory"));
                }

                let mut running = order.begin(SubjectKind::Memory, memory.id.as_str());
                let ended = self
                    .remove_memory(&mut tx, order, memory, &mut running)
                    .await?;
                if let Some(mut thread) = thread {
                    thread.message_count = (thread.message_count - 1).max(0);
                    thread.last_message_at =
                        tx.find_last_message_at(&order.call.space, &thread).await?;
                    tx.update_thread(&order.call.space, &thread).await?;
                }

                tx.add_erasure(&running.erasure).await?;
                tx.commit().await?;
                Ok(Some((running, ended)))
            })
            .await?;

        let Some((mut running, ended)) = begun else {
            return self
                .go_on(order, SubjectKind::Memory, parsed.as_str())
                .await;
        };
        running.jobs_cancelled += ended.len();
        self.jobs.announce_cancelled(&ended);
        self.jobs.announce();
        self.complete(running).await
    }

    /// The thread of a message, locked first, as by every writer of its messages.
    async fn thread_of(
        &self,
        tx: &mut Tx,
        order: &ErasureOrder,
        memory: &Memory,
    ) -> Result<Option<Thread>, StoreError> {
        match &memory.thread_id {
            Some(id) if memory.kind == MemoryKind::Message => {
                tx.find_thread(&order.call.space, id).await
            }
            _ => Ok(None),
        }
    }

    async fn remove_memory(
        &self,
        tx: &mut Tx,
        order: &ErasureOrder,
        memory: Memory,
        running: &mut Running,
    ) -> Result<Vec<Job>, StoreError> {
        let space = &order.call.space;
        let pending = running.pending();
        pending.user_id = Some(memory.user_id.clone());
        pending.since = memory.stored_at.as_micros();
        let user_id = memory.user_id.clone();
        let mut gone = tx.list_memories_resting_on(space, &memory).await?;
        gone.push(memory);
        let removed = tx.remove_whole_memories(space, &user_id, &gone).await?;
        running.note(removed);
        let handed = self.conversation.end_reader_jobs(tx, &order.call, &gone);
        let (ended, counts) = handed.await?;
        running.add(&counts);
        Ok(ended)
    }
}

impl Running {
    /// Notes what a part of an erasure has deleted.
    fn note(&mut self, removed: Removed) {
        self.messages += removed.messages;
        self.memories += removed.memories;
        self.pending().used.extend(removed.ids);
        let rows: RowCounts = removed.rows;
        self.add(&rows);
    }
}
