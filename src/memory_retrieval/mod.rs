//! Memory retrieval: the stored versions of the retrieval policy, and payloads made with them.

mod cache;
mod metrics;
mod permits;
mod policies;
mod redaction;
mod retrieve;

pub use metrics::RetrievalMetrics;
pub use policies::{
    MemoryPolicies, PolicyError, PolicyName, PolicyVersion, RETRIEVAL, StoredPolicy,
};
pub use redaction::NewText;
pub use retrieve::{MemoryRetrieval, RetrievalFailure, RetrievalInput, Retrieved, Skipped};
