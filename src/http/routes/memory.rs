//! Memory retrieval: the memories for a prompt, as the policy selects them.

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use memoir_policy::prompt_text::prompt_text;
use memoir_policy::settings::{Overrides, SearchType};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::context::context_session;
use super::memory_payload::{
    MemoryEntryResponse, PayloadMetadataResponse, StepResponse, empty_metadata, payload, steps,
};
use super::policies::named;
use crate::conversation::checked_user;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::JsonBody;
use crate::memory_retrieval::{MemoryRetrieval, RetrievalFailure, RetrievalInput, Retrieved};

/// A chat message, and the end user who sent it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({
    "userId": "U-123", "sessionId": "0199a7e0-0000-7000-8000-000000000000", "useMemory": true,
    "query": "What tea do I like?"
}))]
pub struct RetrieveMemoryRequest {
    /// The end user; `default` if omitted.
    #[serde(default, deserialize_with = "crate::base::user_id::trimmed")]
    #[schema(max_length = 128)]
    pub user_id: Option<String>,
    /// The current thread, which must belong to the user.
    pub session_id: Option<String>,
    /// Must be true for memories to be searched.
    pub use_memory: Option<bool>,
    /// The user's message, at most 4,000 characters.
    #[serde(default, alias = "message", alias = "userMessage")]
    pub query: String,
    /// A message to leave out: usually the stored message that contains the query. A message of
    /// the last minute that repeats the query word for word is always left out.
    pub exclude_message_id: Option<String>,
    /// The version of the policy to use, such as `retrieval@3`; the current one if omitted.
    #[schema(pattern = "^[a-z0-9_-]{1,64}(@[0-9]{1,18})?$")]
    pub policy: Option<String>,
    /// Whether to return what every step dropped or changed; false if omitted.
    pub explain: Option<bool>,
    /// Values for this request. The same fields may also be sent at the top level.
    pub config: Option<RetrieveMemoryConfig>,
    /// Maximum number of memories, from 6 to 10. If the value of the policy is outside this range,
    /// values up to it are allowed too.
    #[schema(minimum = 1, maximum = 20)]
    pub top_k: Option<usize>,
    /// Maximum number of sentences per memory: 1 or 2, or up to the value of the policy.
    #[schema(minimum = 1, maximum = 5)]
    pub clip_sentences: Option<usize>,
    /// Maximum tokens of all memories together: 1 to 1,500, or up to the value of the policy.
    #[schema(minimum = 1, maximum = 3000)]
    pub max_tokens: Option<usize>,
    pub search_type: Option<SearchType>,
    /// Memories with a lower score are left out.
    #[schema(minimum = 0, maximum = 1)]
    pub min_score: Option<f64>,
}

/// Values that a request may set: `topK` from 6 to 10, `clipSentences` 1 or 2, `maxTokens` up to
/// 1500. If the policy has a value outside the range, the range extends to that value.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RetrieveMemoryConfig {
    /// Maximum number of memories, from 6 to 10. If the value of the policy is outside this range,
    /// values up to it are allowed too.
    #[schema(minimum = 1, maximum = 20)]
    pub top_k: Option<usize>,
    /// Maximum number of sentences per memory: 1 or 2, or up to the value of the policy.
    #[schema(minimum = 1, maximum = 5)]
    pub clip_sentences: Option<usize>,
    /// Maximum tokens of all memories together: 1 to 1,500, or up to the value of the policy.
    #[schema(minimum = 1, maximum = 3000)]
    pub max_tokens: Option<usize>,
    pub search_type: Option<SearchType>,
    /// Memories with a lower score are left out.
    #[schema(minimum = 0, maximum = 1)]
    pub min_score: Option<f64>,
}

/// The payload for a prompt.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetrieveMemoryResponse {
    pub memories: Vec<MemoryEntryResponse>,
    pub metadata: PayloadMetadataResponse,
    /// The memories as text for the system prompt; empty without memories.
    pub system_prompt: String,
    /// The policy and version that made the payload.
    #[schema(example = "retrieval@1")]
    pub policy: String,
    /// Whether the payload comes from the cache: the same query ran within the last 60 seconds, and
    /// the memories have not changed since.
    pub cached: bool,
    /// Why nothing was searched: `use_memory_false`, `session_missing` or `session_unknown`.
    pub skipped: Option<&'static str>,
    /// What went wrong; the response is still usable.
    pub error: Option<RetrievalErrorResponse>,
    /// Every step in order; null without `explain`.
    pub steps: Option<Vec<StepResponse>>,
    pub timings: RetrieveMemoryTimings,
}

/// A failure; the response is still usable.
#[derive(Debug, Serialize, ToSchema)]
pub struct RetrievalErrorResponse {
    /// `ZEP_UNAVAILABLE` (memories cannot be searched at the moment), `COLLECTION_NOT_FOUND` (the
    /// end user has no memories), `RATE_LIMITED` or `INVALID_QUERY`. Some names come from an earlier
    /// service whose clients know them.
    #[schema(example = "RATE_LIMITED")]
    pub code: &'static str,
    pub message: &'static str,
    /// What the response contains instead: no memories (`skip`, `empty`), or the memories of an
    /// earlier response if there is one (`cache`).
    #[schema(example = "cache")]
    pub fallback: &'static str,
}

/// Timings in milliseconds.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the unit is part of the name")]
pub struct RetrieveMemoryTimings {
    pub total_ms: f64,
    /// Time taken by the search.
    pub search_ms: f64,
    /// Time taken by the steps of the policy.
    pub chain_ms: f64,
}

