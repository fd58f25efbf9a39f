//! Summarises the oldest messages of a thread, with a title. The messages are kept, and the last
//! turns are never summarised.

use std::sync::Arc;

use super::memories::{NewMemory, PreparedMemory};
use super::window::USUAL_TURNS;
use super::{Conversation, ConversationError};
use crate::base::clock::Timestamp;
use crate::base::ids::Space;
use crate::llm::Session;
use crate::llm::tasks::rollup::Rollup;
use crate::model::memory::{Evidence, Memory, MemoryKind};
use crate::store::{MemoryFilter, MemoryPage};

/// Maximum messages of one summary.
const MOST_MESSAGES: usize = 200;
const USUAL_CHARS: usize = 1200;

/// Which messages to summarise.
#[derive(Debug, Clone, Default)]
pub struct RollupInput {
    /// Only turns up to this one; by default all before the window.
    pub until_turn: Option<i64>,
    pub max_chars: Option<usize>,
    pub pinned: bool,
}

impl Conversation {
    /// Asks the model for a summary of the oldest messages that no summary covers yet.
    ///
    /// # Errors
    /// [`ConversationError::Invalid`]: there is nothing to summarise. The model's, or the store's.
    pub async fn roll_up(
        &self,
        session: &Session,
        space: &Space,
        thread_id: &str,
        user_id: Option<&str>,
        input: &RollupInput,
        now: Timestamp,
    ) -> Result<PreparedMemory, ConversationError> {
        let thread = self.thread(space, thread_id, user_id).await?;
        let max_chars = input.max_chars.unwrap_or(USUAL_CHARS);
        if !(100..=10_000).contains(&max_chars) {
            return Err(ConversationError::invalid(
                "max_chars",
                "must be from 100 to 10000",
            ));
        }

        let last = (thread.turn_count - USUAL_TURNS).min(input.until_turn.unwrap_or(i64::MAX));
        let read = async |kind: MemoryKind| {
            let filter = MemoryFilter {
                thread_id: Some(thread.id.clone()),
                kinds: vec![kind.as_str()],
                ..MemoryFilter::default()
            };
            let page = MemoryPage {
                from: None,
                newest_first: false,
                limit: 10_000,
            };
            self.store.list_memories(space, &filter, &page).await
        };

        let summaries = read(MemoryKind::Summary).await?;
        let covered = |message: &Memory| {
            let evidence = summaries
                .iter()
                .filter_map(|summary| summary.evidence.as_ref());
            evidence
                .flat_map(|evidence| &evidence.message_ids)
                .any(|id| id == message.id.as_str())
        };
        let mut messages = read(MemoryKind::Message).await?;
        messages.retain(|message| message.turn_index <= last && !covered(message));
        messages.truncate(MOST_MESSAGES);
        if messages.is_empty() {
            let rule = format!(
                "there is nothing to summarise: the last {USUAL_TURNS} turns stay as they are, and all \
                 messages before them have a summary"
            );
            return Err(ConversationError::invalid("until_turn", rule));
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
            pinned: input.pinned,
            ..NewMemory::default()
        };
        let mut ready = self.prepare_memory(space, new, now).await?;
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
        Ok(ready)
    }
}
