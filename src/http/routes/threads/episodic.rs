//! The episodic layer of a thread: older turns that matter for a question.

use axum::extract::State;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::UserQuery;
use crate::conversation::Conversation;
use crate::conversation::episodic::{Episode, EpisodicInput};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::{JsonBody, PathId, QueryParams};
use crate::http::routes::context::context_session;
use crate::http::routes::memories::MemoryResponse;
use crate::http::trace::RequestIdentity;

/// A question to the older turns.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"query": "What did we decide about the refund?", "max_tokens": 800}))]
pub struct EpisodicRequest {
    #[schema(min_length = 1, max_length = 4000, pattern = "\\S")]
    pub query: String,
    /// Maximum tokens of what is kept; 800 if omitted.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 200_000)]
    pub max_tokens: Option<usize>,
    /// Turns of the window, which are left out; 4 if omitted.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 50)]
    pub k: Option<i64>,
}

/// Older turns, best first.
#[derive(Debug, Serialize, ToSchema)]
pub struct EpisodicResponse {
    /// What was compared, kept or not.
    pub items: Vec<EpisodeResponse>,
    /// Tokens of what is kept.
    pub tokens_used: usize,
}

/// An older turn.
#[derive(Debug, Serialize, ToSchema)]
pub struct EpisodeResponse {
    #[serde(flatten)]
    pub memory: MemoryResponse,
    /// Turns between it and now; for other threads, beyond the whole current one.
    pub turn_distance: i64,
    pub age_seconds: i64,
    /// The sum of its parts.
    pub score: f64,
    pub score_parts: EpisodeScorePartsResponse,
    pub tokens: usize,
    pub kept: bool,
    /// Why it was kept or dropped.
    pub reason: &'static str,
}

/// The weighted parts of a score.
#[derive(Debug, Serialize, ToSchema)]
pub struct EpisodeScorePartsResponse {
    pub semantic: f64,
    pub lexicon: f64,
    pub recency: f64,
    pub importance: f64,
}

/// Select older turns
///
/// Scores the user's older turns by meaning, lexicon, recency and importance, and keeps the best
/// that fit into the budget. What is off topic is dropped unless it is marked as important. A larger
/// budget only adds items.
#[utoipa::path(
    post, path = "/v1/threads/{id}/episodic", tag = "conversations", operation_id = "select_episodic", request_body = EpisodicRequest,
    params(("id" = String, Path, description = "The thread's id."), UserQuery),
    responses((status = 200, description = "The older turns.", body = EpisodicResponse))
)]
pub async fn select_episodic(
    caller: Caller,
    State(conversation): State<Conversation>,
    Extension(identity): Extension<RequestIdentity>,
    PathId(id): PathId,
    QueryParams(query): QueryParams<UserQuery>,
    JsonBody { value: request, .. }: JsonBody<EpisodicRequest>,
) -> Result<Json<EpisodicResponse>, ApiError> {
    if request.k.is_some_and(|k| !(0..=50).contains(&k)) {
        return Err(ApiError::invalid_field("k", "must be from 0 to 50"));
    }

    let input = EpisodicInput {
        query: request.query,
        max_tokens: request.max_tokens,
        k: request.k,
    };
    let user_id = query.user_id.as_deref();
    let thread = conversation.thread(&caller.space, &id, user_id).await?;
    let (_, session) = context_session(&caller, &identity, &thread.user_id);
    let episodes = conversation
        .episodic(&session, &caller.space, &id, user_id, &input, caller.now)
        .await?;

    let kept = episodes.iter().filter(|episode| episode.kept);
    Ok(Json(EpisodicResponse {
        tokens_used: kept.map(|episode| episode.tokens).sum(),
        items: episodes.iter().map(|one| shown(one, &caller)).collect(),
    }))
}

fn shown(episode: &Episode, caller: &Caller) -> EpisodeResponse {
    let [semantic, lexicon, recency, importance] = episode.parts;
    EpisodeResponse {
        memory: MemoryResponse::of(&episode.memory, caller.now),
        turn_distance: episode.turn_distance,
        age_seconds: episode.age_seconds,
        score: episode.score(),
        score_parts: EpisodeScorePartsResponse {
            semantic,
            lexicon,
            recency,
            importance,
        },
        tokens: episode.tokens,
        kept: episode.kept,
        reason: episode.reason,
    }
}
