//! What every floor may use: time, ids, hashes, tokens, text rules, metric names.
//! Nothing here does input or output, and nothing here imports another module of ours.

pub mod backoff;
pub mod clock;
pub mod fail_point;
pub mod field_error;
pub mod hash;
pub mod ids;
pub mod metrics;
pub mod text;
pub mod tokens;
pub mod words;
