//! Basics for all layers: time, ids, hashes, tokens, text rules, metric names. Nothing here does
//! input or output or imports another module of memoir.

pub mod backoff;
pub mod clock;
pub mod erased_json;
pub mod fail_point;
pub mod field_error;
pub mod folding;
pub mod framing;
pub mod hash;
pub mod headings;
pub mod ids;
pub mod json_defaults;
pub mod json_object;
pub mod metrics;
pub mod months;
pub mod problems;
pub mod sentences;
pub mod stop_words;
pub mod text;
pub mod tokens;
pub mod user_id;
pub mod vector_bytes;
pub mod words;
