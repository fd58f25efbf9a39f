//! The wire format of receipts and replays.

use serde::Serialize;
use utoipa::ToSchema;

use crate::http::page::list_response;
use crate::model::llm_call::LlmCall;
use crate::model::query::StoredQuery;
use crate::queries::{
    Differences, DroppedChunk, DroppedPath, Level, LevelRank, Path, PathError, PromptEstimate,
    QueryResult, QuerySettings, QueryWarning, Receipt, RecordedQuery, Replay, ReplayMode,
    SummaryRecord, Tier, Totals,
};

/// A past query.
#[derive(Debug, Serialize, ToSchema)]
pub struct QuerySummaryResponse {
    pub id: String,
    pub query: String,
    pub mode: String,
    #[schema(example = "one_shot")]
    pub strategy: String,
    /// The end user whose sources were queried; null for all users.
    pub user_id: Option<String>,
    /// `succeeded` or `failed`; `erased` if text that it used was deleted: then only ids and numbers
    /// are left.
    pub state: String,
    /// The problem code if the query failed.
    pub error: Option<String>,
    /// Length of the answer in characters.
    pub answer_chars: i64,
    pub totals: Totals,
    pub elapsed_ms: f64,
    #[schema(format = DateTime)]
    pub created_at: String,
}

list_response! {
    /// A page of receipts, newest first.
    QueryListResponse of QuerySummaryResponse
}

/// The stored record of a query.
#[derive(Debug, Serialize, ToSchema)]
pub struct QueryReceiptResponse {
    #[serde(flatten)]
    pub summary: QuerySummaryResponse,
    /// All parameters in force.
    pub parameters: Option<QuerySettings>,
    /// With `auto`, the last tier that was used.
    pub tier: Option<String>,
    /// With `auto`, each tier: what it found, and why the query stopped there or continued.
    pub tiers: Vec<Tier>,
    /// Whether anything relevant to the query was found; null for older receipts.
    pub found: Option<bool>,
    /// With `auto`: `high`, `medium` or `low`.
    pub confidence: Option<String>,
    /// The walk, level by level; level 0 is the pick of `auto`.
    pub levels: Vec<QueryLevelResponse>,
    pub paths: Vec<QueryPathResponse>,
    pub dropped_paths: Vec<DroppedPath>,
    pub dropped_chunks: Vec<DroppedChunk>,
    pub path_errors: Vec<PathError>,
    pub warnings: Vec<QueryWarning>,
    pub estimate: Option<PromptEstimate>,
    /// How chunks were summarised, if they were.
    pub summarization: Option<SummaryRecord>,
    /// The chunks that the answer is based on.
    pub used_chunk_ids: Vec<i64>,
    /// All model call attempts, in order.
    pub responses: Vec<LlmCall>,
    /// A hash of the whole result except times.
    pub result_sha256: String,
}

/// One level of a walk.
#[derive(Debug, Serialize, ToSchema)]
pub struct QueryLevelResponse {
    pub level: i64,
    /// Whether a model was called; a single option is selected without a call.
    pub asked: bool,
    pub max_selectable: i64,
    /// The options, in order.
    pub options: Vec<QueryOptionResponse>,
    /// The selected options, best first.
    pub chosen: Vec<QueryChoiceResponse>,
    /// The rejected options.
    pub rejected: Vec<QueryOptionResponse>,
}

/// An option.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct QueryOptionResponse {
    pub category_id: i64,
    /// The name, or the whole path if the options have different parents.
    pub label: String,
}

/// A selected option.
#[derive(Debug, Serialize, ToSchema)]
pub struct QueryChoiceResponse {
    pub category_id: i64,
    pub label: String,
    pub ranked_relevance: i64,
}

/// A path and the chunks read from it.
#[derive(Debug, Serialize, ToSchema)]
pub struct QueryPathResponse {
    pub names: Vec<String>,
    pub ids: Vec<i64>,
    pub ranks: Vec<LevelRank>,
    pub chunk_ids: Vec<i64>,
}

