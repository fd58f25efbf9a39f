//! The nouns that more than one floor speaks of, as plain data: no wire format, no SQL.

pub mod job;
pub mod llm_call;
pub mod source;
