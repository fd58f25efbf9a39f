//! A turn between a user and a model that memoir stands before: what the model is handed, and what
//! is stored of it. A turn is stored once, however often it is sent, and gets the same memories each
//! time: its receipt lists them, and the text is written from it again.

use memoir_text::framing;
use memoir_text::hash::sha256_hex;
use memoir_text::text::char_count;
use memoir_text::tokens::TokenCounter;

use super::context::{ContextInput, Rank};
use super::intent::MAX_QUERY_CHARS;
use super::messages::{MAX_CHARS, NewMessage, PreparedMessages, ThreadRef, Wanted};
use super::{Conversation, ConversationError, NewThread};
use crate::base::ids::{ThreadId, new_uuid};
use crate::llm::Session;
use crate::model::call::CallContext;
use crate::model::memory::{Evidence, Memory, MemoryKind};
use crate::model::thread::Thread;
use crate::model::thread_receipt::{HandedMemories, HandedMemory, ThreadReceipt};
use crate::retrieval::select::kept;
use crate::store::{ReceiptPage, Tx};

/// The tag of a reply that broke off.
pub const INCOMPLETE: &str = "incomplete";
/// Digits of a turn key that say what was said; the others count the times.
const BASE_DIGITS: usize = 56;
/// How long after the last request of a turn one with the same words and no history may repeat it.
const REPEATED_SECONDS: i64 = 10 * 60;
/// Maximum characters of a recollection, and of one memory in it.
const MAX_TEXT_CHARS: usize = 8000;
const MAX_LINE_CHARS: usize = 2000;

/// Something that a user said to a model.
#[derive(Debug, Clone)]
pub struct Turn {
    pub thread: Thread,
    /// Whether the thread was stored when the turn began.
    pub exists: bool,
    /// What the user said.
    pub text: String,
    /// Identifies the turn: every request of it has this key.
    pub key: String,
}

/// What a model is handed for a turn.
#[derive(Debug, Clone, Default)]
pub struct Recollection {
    /// Lines, one for each memory; empty if there are none.
    pub text: String,
    pub memories: HandedMemories,
    pub tokens: i64,
}

/// What came before what a user says.
#[derive(Debug, Clone, Copy)]
pub struct Before<'b> {
    /// The last reply.
    pub reply: &'b str,
    /// How often the user said the same before.
    pub repeats: usize,
}

impl Conversation {
    /// The turn that a request belongs to.
    ///
    /// # Errors
    /// [`ConversationError::Invalid`], [`ConversationError::NotFound`]: the thread is another user's.
    /// Or the store's.
    pub async fn turn(
        &self,
        call: &CallContext,
        thread: NewThread,
        text: String,
        before: Before<'_>,
    ) -> Result<Turn, ConversationError> {
        let wanted = self.prepare_thread(call, thread).await?;
        let found = self.store.find_thread(&call.space, &wanted.id).await?;
        if found
            .as_ref()
            .is_some_and(|found| found.user_id != wanted.user_id)
        {
            return Err(ConversationError::no_thread(wanted.id.as_str()));
        }

        let key = self.turn_key(call, &wanted.id, &text, before).await?;
        Ok(Turn {
            exists: found.is_some(),
            thread: found.unwrap_or(wanted),
            key,
            text,
        })
    }

    /// The key of a turn: that of an earlier request if this one repeats it, or else the next one.
    async fn turn_key(
        &self,
        call: &CallContext,
        thread: &ThreadId,
        text: &str,
        before: Before<'_>,
    ) -> Result<String, ConversationError> {
        let (length, repeats) = (before.reply.len(), before.repeats);
        let said = format!("{thread}\n{repeats}\n{length}\n{}{text}", before.reply);
        let mut base = sha256_hex(said.as_bytes());
        base.truncate(BASE_DIGITS);
        let last = self
            .store
            .find_last_turn(&call.space, thread, &base)
            .await?;
        let Some(last) = last else {
            return Ok(format!("{base}{:08x}", 0));
        };

        // The same words at the beginning of another conversation in this thread are another turn.
        let age = call.now.as_micros() - last.updated_at.as_micros();
        let begins = before.reply.is_empty() && before.repeats == 0;
        if !begins || age <= REPEATED_SECONDS * 1_000_000 {
            return Ok(last.turn_key);
        }

        let number = last.turn_key.get(BASE_DIGITS..);
        let number = number.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let next = number.unwrap_or_default().saturating_add(1);
        Ok(format!("{base}{next:08x}"))
    }

