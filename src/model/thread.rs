//! A thread: one conversation of an end user.

use crate::base::clock::Timestamp;
use crate::base::ids::ThreadId;

/// A thread as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    pub id: ThreadId,
    pub user_id: String,
    pub title: Option<String>,
    pub message_count: i64,
    /// A turn is a message of the user and what follows until the next one.
    pub turn_count: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The time of its newest message.
    pub last_message_at: Option<Timestamp>,
}
