//! Ways in besides the API of our own: adapters over the same operations.

/// OpenAI's protocol, with memory.
pub mod openai;
