//! Memory retrieval: the stored versions of the retrieval policy, and payloads made with them.

mod cache;
mod metrics;
mod policies;
mod retrieve;

pub use metrics::RetrievalMetrics;
pub use policies::{MemoryPolicies, PolicyError, PolicyName, RETRIEVAL, StoredPolicy};
pub use retrieve::{
    MemoryRetrieval, RetrievalFailure, RetrievalInput, RetrieveError, Retrieved, Skipped,
};
