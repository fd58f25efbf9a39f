//! Search beside the hierarchy: chunks or sources, by words, by meaning, or by both.

use axum::extract::State;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::{JsonBody, object_or_null};
use crate::http::trace::RequestIdentity;
use crate::llm::Session;
use crate::model::search::Found;
use crate::search::{Hit, Kind, Results, Search, SearchInput};

/// What to search for.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"query": "when was the lighthouse built", "k": 5, "filters": {"tags": ["coast"]}}))]
pub struct SearchRequest {
    /// Words, or a query.
    #[schema(min_length = 1, max_length = 10_000, pattern = "\\S")]
    pub query: String,
    /// How chunks are compared with it; `hybrid` if left out.
    #[serde(default, rename = "type")]
    pub kind: Option<SearchType>,
    /// Chunks (`chunks`, if left out), or sources by their best chunk.
    #[serde(default)]
    pub scope: Option<SearchScope>,
    /// Most items; 20 if left out.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 200)]
    pub k: Option<i64>,
    /// Leaves out whatever scores less. Scores of `keyword` and `semantic` can be compared between
    /// searches, those of `hybrid` only within one.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1)]
    pub min_score: Option<f64>,
    #[serde(default, deserialize_with = "object_or_null")]
    pub filters: Option<SearchFilters>,
}

/// By words (BM25), by meaning (cosine of embeddings), or by both.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SearchType {
    Keyword,
    Semantic,
    Hybrid,
}

/// What is found: chunks, or sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SearchScope {
    Chunks,
    Sources,
}

/// Where to search; all of these must hold. Sources that are not eligible are never searched.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SearchFilters {
    /// Only sources that carry all of these tags.
    #[schema(max_items = 100)]
    pub tags: Vec<String>,
    /// Only these sources.
    #[schema(max_items = 100)]
    pub source_ids: Vec<String>,
    /// Only sources of this end user.
    #[schema(max_length = 128)]
    pub user_id: Option<String>,
    /// Only what lies under this category or one below it.
    pub category_id: Option<i64>,
    /// As the sources stood at this moment.
    #[schema(format = DateTime, example = "2026-01-31T12:00:00Z")]
    pub as_of: Option<String>,
}

/// What was found, the best first.
#[derive(Debug, Serialize, ToSchema)]
pub struct SearchResponse {
    pub items: Vec<SearchItemResponse>,
    /// The model that meanings were compared by; null where they were not.
    #[schema(example = "local:embedded")]
    pub embedding_model: Option<String>,
    /// `memory`, or `database` where the space is too big for `vector.memory_mb`.
    #[schema(example = "memory")]
    pub index: &'static str,
    pub timings: SearchTimingsResponse,
}

/// A chunk; with the scope `sources`, the best of its source.
#[derive(Debug, Serialize, ToSchema)]
pub struct SearchItemResponse {
    /// Counted from 1, the best.
    pub rank: usize,
    /// What the items are ordered by: for `keyword` and `semantic` that part itself, for `hybrid`
    /// the mean of both standings as a number from 0 to 1.
    pub score: f64,
    pub score_parts: ScorePartsResponse,
    pub source_id: String,
    /// The version of the source that brought it; later versions with the same text share it.
    pub source_version: i64,
    pub filename: String,
    pub path: String,
    pub user_id: String,
    pub chunk_id: i64,
    /// `retrieval`: cut for searches; `taxonomy`: filed under the hierarchy.
    pub profile: String,
    /// Its place in the source, counted from 1.
    pub ordinal: i64,
    /// The chunk, verbatim.
    pub text_content: String,
    pub token_count: i64,
    /// Where it begins in the source's text, in characters.
    pub start_char: i64,
    /// Where it ends, excluded.
    pub end_char: i64,
    /// The leaf it is filed under, if it is.
    pub category_id: Option<i64>,
    #[schema(format = DateTime)]
    pub created_at: String,
}