/// A query and its replay, side by side.
#[derive(Debug, Serialize, ToSchema)]
pub struct QueryReplayResponse {
    pub mode: ReplayMode,
    /// `recorded`: whether everything but times is the same. Null for `live`.
    pub identical: Option<bool>,
    pub original: QuerySummaryResponse,
    pub differences: Differences,
    /// The problem code if the replay failed.
    pub error: Option<String>,
    /// The result of the replay.
    pub result: QueryResult,
}

impl From<&StoredQuery> for QuerySummaryResponse {
    fn from(stored: &StoredQuery) -> Self {
        let receipt = Receipt::of(stored);
        let text = |name: &str| stored.request[name].as_str().unwrap_or_default().to_owned();
        Self {
            id: stored.id.to_string(),
            query: text("query"),
            mode: text("mode"),
            strategy: text("strategy"),
            user_id: (!stored.user_id.is_empty()).then(|| stored.user_id.clone()),
            state: stored.state.clone(),
            error: receipt.error,
            answer_chars: stored.answer_chars,
            totals: receipt.totals,
            elapsed_ms: stored.elapsed_ms,
            created_at: stored.created_at.to_string(),
        }
    }
}

impl From<RecordedQuery> for QueryReceiptResponse {
    fn from(recorded: RecordedQuery) -> Self {
        let RecordedQuery {
            stored,
            receipt,
            calls,
        } = recorded;

        Self {
            summary: QuerySummaryResponse::from(&stored),
            parameters: Receipt::settings(&stored),
            tier: receipt.tier,
            tiers: receipt.auto.map(|auto| auto.tiers).unwrap_or_default(),
            found: receipt.found,
            confidence: receipt.confidence,
            levels: receipt.levels.into_iter().map(Into::into).collect(),
            paths: receipt.paths.into_iter().map(Into::into).collect(),
            dropped_paths: receipt.dropped_paths,
            dropped_chunks: receipt.dropped_chunks,
            path_errors: receipt.path_errors,
            warnings: receipt.warnings,
            estimate: receipt.estimate,
            summarization: receipt.summarization,
            used_chunk_ids: receipt.used_chunk_ids,
            responses: calls,
            result_sha256: receipt.result_sha256,
        }
    }
}

impl From<Level> for QueryLevelResponse {
    fn from(level: Level) -> Self {
        let label = |id: i64| {
            level
                .options
                .iter()
                .find(|offer| offer.id == id)
                .map(|offer| offer.label.clone())
        };

        let chosen: Vec<QueryChoiceResponse> = level
            .chosen
            .iter()
            .map(|choice| QueryChoiceResponse {
                category_id: choice.id,
                label: label(choice.id).unwrap_or_default(),
                ranked_relevance: choice.ranked_relevance,
            })
            .collect();

        let options: Vec<QueryOptionResponse> = level
            .options
            .iter()
            .map(|offer| QueryOptionResponse {
                category_id: offer.id,
                label: offer.label.clone(),
            })
            .collect();

        let taken = |option: &&QueryOptionResponse| {
            chosen
                .iter()
                .any(|choice| choice.category_id == option.category_id)
        };

        let rejected = options
            .iter()
            .filter(|option| !taken(option))
            .cloned()
            .collect();

        Self {
            level: level.level,
            asked: level.asked,
            max_selectable: level.max_selectable,
            options,
            chosen,
            rejected,
        }
    }
}

impl From<Path> for QueryPathResponse {
    fn from(record: Path) -> Self {
        let rank = |(ranked_relevance, best)| LevelRank {
            ranked_relevance,
            best,
        };

        let ranks = record.ranks.into_iter().map(rank).collect();
        Self {
            names: record.names,
            ids: record.ids,
            ranks,
            chunk_ids: record.chunk_ids,
        }
    }
}

impl From<Replay> for QueryReplayResponse {
    fn from(replay: Replay) -> Self {
        Self {
            mode: replay.mode,
            identical: replay.identical,
            original: QuerySummaryResponse::from(&replay.original.stored),
            differences: replay.differences,
            error: replay.error,
            result: *replay.result,
        }
    }
}
