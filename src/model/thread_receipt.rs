//! The receipt of a turn: which memories were handed to a model, without their text.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::base::clock::Timestamp;
use crate::base::ids::ThreadId;

/// What a model was given for a turn of a thread: ids and numbers, never text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ThreadReceiptResponse)]
pub struct ThreadReceipt {
    pub id: String,
    #[schema(value_type = String)]
    pub thread_id: ThreadId,
    /// Recognises a repeated request.
    #[serde(skip)]
    pub turn_key: String,
    /// The user's message.
    pub message_id: String,
    /// The newest reply; null until there is one.
    pub reply_id: Option<String>,
    /// The model, as `provider:model`.
    pub model: String,
    /// The memories that the context contained, in its order.
    #[schema(value_type = Vec<HandedMemory>)]
    pub memories: HandedMemories,
    /// Tokens of the context by the tokenizer `o200k_base`.
    pub context_tokens: i64,
    /// Number of requests of this turn, such as those of a tool loop. Each got the same memories.
    pub calls: i64,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// The memories of a context, in its order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HandedMemories(pub Vec<HandedMemory>);

/// A memory in a context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HandedMemory {
    pub id: String,
    /// Whether it was marked as contradicted by something that was said later.
    #[serde(default)]
    pub earlier: bool,
}
