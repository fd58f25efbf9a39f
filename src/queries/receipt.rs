//! The stored record of a query: options and choices, what was dropped and why, and the cost. It
//! contains no chunk text.

use memoir_text::hash::sha256_hex;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::auto::AutoRecord;
use super::budget::ModeTokens;
use super::cursor::LeafPlace;
use super::input::QuerySettings;
use super::result::{
    DroppedChunk, DroppedPath, PathError, PromptEstimate, QueryResult, QueryWarning, SummaryPart,
};
use super::traversal::{Level, Path};
use crate::model::query::StoredQuery;

/// The stored record of a query.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Receipt {
    pub levels: Vec<Level>,
    /// The paths, and the chunks read from them.
    pub paths: Vec<Path>,
    pub dropped_paths: Vec<DroppedPath>,
    pub dropped_chunks: Vec<DroppedChunk>,
    pub path_errors: Vec<PathError>,
    pub warnings: Vec<QueryWarning>,
    pub estimate: Option<PromptEstimate>,
    pub summarization: Option<SummaryRecord>,
    pub used_chunk_ids: Vec<i64>,
    /// The memories in the prompt, each with its relevance.
    pub memories: Vec<(String, f64)>,
    /// Whether the memories have to do with the query; null if none were searched.
    pub memories_related: Option<bool>,
    /// The helpers in the prompt: source and version.
    pub helpers: Vec<(String, i64)>,
    pub next: Option<LeafPlace>,
    pub mode_tokens: ModeTokens,
    pub totals: Totals,
    /// What `auto` decided and found.
    pub tier: Option<String>,
    pub found: Option<bool>,
    pub confidence: Option<String>,
    pub auto: Option<AutoRecord>,
    /// The problem code if the query failed.
    pub error: Option<String>,
    /// A hash of the whole result except times; a replay must produce the same one.
    pub result_sha256: String,
}

/// How chunks were summarised.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = QuerySummarizationResponse)]
pub struct SummaryRecord {
    pub ratio: f64,
    pub part_token_cap: i64,
    pub parts: Vec<SummaryPart>,
    pub combined_char_count: i64,
    pub allowed_char_count: i64,
}

/// The totals of a query: calls, tokens, cost and time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = QueryTotalsResponse)]
pub struct Totals {
    /// Number of attempted calls, including failed ones.
    pub calls: i64,
    pub tokens_prompt: i64,
    pub tokens_completion: i64,
    /// Null if a price is unknown.
    pub cost_usd: Option<f64>,
    /// Total time of all model calls and retrievals in milliseconds.
    pub total_latency: f64,
}

impl Totals {
    pub fn of(result: &QueryResult) -> Self {
        let costs: Option<Vec<f64>> = result.responses.iter().map(|call| call.cost_usd).collect();
        Self {
            calls: i64::try_from(result.responses.len()).unwrap_or(i64::MAX),
            tokens_prompt: result.responses.iter().map(|call| call.tokens_prompt).sum(),
            tokens_completion: result
                .responses
                .iter()
                .map(|call| call.tokens_completion)
                .sum(),
            cost_usd: costs.map(|costs| costs.iter().sum::<f64>() + 0.0),
            total_latency: result.total_latency,
        }
    }
}

impl Receipt {
    /// Completes it with what the result contains.
    #[must_use]
    pub fn complete(self, result: &mut QueryResult, error: Option<&str>) -> Self {
        let summarization = result.summarization.as_ref();
        let summarization = summarization.map(|summarization| SummaryRecord {
            ratio: summarization.ratio,
            part_token_cap: summarization.part_token_cap,
            parts: summarization.parts.clone(),
            combined_char_count: summarization.combined_char_count,
            allowed_char_count: summarization.allowed_char_count,
        });
        let result_sha256 = fingerprint(result);
        let used = result.used_chunks.iter();
        let memories = result.memories.iter();

        Self {
            dropped_paths: result.dropped_paths.clone(),
            dropped_chunks: result.dropped_chunks.clone(),
            path_errors: result.path_errors.clone(),
            warnings: result.warnings.clone(),
            estimate: result.estimate.clone(),
            summarization,
            used_chunk_ids: used.map(|chunk| chunk.chunk_id).collect(),
            memories: memories
                .map(|memory| (memory.memory_id.clone(), memory.relevance))
                .collect(),
            totals: Totals::of(result),
            tier: result.tier.clone(),
            found: Some(result.found),
            confidence: result.confidence.clone(),
            auto: result.tier.is_some().then(|| AutoRecord {
                tiers: result.tiers.clone(),
                ..self.auto.unwrap_or_default()
            }),
            error: error.map(ToOwned::to_owned),
            result_sha256,
            ..self
        }
    }

    /// Reads a stored receipt.
    pub fn of(stored: &StoredQuery) -> Self {
        serde_json::from_value(stored.receipt.clone()).unwrap_or_default()
    }

    /// The query with its parameters, if it can still be parsed.
    pub fn settings(stored: &StoredQuery) -> Option<QuerySettings> {
        serde_json::from_value(stored.request.clone()).ok()
    }
}

/// A hash of a result except times.
pub fn fingerprint(result: &mut QueryResult) -> String {
    // The chunks are by far the largest part, so they are not copied for this.
    let chunks = std::mem::take(&mut result.chunks);
    let mut timeless = result.clone();
    (timeless.elapsed_ms, timeless.total_latency) = (0.0, 0.0);
    for call in &mut timeless.responses {
        call.latency_ms = 0.0;
        call.timestamp.clear();
    }

    for retrieval in &mut timeless.retrievals {
        retrieval.latency_ms = 0.0;
    }

    let bytes = serde_json::to_vec(&(timeless, &chunks)).unwrap_or_default();
    result.chunks = chunks;
    sha256_hex(&bytes)
}
