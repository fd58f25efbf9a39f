//! Search without a walk: chunks or sources, by keyword, by meaning, or both.

use axum::Json;
use axum::extract::State;
use memoir_index::{Hit, Kind};
use memoir_text::tokens::TokenCounter;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::{JsonBody, object_or_null};
use crate::llm::Session;
use crate::model::chunk::SourceChunk;
use crate::model::scope::{ScopeInput, Searched};
use crate::queries::Highlight;
use crate::retrieval::{Item, MemoryItem, Results, Retrieval, SearchInput};

/// A search.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"query": "when was the lighthouse built", "k": 5, "filters": {"tags": ["coast"]}}))]
pub struct SearchRequest {
    /// Keywords or a question. If all words are in double quotes, results contain them as they
    /// stand; the best 500 are looked at.
    #[schema(min_length = 1, max_length = 10_000, pattern = "\\S")]
    pub query: String,
    /// How to search; `hybrid` if omitted.
    #[serde(default, rename = "type")]
    pub kind: Option<Kind>,
    /// What to search: the chunks of sources (`chunks`, the default), the same with only the best
    /// chunk of each source (`sources`), the memories of the end user in `filters.user_id`
    /// (`memories`), or chunks and memories (`both`).
    pub scope: Option<SearchScope>,
    /// Maximum number of items; 20 if omitted.
    #[schema(minimum = 1, maximum = 200)]
    pub k: Option<i64>,
    /// Omits items with a lower score. Scores can be compared between searches of one type. If
    /// omitted, a `hybrid` search returns nothing if no text has a word of the query or a meaning
    /// close to it; with 0, it returns the nearest texts anyway.
    #[schema(minimum = 0, maximum = 1)]
    pub min_score: Option<f64>,
    #[serde(default, deserialize_with = "object_or_null")]
    pub filters: Option<SearchFilters>,
}

/// What to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SearchScope {
    Chunks,
    Sources,
    Memories,
    Both,
}

/// Filters, all of which must match. Sources that are not eligible are never searched. `tags`,
/// `user_id` and `as_of` also limit memories; a scope with memories needs `user_id`.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SearchFilters {
    /// Only sources and memories that have all of these tags.
    #[schema(max_items = 100)]
    pub tags: Vec<String>,
    /// Only these sources.
    #[schema(max_items = 100)]
    pub source_ids: Vec<String>,
    /// Only sources and memories of this end user.
    #[schema(max_length = 128)]
    #[serde(default, deserialize_with = "crate::base::user_id::trimmed")]
    pub user_id: Option<String>,
    /// Only chunks under this category or its descendants.
    pub category_id: Option<i64>,
    /// Uses the source versions that were current and the memories that were in force at this time.
    #[schema(format = DateTime, example = "2026-01-31T12:00:00Z")]
    pub as_of: Option<String>,
}

/// The search results, best first.
#[derive(Debug, Serialize, ToSchema)]
pub struct SearchResponse {
    pub items: Vec<SearchItemResponse>,
    /// The embedding model used for the search; null if embeddings were not compared.
    #[schema(example = "local:embedded")]
    pub embedding_model: Option<String>,
    /// Where the search ran: in `memory`, or in the `database` if the space is too large for
    /// `vector.memory_mb`.
    #[schema(example = "memory")]
    pub index: &'static str,
    pub timings: SearchTimingsResponse,
}

