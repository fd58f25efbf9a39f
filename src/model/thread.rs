//! A thread: one conversation of an end user.

use serde::Serialize;
use utoipa::ToSchema;

use crate::base::clock::Timestamp;
use crate::base::ids::ThreadId;

/// A thread: one conversation of an end user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ThreadResponse)]
pub struct Thread {
    #[schema(value_type = String)]
    pub id: ThreadId,
    /// The end user who owns the thread and its messages.
    pub user_id: String,
    /// The name that the client gave the thread; null if it has none.
    pub external_id: Option<String>,
    pub title: Option<String>,
    pub message_count: i64,
    /// Number of turns. A turn is a message of the user and everything up to the next one.
    pub turn_count: i64,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
    /// The time of the newest message.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_message_at: Option<Timestamp>,
}
