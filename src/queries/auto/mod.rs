//! The strategy `auto`: search first, and ask a model to choose categories only where the search
//! leaves doubt. Chunks are ranked one by one.
//!
//! `tiers` runs `searching`, then, if the rule in `decide` says so, `picking`; `ranking` orders what
//! they found, `cursor` carries the rest of a ranking to the next page, `result_cache` holds recent
//! results.

pub mod cursor;
pub mod decide;
pub mod picking;
pub mod ranking;
pub mod result_cache;
pub mod searching;
pub mod tiers;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use ranking::RankedChunk;

/// One tier of `auto`: what it found, and why the query stopped there or continued.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Tier {
    /// `recalled`, `search`, `pick` or `walk`.
    #[schema(example = "search")]
    pub tier: String,
    /// Number of chunks that it found.
    pub chunks: i64,
    /// Number of leaves in which they lie.
    pub leaves: i64,
    /// How well the best of them fits the query, from 0 (nothing in common) to 1.
    pub evidence: f64,
    /// `stop` or `continue`.
    #[schema(example = "stop")]
    pub decision: String,
    /// Why the query stopped there or continued.
    pub reason: String,
}

/// What the receipt of `auto` holds besides the tiers, so that it can be replayed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AutoRecord {
    /// The query whose result was used again.
    pub recalled_from: Option<String>,
    pub evidence: f64,
    /// The chunks read, in the order in which they were found.
    pub read: Vec<RankedChunk>,
    /// The chunks for further pages, best first.
    pub rest: Vec<(i64, u32)>,
    pub tiers: Vec<Tier>,
}