/// A chunk or a memory, as `owner` says; fields of the other kind are null. With the scope
/// `sources`, each item is the best chunk of its source.
#[derive(Debug, Serialize, ToSchema)]
pub struct SearchItemResponse {
    /// Starts at 1, which is the best.
    pub rank: usize,
    /// How well the item fits, from 0 (nothing in common with the query) to 1. For `keyword` and
    /// `semantic` it is that component. For `hybrid` it is the mean of `semantic` and the square
    /// root of `keyword`; scores never rise down the list: where they would, the items
    /// concerned get their average. It can be compared between searches.
    pub score: f64,
    pub score_parts: ScorePartsResponse,
    /// What the text belongs to: `source` or `memory`.
    #[schema(example = "source")]
    pub owner: &'static str,
    pub source_id: Option<String>,
    /// The source version that created the chunk; later versions with the same text share it.
    pub source_version: Option<i64>,
    pub filename: Option<String>,
    pub path: Option<String>,
    /// The headings above the chunk, highest first, separated by ` › `; null if there is none.
    pub heading: Option<String>,
    /// The end user who owns the source or the memory.
    pub user_id: String,
    pub chunk_id: Option<i64>,
    /// `retrieval`: split for search; `taxonomy`: filed under the hierarchy.
    pub profile: Option<String>,
    /// Position in the source, starting at 1.
    pub ordinal: Option<i64>,
    pub memory_id: Option<String>,
    /// The thread of a memory, if it has one.
    pub thread_id: Option<String>,
    /// `message`, `fact`, `preference` or `summary`.
    pub memory_type: Option<String>,
    /// Who said it: `user`, `assistant` or `system`.
    pub role: Option<String>,
    /// The chunk or the memory, verbatim.
    pub text_content: String,
    /// The positions of the query's words in `text_content`.
    pub highlights: Vec<Highlight>,
    pub token_count: i64,
    /// Start offset in the text of the version, in characters.
    pub start_char: Option<i64>,
    /// End offset in characters, exclusive.
    pub end_char: Option<i64>,
    /// The leaf that the chunk is filed under, if any.
    pub category_id: Option<i64>,
    #[schema(format = DateTime)]
    pub created_at: String,
}

/// The components of a score.
#[derive(Debug, Serialize, ToSchema)]
pub struct ScorePartsResponse {
    /// BM25 score divided by the maximum possible for these keywords, from 0 to 1; null if keywords
    /// were not compared. The headings above a chunk count as its text.
    pub keyword: Option<f64>,
    /// The part of `keyword` that comes from the fields of the source rather than from the chunk:
    /// name, path, title, tags, metadata, helper, and the categories that all its chunks share. From
    /// 0 to 1; null for memories and if keywords were not compared.
    pub fields: Option<f64>,
    /// Cosine similarity to the query, from −1 to 1; null if embeddings were not compared or the
    /// chunk has none.
    pub semantic: Option<f64>,
    /// For `hybrid`: how far the keyword score lies above the mean of all candidates, in standard
    /// deviations. Items are sorted by the mean of this and `semantic_standing`, plus `neighbours`.
    pub keyword_standing: Option<f64>,
    /// For `hybrid`: the same for the semantic score, after the query vector has been moved towards
    /// the best chunk of a first round.
    pub semantic_standing: Option<f64>,
    /// For `hybrid` and for memories: what the chunks or messages before and after it add, in
    /// standard deviations. Memories are sorted by 0.8 of the mean of the two standings
    /// plus 0.4 of `similar_words_standing`, `neighbours`, `speaker` and `time`.
    pub neighbours: Option<f64>,
    /// For memories and `hybrid`: the share of the query that it has, also in other words ("dad" for
    /// "father"), from 0 to 1. Null for a text of more than 8,000 bytes, for which the two standings
    /// count in full.
    pub similar_words: Option<f64>,
    /// For memories and `hybrid`: how far `similar_words` lies above the mean of all candidates, in
    /// standard deviations.
    pub similar_words_standing: Option<f64>,
    /// For memories: what is added because the query names the speaker.
    pub speaker: Option<f64>,
    /// For memories: what is added because the query names the time of the message (`in May 2024`).
    pub time: Option<f64>,
}

/// Timings in milliseconds.
#[derive(Debug, Serialize, ToSchema)]
#[expect(clippy::struct_field_names, reason = "the unit is part of the name")]
pub struct SearchTimingsResponse {
    pub total_ms: f64,
    /// Time taken by the embedding model.
    pub provider_ms: f64,
    /// All other time.
    pub own_ms: f64,
}