/// The metrics of memory retrieval in this space, counted by this process.
#[derive(Debug, Serialize, ToSchema)]
pub struct MemoryMetricsResponse {
    #[serde(rename = "retrieval.calls")]
    pub calls: u64,
    /// The mean time of a call in milliseconds.
    #[serde(rename = "retrieval.latency_ms")]
    pub latency_ms: f64,
    /// Number of memories that were returned.
    #[serde(rename = "retrieval.results_count")]
    pub results_count: u64,
    /// Their tokens by the tokenizer `o200k_base`.
    #[serde(rename = "retrieval.tokens_used")]
    pub tokens_used: u64,
    /// The percentage of found memories that repeated another one.
    #[serde(rename = "retrieval.dedup_ratio")]
    pub dedup_ratio: f64,
    /// The percentage of calls that were served from the cache.
    #[serde(rename = "retrieval.cache_hit_rate")]
    pub cache_hit_rate: f64,
}

/// Retrieve memories for a prompt
///
/// Searches the memories of an end user and selects from them by the retrieval policy: minimum
/// score, deduplication, interleaving of relevance and time, redaction, clipping, token budget. The
/// same memories and settings always give the same payload.
///
/// A chat must be able to continue without memories. Failures therefore return status 200 with an
/// `error`, and if nothing was searched, `skipped` gives the reason.
#[utoipa::path(
    post, path = "/v1/memory/retrieve", tag = "memory", operation_id = "retrieve_memory",
    request_body = RetrieveMemoryRequest,
    responses(
        (status = 200, description = "The payload.", body = RetrieveMemoryResponse,
            headers(("Retry-After" = u64, description = "Seconds until the next call is allowed, if the rate limit is reached and nothing is cached."))),
        (status = 404, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn retrieve_memory(
    caller: Caller,
    State(memory): State<MemoryRetrieval>,
    JsonBody { value: request, .. }: JsonBody<RetrieveMemoryRequest>,
) -> Result<Response, ApiError> {
    let explain = request.explain.unwrap_or_default();
    let config = request.config.unwrap_or_default();
    let input = RetrievalInput {
        user_id: checked_user(request.user_id)?,
        session_id: request.session_id,
        use_memory: request.use_memory.unwrap_or_default(),
        query: request.query,
        exclude_message_id: request.exclude_message_id,
        policy: request
            .policy
            .as_deref()
            .map(|name| named(Some(name)))
            .transpose()?,
        overrides: Overrides {
            top_k: request.top_k.or(config.top_k),
            clip_sentences: request.clip_sentences.or(config.clip_sentences),
            max_tokens: request.max_tokens.or(config.max_tokens),
            search_type: request.search_type.or(config.search_type),
            min_score: request.min_score.or(config.min_score),
        },
    };

    let (_, session) = context_session(&caller.call, &input.user_id);
    let retrieved = memory.retrieve(&session, &input).await?;
    let retry_after = retrieved.retry_after;
    let response = Json(RetrieveMemoryResponse::of(
        &retrieved,
        &input.user_id,
        explain,
    ));
    Ok(match retry_after {
        Some(seconds) => ([(header::RETRY_AFTER, seconds.to_string())], response).into_response(),
        None => response.into_response(),
    })
}

/// Get the metrics of memory retrieval
///
/// Returns the metrics of this space, counted by this process since it started. `/metrics` returns
/// those of all spaces, for Prometheus.
#[utoipa::path(
    get, path = "/v1/metrics", tag = "memory", operation_id = "get_memory_metrics",
    responses((status = 200, description = "The metrics.", body = MemoryMetricsResponse))
)]
pub async fn get_memory_metrics(
    caller: Caller,
    State(memory): State<MemoryRetrieval>,
) -> Json<MemoryMetricsResponse> {
    let metrics = memory.metrics(&caller.call);
    Json(MemoryMetricsResponse {
        calls: metrics.calls,
        latency_ms: metrics.mean_latency_ms(),
        results_count: metrics.results,
        tokens_used: metrics.tokens,
        dedup_ratio: metrics.dedup_ratio(),
        cache_hit_rate: metrics.cache_hit_rate(),
    })
}

impl RetrieveMemoryResponse {
    fn of(retrieved: &Retrieved, user_id: &str, explain: bool) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a time in milliseconds"
        )]
        let query_time = retrieved.total_ms.round() as u64;
        let found = retrieved.found.as_deref();
        let collection = format!("user:{user_id}");
        let (memories, metadata) = match found {
            Some(found) => payload(&found.outcome, &retrieved.policy, &collection, query_time),
            None => (Vec::new(), empty_metadata(&retrieved.policy, query_time)),
        };

        Self {
            memories,
            metadata,
            system_prompt: found
                .map(|found| prompt_text(&found.outcome.entries, query_time))
                .unwrap_or_default(),
            policy: retrieved.policy_name.clone(),
            cached: retrieved.cached,
            skipped: retrieved.skipped.map(|skipped| skipped.into_str()),
            error: retrieved.failure.map(RetrievalErrorResponse::from),
            steps: explain.then(|| found.map(|found| steps(&found.outcome)).unwrap_or_default()),
            timings: RetrieveMemoryTimings {
                total_ms: retrieved.total_ms,
                search_ms: found.map_or(0.0, |found| found.search_ms),
                chain_ms: found.map_or(0.0, |found| found.chain_ms),
            },
        }
    }
}

impl From<RetrievalFailure> for RetrievalErrorResponse {
    fn from(failure: RetrievalFailure) -> Self {
        Self {
            code: failure.code(),
            message: failure.message(),
            fallback: failure.fallback(),
        }
    }
}
