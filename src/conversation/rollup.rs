//! Summarises the oldest messages of a thread, with a title. The messages are kept, and the last
//! turns are never summarised.

use std::collections::HashSet;
use std::sync::Arc;

use super::memories::{NewMemory, PreparedMemory};
use super::window::DEFAULT_TURNS;
use super::{Conversation, ConversationError};
use crate::base::ids::ThreadId;
use crate::llm::Session;
use crate::llm::tasks::rollup::Rollup;
use crate::model::call::CallContext;
use crate::model::memory::{Evidence, Memory, MemoryKind};
use crate::store::{MemoryFilter, MemoryPage, TurnPage, Tx};

/// Maximum messages of one summary.
const MAX_MESSAGES: usize = 200;
const DEFAULT_CHARS: usize = 1200;
/// Maximum summaries of a thread that are read, and messages that are read at once.
const MAX_SUMMARIES: usize = 10_000;
const PAGE: usize = 1000;

/// Which messages to summarise.
#[derive(Debug, Clone, Default)]
pub struct RollupInput {
    /// Only turns up to this one; by default all before the window.
    pub until_turn: Option<i64>,
    pub max_chars: Option<usize>,
    pub pinned: bool,
}

/// What became of a request for a summary.
pub enum RolledUp {
    /// A new summary, to be stored.
    New(Box<PreparedMemory>),
    /// Another request has summarised the same messages meanwhile.
    Meanwhile(Box<Memory>),
}

impl Conversation {
    /// The summaries of a thread, oldest first.
    ///
    /// # Errors
    /// The store's.
    pub async fn summaries(
        &self,
        call: &CallContext,
        thread_id: &ThreadId,
    ) -> Result<Vec<Memory>, ConversationError> {
        let filter = MemoryFilter {
            thread_id: Some(thread_id.clone()),
            kinds: vec![MemoryKind::Summary.into_str()],
            ..MemoryFilter::default()
        };
        let page = MemoryPage {
            from: None,
            newest_first: false,
            limit: MAX_SUMMARIES,
        };
        self.list_memories(call, &filter, &page).await
    }

    /// Asks the model for a summary of the oldest messages that no summary covers yet. `before` has
    /// the summaries that the caller knows: if nothing is left because of one that is not among
    /// them, that one is returned. Only one caller at a time may do this for a thread.
    ///
    /// # Errors
    /// [`ConversationError::Invalid`]: there is nothing to summarise. The model's, or the store's.
    pub async fn roll_up(
        &self,
        session: &Session,
        thread_id: &ThreadId,
        input: &RollupInput,
        before: &[Memory],
    ) -> Result<RolledUp, ConversationError> {
        let call = session.call();
        let thread = self.thread(call, thread_id.as_str(), None).await?;
        let max_chars = input.max_chars.unwrap_or(DEFAULT_CHARS);
        if !(100..=10_000).contains(&max_chars) {
            return Err(ConversationError::invalid(
                "max_chars",
                "must be from 100 to 10000",
            ));
        }

        let last = (thread.turn_count - DEFAULT_TURNS).min(input.until_turn.unwrap_or(i64::MAX));
        let summaries = self.summaries(call, &thread.id).await?;
        let messages = self
            .oldest_uncovered(call, &thread.id, last, &summaries)
            .await?;
        if messages.is_empty() {
            let known = |summary: &Memory| before.iter().any(|one| one.id == summary.id);
            let meanwhile = summaries.into_iter().rfind(|summary| !known(summary));
            return meanwhile
                .map(|summary| RolledUp::Meanwhile(Box::new(summary)))
                .ok_or_else(nothing_left);
        }

        let task = Rollup {
            messages: messages
                .iter()
                .map(|message| (message.role.clone(), Arc::from(message.content.as_str())))
                .collect(),
            max_chars,
        };
        let answered = self.llm.ask(session, task).await?;
        let new = NewMemory {
            user_id: Some(thread.user_id.clone()),
            thread_id: Some(thread.id.to_string()),
            kind: Some("summary".to_owned()),
            title: Some(answered.value.title),
            content: answered.value.summary,
            pinned: Some(input.pinned),
            ..NewMemory::default()
        };
        let mut ready = self.prepare_memory(call, new).await?;
        "system".clone_into(&mut ready.memory.role);
        "model".clone_into(&mut ready.memory.source);
        ready.memory.turn_index = messages.last().map_or(0, |message| message.turn_index);
        ready.memory.evidence = Some(Evidence {
            message_ids: messages
                .iter()
                .map(|message| message.id.to_string())
                .collect(),
            ..Evidence::default()
        });
        Ok(RolledUp::New(Box::new(ready)))
    }

    /// Stores a summary inside the caller's transaction.
    ///
    /// # Errors
    /// [`ConversationError::Erased`]: a message that it summarises was deleted meanwhile. Or the
    /// store's.
    pub async fn add_summary(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        ready: &PreparedMemory,
    ) -> Result<(), ConversationError> {
        let memory = &ready.memory;
        // Locked first, as by every writer of its messages.
        if let Some(thread_id) = &memory.thread_id {
            let thread = tx.find_thread(&call.space, thread_id).await?;
            thread.ok_or_else(|| ConversationError::no_thread(thread_id.as_str()))?;
        }

        let evidence = memory.evidence.as_ref();
        let messages = evidence.map_or(&[][..], |evidence| &evidence.message_ids);
        if tx.hold_memories(&call.space, messages).await?.len() < messages.len() {
            return Err(ConversationError::Erased);
        }

        self.add_memory(tx, call, ready).await
    }

    /// The oldest messages up to a turn that none of the summaries covers, at most as many as one
    /// summary takes.
    async fn oldest_uncovered(
        &self,
        call: &CallContext,
        thread_id: &ThreadId,
        last: i64,
        summaries: &[Memory],
    ) -> Result<Vec<Memory>, ConversationError> {
        let covered: HashSet<&str> = summaries
            .iter()
            .filter_map(|summary| summary.evidence.as_ref())
            .flat_map(|evidence| &evidence.message_ids)
            .map(String::as_str)
            .collect();

        let mut found = Vec::new();
        let mut page = TurnPage {
            from: None,
            newest_first: false,
            limit: PAGE,
        };
        loop {
            let messages = self.list_messages(call, thread_id, &page).await?;
            let end = messages.last().map(|last| (last.turn_index, last.seq));
            let is_last = messages.len() < PAGE || end.is_none_or(|(turn, _)| turn > last);
            found.extend(messages.into_iter().filter(|message| {
                message.turn_index <= last && !covered.contains(message.id.as_str())
            }));

            if is_last || found.len() >= MAX_MESSAGES {
                found.truncate(MAX_MESSAGES);
                return Ok(found);
            }

            page.from = end;
        }
    }
}

fn nothing_left() -> ConversationError {
    let rule = format!(
        "there is nothing to summarise: the last {DEFAULT_TURNS} turns stay as they are, and all \
         messages before them have a summary"
    );
    ConversationError::invalid("until_turn", rule)
}
