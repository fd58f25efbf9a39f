//! The domain types that several layers share, as plain data: no wire format, no SQL.

pub mod batch;
pub mod call;
pub mod category;
pub mod chunk;
pub mod contextual_helper;
pub mod erasure;
pub mod job;
pub mod llm_call;
pub mod memory;
pub mod query;
pub mod scope;
pub mod search;
pub mod source;
pub mod source_version;
pub mod thread;
pub mod thread_receipt;
pub mod version_search;
pub mod vocabulary;