    /// What is remembered for a turn: for a repeated request, what it got before.
    ///
    /// # Errors
    /// The store's.
    pub async fn recollect(
        &self,
        session: &Session,
        turn: &Turn,
    ) -> Result<Recollection, ConversationError> {
        let (call, thread) = (session.call(), &turn.thread);
        if turn.exists {
            let receipt = self
                .store
                .find_thread_receipt(&call.space, &thread.id, &turn.key);
            if let Some(receipt) = receipt.await? {
                return self.recollect_again(call, receipt.memories).await;
            }
        }

        let query: String = turn.text.chars().take(MAX_QUERY_CHARS).collect();
        if query.trim().is_empty() {
            return Ok(Recollection::default());
        }

        let input = ContextInput {
            query,
            user_id: thread.user_id.clone(),
            thread_id: turn.exists.then(|| thread.id.to_string()),
            rank: Rank::Auto,
            quick: true,
            ..ContextInput::default()
        };
        let context = self.context(session, &input).await?;
        let found = kept(&context.memories).map(|one| (&one.found, one.scores.earlier));
        Ok(Recollection::of(found))
    }

    async fn recollect_again(
        &self,
        call: &CallContext,
        handed: HandedMemories,
    ) -> Result<Recollection, ConversationError> {
        let ids: Vec<String> = handed.0.iter().map(|one| one.id.clone()).collect();
        let memories = self.store.list_memories_of(&call.space, &ids).await?;
        let found = handed.0.iter().filter_map(|one| {
            let memory = memories
                .iter()
                .find(|memory| memory.id.as_str() == one.id)?;
            Some((memory, one.earlier))
        });
        Ok(Recollection::of(found))
    }

    /// Stores what the user said, with its receipt, unless it is stored already.
    ///
    /// # Errors
    /// The store's.
    pub async fn store_turn(
        &self,
        call: &CallContext,
        turn: &Turn,
        (model, handed): (&str, &Recollection),
    ) -> Result<ThreadReceipt, ConversationError> {
        let prepared = self
            .prepare_said(call, turn, "user", &turn.text, None)
            .await?;
        let stored = self.store.retry_as("store_turn", || async {
            let mut tx = self.store.begin().await?;
            let (thread, _) = self.find_or_add_thread(&mut tx, call, &turn.thread).await?;
            let found = tx
                .find_thread_receipt(&call.space, &thread.id, &turn.key)
                .await?;
            if let Some(mut receipt) = found {
                receipt.calls += 1;
                receipt.updated_at = call.now;
                tx.update_thread_receipt(&call.space, &receipt).await?;
                tx.commit().await?;
                return Ok(receipt);
            }

            let message = self.append_one(&mut tx, call, &prepared).await?;
            let receipt = ThreadReceipt {
                id: new_uuid(),
                thread_id: thread.id,
                turn_key: turn.key.clone(),
                message_id: message.id.to_string(),
                reply_id: None,
                model: model.to_owned(),
                memories: handed.memories.clone(),
                context_tokens: handed.tokens,
                calls: 1,
                created_at: call.now,
                updated_at: call.now,
            };
            tx.add_thread_receipt(&call.space, &receipt).await?;
            tx.commit().await?;
            Ok::<_, ConversationError>(receipt)
        });

        let receipt = stored.await?;
        self.announce();
        let ids = receipt.memories.0.iter().map(|one| one.id.clone());
        let ids: Vec<String> = ids.collect();
        self.count_uses(call, &ids).await;
        Ok(receipt)
    }

