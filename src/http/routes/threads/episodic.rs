//! The episodic layer of a thread: older turns that matter for a question.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::UserQuery;
use crate::conversation::Conversation;
use crate::conversation::episodic::{Episode, EpisodeParts, EpisodicInput};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::{JsonBody, PathId, QueryParams};
use crate::http::routes::context::context_session;
use crate::http::routes::memories::MemoryResponse;
use crate::workbench::Workbench;
use crate::workbench::conflict::Conflict;
use crate::workbench::files::PromptFile;
use crate::workbench::older_turns::TurnsOf;

/// The question for which older turns are selected.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"query": "What did we decide about the refund?", "max_tokens": 800}))]
pub struct EpisodicRequest {
    /// What the user asks or says.
    #[schema(min_length = 1, max_length = 4000, pattern = "\\S")]
    pub query: String,
    /// Maximum tokens of the turns that are kept; 800 if omitted.
    #[schema(minimum = 0, maximum = 200_000)]
    pub max_tokens: Option<usize>,
    /// Number of last turns to leave out, because they are in the window; 4 if omitted.
    #[schema(minimum = 0, maximum = 50)]
    pub k: Option<i64>,
    /// Files that are injected in this turn, as in `POST /v1/prompts`: what repeats or contradicts
    /// them is dropped.
    #[serde(default)]
    #[schema(max_items = 50)]
    pub files: Vec<PromptFile>,
    /// Sources that are off in this turn: messages about them are dropped, unless they are injected.
    #[serde(default)]
    #[schema(max_items = 10_000)]
    pub off_source_ids: Vec<String>,
}

/// Older turns, best first.
#[derive(Debug, Serialize, ToSchema)]
pub struct EpisodicResponse {
    /// The turns that were compared, kept or dropped.
    pub items: Vec<EpisodeResponse>,
    /// Messages that contradict a file, and which side is used.
    pub conflicts: Vec<Conflict>,
    /// Tokens of the turns that are kept.
    pub tokens_used: usize,
}

/// An older turn.
#[derive(Debug, Serialize, ToSchema)]
pub struct EpisodeResponse {
    #[serde(flatten)]
    pub memory: MemoryResponse,
    /// Number of turns since then in the current thread; for a turn of another thread, the turns of
    /// the current thread plus one.
    pub turn_distance: i64,
    pub age_seconds: i64,
    /// The sum of `score_parts`.
    pub score: f64,
    pub score_parts: EpisodeParts,
    /// Token count of the turn.
    pub tokens: usize,
    /// Whether it is part of the selection.
    pub kept: bool,
    /// Why it was kept or dropped.
    pub reason: String,
}

/// Select older turns
///
/// Scores the user's older turns by meaning, lexicon, recency and importance, and keeps the best
/// that fit into the budget. Turns that are off topic are dropped, unless they are marked as
/// important. A larger budget adds items and removes none. An injected file takes precedence over
/// messages: a message is dropped if it repeats the file, if it contradicts a number or a negation
/// in the file, or if its `file_sha256` or `file_mtime` shows that it is about another version of
/// the file. A message about a file that is not injected is dropped if the file has changed since
/// (`file_path` and `file_sha256`).
#[utoipa::path(
    post, path = "/v1/threads/{id}/episodic", tag = "conversations", operation_id = "select_episodic", request_body = EpisodicRequest,
    params(("id" = String, Path, description = "The thread's id."), UserQuery),
    responses(
        (status = 200, description = "The older turns.", body = EpisodicResponse),
        (status = 409, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn select_episodic(
    caller: Caller,
    State(conversation): State<Conversation>,
    State(workbench): State<Workbench>,
    PathId(id): PathId,
    QueryParams(query): QueryParams<UserQuery>,
    JsonBody { value: request, .. }: JsonBody<EpisodicRequest>,
) -> Result<Json<EpisodicResponse>, ApiError> {
    if request.k.is_some_and(|k| !(0..=50).contains(&k)) {
        return Err(ApiError::invalid_field("k", "must be from 0 to 50"));
    }

    let user_id = query.user_id.as_deref();
    let thread = conversation.thread(&caller.call, &id, user_id).await?;
    let (_, session) = context_session(&caller.call, &thread.user_id);
    let turns = TurnsOf {
        thread_id: &id,
        user_id,
        input: EpisodicInput {
            query: request.query,
            k: request.k,
        },
        max_tokens: request.max_tokens,
    };
    let (files, off) = (&request.files, &request.off_source_ids);
    let older = workbench
        .select_older_turns(&session, &turns, files, off)
        .await?;

    let kept = older.episodes.iter().filter(|episode| episode.is_kept());
    let items = older.episodes.iter().map(|one| shown(one, &caller));
    Ok(Json(EpisodicResponse {
        tokens_used: kept.map(|episode| episode.scores.tokens).sum(),
        items: items.collect(),
        conflicts: older.conflicts,
    }))
}

fn shown(episode: &Episode, caller: &Caller) -> EpisodeResponse {
    let scores = &episode.scores;
    EpisodeResponse {
        memory: MemoryResponse::of(&episode.found, caller.call.now),
        turn_distance: scores.turn_distance,
        age_seconds: scores.age_seconds,
        score: scores.total(),
        score_parts: scores.parts,
        tokens: scores.tokens,
        kept: episode.is_kept(),
        reason: episode.decision.text(),
    }
}
