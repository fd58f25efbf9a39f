//! Basics for all layers: time, ids, metric names. Nothing here does
//! input or output or imports another module of memoir.

pub mod backoff;
pub mod clock;
pub mod erased_json;
pub mod fail_point;
pub mod ids;
pub mod json_defaults;
pub mod json_object;
pub mod metrics;
pub mod problems;
pub mod tags;
pub mod user_id;