    /// Stores the reply to a turn. An earlier reply to the same turn is superseded.
    ///
    /// # Errors
    /// [`ConversationError::NotFound`]: the turn was deleted meanwhile. Or the store's.
    pub async fn store_reply(
        &self,
        call: &CallContext,
        turn: &Turn,
        text: &str,
        complete: bool,
    ) -> Result<(), ConversationError> {
        let tag = (!complete).then(|| INCOMPLETE.to_owned());
        let prepared = self
            .prepare_said(call, turn, "assistant", text, tag)
            .await?;
        let stored = self.store.retry_as("store_reply", || async {
            let mut tx = self.store.begin().await?;
            let id = &turn.thread.id;
            let gone = || ConversationError::no_thread(id.as_str());
            tx.find_thread(&call.space, id).await?.ok_or_else(gone)?;
            let receipt = tx.find_thread_receipt(&call.space, id, &turn.key).await?;
            let mut receipt = receipt.ok_or_else(gone)?;
            if let Some(old) = &receipt.reply_id {
                let held = tx
                    .hold_memories(&call.space, std::slice::from_ref(old))
                    .await?;
                let is_same = |old: &Memory| {
                    let one = prepared.first();
                    old.content_hash == one.content_hash && old.labels.tags == one.labels.tags
                };
                // A fragment that comes late does not take the place of a whole reply.
                let is_whole = |old: &Memory| !old.labels.tags.iter().any(|tag| tag == INCOMPLETE);
                let stays = |old: &Memory| is_same(old) || (!complete && is_whole(old));
                if held.first().is_some_and(stays) {
                    return Ok(());
                }
            }

            let mut message = self.append_one(&mut tx, call, &prepared).await?;
            if let Some(old) = receipt.reply_id.take() {
                message.evidence = Some(Evidence {
                    supersedes: Some(old),
                    ..Evidence::default()
                });
                // If something else has replaced it before, the reply is stored all the same.
                self.mark_replaced(&mut tx, call, &message).await?;
            }

            receipt.reply_id = Some(message.id.to_string());
            receipt.updated_at = call.now;
            tx.update_thread_receipt(&call.space, &receipt).await?;
            Ok::<_, ConversationError>(tx.commit().await?)
        });

        stored.await?;
        self.announce();
        Ok(())
    }

    /// The receipts of a thread, newest first.
    ///
    /// # Errors
    /// The store's.
    pub async fn list_receipts(
        &self,
        call: &CallContext,
        thread: &Thread,
        page: &ReceiptPage,
    ) -> Result<Vec<ThreadReceipt>, ConversationError> {
        let listed = self
            .store
            .list_thread_receipts(&call.space, &thread.id, page);
        Ok(listed.await?)
    }

    async fn prepare_said(
        &self,
        call: &CallContext,
        turn: &Turn,
        role: &str,
        text: &str,
        tag: Option<String>,
    ) -> Result<PreparedMessages, ConversationError> {
        // PostgreSQL cannot store NUL.
        let content = text
            .chars()
            .filter(|c| *c != '\0')
            .take(MAX_CHARS)
            .collect();
        let message = NewMessage {
            role: Some(role.to_owned()),
            content,
            tags: tag.into_iter().collect(),
            ..NewMessage::default()
        };
        let wanted = Wanted {
            enrich: true,
            extract: false,
        };
        let thread = &turn.thread;
        let name = thread.external_id.as_deref().unwrap_or(thread.id.as_str());
        self.prepare_messages(
            call,
            ThreadRef::Name(name),
            Some(&thread.user_id),
            vec![message],
            wanted,
        )
        .await
    }

    async fn append_one(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        prepared: &PreparedMessages,
    ) -> Result<Memory, ConversationError> {
        let mut appended = self.append(tx, call, prepared).await?;
        let none = || ConversationError::no_thread(prepared.first().id.as_str());
        appended.pop().map(|one| one.memory).ok_or_else(none)
    }
}

impl Recollection {
    /// Writes memories as lines, as many as fit.
    fn of<'m>(memories: impl Iterator<Item = (&'m Memory, bool)>) -> Self {
        let (mut lines, mut handed) = (Vec::new(), Vec::new());
        let mut left = MAX_TEXT_CHARS;
        for (memory, earlier) in memories {
            let line = line(memory, earlier);
            let length = char_count(&line) + 1;
            if length > left {
                break;
            }

            left -= length;
            lines.push(line);
            handed.push(HandedMemory {
                id: memory.id.to_string(),
                earlier,
            });
        }

        let text = lines.join("\n");
        let tokens = TokenCounter::for_model(None).count(&text);
        Self {
            tokens: i64::try_from(tokens).unwrap_or(i64::MAX),
            memories: HandedMemories(handed),
            text,
        }
    }
}

/// `- [role, date] content`; `earlier` follows the date of what something later contradicts.
fn line(memory: &Memory, earlier: bool) -> String {
    let mark = if earlier { ", earlier" } else { "" };
    let content: String = memory.content.chars().take(MAX_LINE_CHARS).collect();
    let content = framing::entry(&content);
    // What enrichment adds later must not change the line within a turn.
    let role = match memory.kind {
        MemoryKind::Message => memory.role.as_str(),
        kind => kind.into_str(),
    };
    let day = memory.created_at.day();
    format!("- [{role}, {day}{mark}] {content}")
}