/// What a score is made of.
#[derive(Debug, Serialize, ToSchema)]
pub struct ScorePartsResponse {
    /// BM25 as a share of the most that the words could bring, 0 to 1; null where words were not
    /// compared.
    pub keyword: Option<f64>,
    /// Cosine with the query, −1 to 1; null where meanings were not compared, or the chunk has
    /// no vector.
    pub semantic: Option<f64>,
    /// For `hybrid`: how far the chunk is above the usual candidate by its words, in standard
    /// deviations. The score is 1 / (1 + e^−m), where m is the mean of this and
    /// `semantic_standing`: 0.5 is an ordinary candidate, or the only one.
    pub keyword_standing: Option<f64>,
    /// For `hybrid`: the same by meaning, after the query has moved towards the best chunk of
    /// a first round.
    pub semantic_standing: Option<f64>,
}

/// Milliseconds.
#[derive(Debug, Serialize, ToSchema)]
#[expect(clippy::struct_field_names, reason = "units stand in the name")]
pub struct SearchTimingsResponse {
    pub total_ms: f64,
    /// What the embedding model took.
    pub provider_ms: f64,
    /// The rest.
    pub own_ms: f64,
}

/// Search
///
/// Finds chunks by their words, by their meaning, or by both, in what the sources say now. It
/// walks no hierarchy and asks no model but the one that embeds the query, which by default is
/// in this process.
#[utoipa::path(
    post, path = "/v1/search", tag = "search", operation_id = "search", request_body = SearchRequest,
    responses(
        (status = 200, description = "What was found; perhaps nothing.", body = SearchResponse),
        (status = 429, response = crate::http::openapi::ProblemResponse),
        (status = 502, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn search(
    caller: Caller,
    State(search): State<Search>,
    Extension(identity): Extension<RequestIdentity>,
    JsonBody { value: request, .. }: JsonBody<SearchRequest>,
) -> Result<Json<SearchResponse>, ApiError> {
    let session = Session::of_caller(caller.space.clone()).traced_by(Some(identity.traceparent()));
    let session = session.within(caller.budget());
    Ok(Json(
        search
            .search(&session, &caller.space, request.into())
            .await?
            .into(),
    ))
}

impl From<SearchRequest> for SearchInput {
    fn from(request: SearchRequest) -> Self {
        let filters = request.filters.unwrap_or_default();
        Self {
            query: request.query,
            kind: request.kind.map(|kind| match kind {
                SearchType::Keyword => Kind::Keyword,
                SearchType::Semantic => Kind::Semantic,
                SearchType::Hybrid => Kind::Hybrid,
            }),
            by_source: request.scope == Some(SearchScope::Sources),
            k: request.k,
            min_score: request.min_score,
            tags: filters.tags,
            source_ids: filters.source_ids,
            user_id: filters.user_id,
            category_id: filters.category_id,
            as_of: filters.as_of,
        }
    }
}

impl From<Results> for SearchResponse {
    fn from(results: Results) -> Self {
        let timings = SearchTimingsResponse {
            total_ms: results.total_ms,
            provider_ms: results.provider_ms,
            own_ms: (results.total_ms - results.provider_ms).max(0.0),
        };
        Self {
            items: (1..)
                .zip(results.items)
                .map(|(rank, (hit, found))| item(rank, hit, found))
                .collect(),
            embedding_model: results.model,
            index: if results.in_memory {
                "memory"
            } else {
                "database"
            },
            timings,
        }
    }
}

fn item(rank: usize, hit: Hit, found: Found) -> SearchItemResponse {
    SearchItemResponse {
        rank,
        score: hit.score,
        score_parts: ScorePartsResponse {
            keyword: hit.keyword,
            semantic: hit.semantic,
            keyword_standing: hit.standing.map(|standing| standing.keyword),
            semantic_standing: hit.standing.map(|standing| standing.semantic),
        },
        source_id: found.source_id.to_string(),
        source_version: found.source_version,
        filename: found.filename,
        path: found.path,
        user_id: found.user_id,
        chunk_id: found.chunk_id,
        profile: found.profile,
        ordinal: found.ordinal,
        text_content: found.text,
        token_count: found.token_count,
        start_char: found.start_char,
        end_char: found.end_char,
        category_id: found.category_id,
        created_at: found.created_at.to_string(),
    }
}
