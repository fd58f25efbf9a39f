//! Memory retrieval: the stored versions of the retrieval policy, and payloads made with them.

mod policies;

pub use policies::{MemoryPolicies, PolicyError, PolicyName, RETRIEVAL, StoredPolicy};
