//! The window of a thread: its last turns verbatim, and the pinned summary.

use super::{Conversation, ConversationError};
use crate::model::call::CallContext;
use crate::model::memory::{Memory, MemoryKind};
use crate::model::thread::Thread;
use crate::store::{MemoryFilter, MemoryPage};

/// Number of turns, unless the request sets another.
pub const DEFAULT_TURNS: i64 = 4;
const MAX_TURNS: i64 = 50;

/// The last turns of a thread.
pub struct Window {
    pub thread: Thread,
    pub k: i64,
    /// Turns in order, each with its messages.
    pub turns: Vec<(i64, Vec<Memory>)>,
    /// The newest pinned summary.
    pub pinned: Option<Memory>,
}

impl Conversation {
    /// The last `k` turns.
    ///
    /// # Errors
    /// [`ConversationError::Invalid`], [`ConversationError::NotFound`], or the store's.
    pub async fn window(
        &self,
        call: &CallContext,
        thread_id: &str,
        user_id: Option<&str>,
        k: Option<i64>,
    ) -> Result<Window, ConversationError> {
        let k = k.unwrap_or(DEFAULT_TURNS);
        if !(1..=MAX_TURNS).contains(&k) {
            return Err(ConversationError::invalid(
                "k",
                format!("must be from 1 to {MAX_TURNS}"),
            ));
        }

        let thread = self.thread(call, thread_id, user_id).await?;
        let first = thread.turn_count - k + 1;
        let mut turns: Vec<(i64, Vec<Memory>)> = Vec::new();
        for message in self
            .store
            .list_last_turns(&call.space, &thread.id, first)
            .await?
        {
            match turns.last_mut() {
                Some((turn, messages)) if *turn == message.turn_index => messages.push(message),
                _ => turns.push((message.turn_index, vec![message])),
            }
        }

        let filter = MemoryFilter {
            thread_id: Some(thread.id.clone()),
            kinds: vec![MemoryKind::Summary.into_str()],
            pinned: Some(true),
            ..MemoryFilter::default()
        };
        let page = MemoryPage {
            from: None,
            newest_first: true,
            limit: 1,
        };
        let pinned = self
            .store
            .list_memories(&call.space, &filter, &page)
            .await?;
        Ok(Window {
            thread,
            k,
            turns,
            pinned: pinned.into_iter().next(),
        })
    }
}