/// Search chunks, sources or memories
///
/// Finds chunks of the current source versions, memories of one end user, or both, by keyword, by
/// meaning, or both. One request never returns memories of two users. A search does not walk the
/// hierarchy and calls no model except the embedding model for the query, which runs in this
/// process by default.
#[utoipa::path(
    post, path = "/v1/search", tag = "search", operation_id = "search", request_body = SearchRequest,
    responses(
        (status = 200, description = "The search results, which may be empty.", body = SearchResponse),
        (status = 429, response = crate::http::openapi::ProblemResponse),
        (status = 502, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn search(
    caller: Caller,
    State(retrieval): State<Retrieval>,
    JsonBody { value: request, .. }: JsonBody<SearchRequest>,
) -> Result<Json<SearchResponse>, ApiError> {
    let session = Session::of_caller(caller.call);
    Ok(Json(
        retrieval.search(&session, request.into()).await?.into(),
    ))
}

impl From<SearchRequest> for SearchInput {
    fn from(request: SearchRequest) -> Self {
        let filters = request.filters.unwrap_or_default();
        Self {
            query: request.query,
            kind: request.kind,
            by_source: request.scope == Some(SearchScope::Sources),
            searched: match request.scope {
                Some(SearchScope::Memories) => Searched::Memories,
                Some(SearchScope::Both) => Searched::Both,
                _ => Searched::Sources,
            },
            k: request.k,
            min_score: request.min_score,
            scope: ScopeInput {
                source_ids: filters.source_ids,
                tags: filters.tags,
                user_id: filters.user_id,
                as_of: filters.as_of,
                ..ScopeInput::default()
            },
            category_id: filters.category_id,
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
        let chunks = results.chunks.into_iter().map(|found| {
            let ranges = results.highlighter.ranges(&found.found.text);
            item(found, ranges)
        });
        let memories = results.memories.into_iter().map(|found| {
            let ranges = results.highlighter.ranges(&found.found.content);
            memory_item(found, ranges)
        });
        let mut items: Vec<SearchItemResponse> = chunks.chain(memories).collect();
        // Stable: chunks and memories keep their own order.
        items.sort_by(|a, b| b.score.total_cmp(&a.score));
        items.truncate(results.k);
        for (rank, item) in (1..).zip(&mut items) {
            item.rank = rank;
        }

        Self {
            items,
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

fn item(item: Item<SourceChunk, Hit>, ranges: Vec<(usize, usize)>) -> SearchItemResponse {
    let (found, hit) = (item.found, item.scores);
    SearchItemResponse {
        rank: 0,
        score: hit.score,
        score_parts: parts(hit),
        owner: "source",
        source_id: Some(found.source_id.to_string()),
        source_version: Some(found.source_version),
        filename: Some(found.filename),
        path: Some(found.path),
        heading: found.heading,
        user_id: found.user_id,
        chunk_id: Some(found.id),
        profile: Some(found.profile),
        ordinal: Some(found.ordinal),
        memory_id: None,
        thread_id: None,
        memory_type: None,
        role: None,
        text_content: found.text.to_string(),
        highlights: highlights(ranges),
        token_count: found.token_count,
        start_char: Some(found.start_char),
        end_char: Some(found.end_char),
        category_id: found.category_id,
        created_at: found.created_at.to_string(),
    }
}

fn memory_item(item: MemoryItem, ranges: Vec<(usize, usize)>) -> SearchItemResponse {
    let (memory, scores) = (item.found, item.scores);
    let tokens = TokenCounter::for_model(None).count(&memory.content);
    SearchItemResponse {
        rank: 0,
        score: scores.score,
        score_parts: ScorePartsResponse {
            similar_words: scores.similar_words.map(|one| one.share),
            similar_words_standing: scores.similar_words.map(|one| one.standing),
            neighbours: Some(scores.neighbours),
            speaker: Some(scores.speaker),
            time: Some(scores.time),
            ..parts(scores.hit)
        },
        owner: "memory",
        source_id: None,
        source_version: None,
        filename: None,
        path: None,
        heading: None,
        user_id: memory.user_id,
        chunk_id: None,
        profile: None,
        ordinal: None,
        memory_id: Some(memory.id.to_string()),
        thread_id: memory.thread_id.map(|id| id.to_string()),
        memory_type: Some(memory.kind.into_str().to_owned()),
        role: Some(memory.role),
        text_content: memory.content,
        highlights: highlights(ranges),
        token_count: i64::try_from(tokens).unwrap_or(i64::MAX),
        start_char: None,
        end_char: None,
        category_id: None,
        created_at: memory.created_at.to_string(),
    }
}

fn parts(hit: Hit) -> ScorePartsResponse {
    ScorePartsResponse {
        keyword: hit.keyword,
        fields: hit.fields,
        semantic: hit.semantic,
        keyword_standing: hit.standing.map(|standing| standing.keyword),
        semantic_standing: hit.standing.map(|standing| standing.semantic),
        neighbours: hit.standing.map(|standing| standing.neighbours),
        similar_words: None,
        similar_words_standing: None,
        speaker: None,
        time: None,
    }
}

fn highlights(ranges: Vec<(usize, usize)>) -> Vec<Highlight> {
    let highlight = |(start, end)| Highlight { start, end };
    ranges.into_iter().map(highlight).collect()
}
