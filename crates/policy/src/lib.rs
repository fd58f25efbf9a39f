//! The retrieval policy: from search hits to the memories that go into a prompt.
//!
//! Everything here is a pure function over plain data: no database, no randomness, and no clock but
//! the time limit of redaction. The same candidates and settings always give the same payload,
//! whatever order the candidates come in, and every step says what it dropped or changed and why.
//!
//! The chain, in order: `threshold`, `deduplicate`, `interleave`, `redact`, `clip`, `budget`.
//! Redaction comes before clipping and the budget: a cut could leave half a card number, and the
//! replacement may be longer or shorter than the match.
//!
//! The service uses `Policy` and `run`, checks and stores `settings`, renders with `prompt_text` and
//! `explain`, and reads the built-in patterns. Other selections share the steps `budget`, `clip` and
//! `deduplicate`.

pub mod built_in;
mod candidate;
mod chain;
pub mod explain;
mod finder;
mod numbers;
mod pattern_size;
pub mod patterns;
pub mod prompt_text;
pub mod secrets;
pub mod settings;
pub mod time_limit;

#[cfg(test)]
mod proptests;

/// The steps of the chain, one file each.
pub mod steps {
    pub mod budget;
    pub mod clip;
    pub mod deduplicate;
    pub(crate) mod interleave;
    pub(crate) mod redact;
    pub(crate) mod threshold;
}

pub use candidate::{Candidate, Entry, MemoryType, Speaker};
pub use chain::{Outcome, Policy, run};
pub use settings::{Settings, SettingsFault};
