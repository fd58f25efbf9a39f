//! What a thread holds ready for a prompt: its window, and summaries of what is older.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::UserQuery;
use crate::base::problems;
use crate::conversation::Conversation;
use crate::conversation::rollup::{RolledUp, RollupInput};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::{JsonBody, PathId, QueryParams};
use crate::http::idempotency::{Created, Idempotency};
use crate::http::routes::context::context_session;
use crate::http::routes::memories::MemoryResponse;
use crate::http::state::AppState;
use crate::model::thread::Thread;
use crate::store::Tx;

/// How long a request waits for another one that summarises the same thread.
const PATIENCE: Duration = Duration::from_mins(1);

/// How much of a thread to return.
#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WindowQuery {
    /// The end user; a thread of another user is treated as not found.
    #[serde(default, deserialize_with = "crate::base::user_id::trimmed")]
    user_id: Option<String>,
    /// Number of turns to return.
    #[param(minimum = 1, maximum = 50, default = 4)]
    k: Option<i64>,
}

/// The last turns of a thread.
#[derive(Debug, Serialize, ToSchema)]
pub struct WindowResponse {
    pub thread: Thread,
    pub k: i64,
    /// The turns, oldest first, verbatim.
    pub turns: Vec<TurnResponse>,
    /// The newest pinned summary of the thread.
    pub pinned_summary: Option<MemoryResponse>,
}

/// A turn: a message of the user and everything up to the next one.
#[derive(Debug, Serialize, ToSchema)]
pub struct TurnResponse {
    pub turn_index: i64,
    pub messages: Vec<MemoryResponse>,
}

/// Which messages to summarise.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"until_turn": 20, "pinned": true}))]
pub struct CreateSummaryRequest {
    /// Only turns up to this one, counted from 1. The last four turns are never summarised.
    pub until_turn: Option<i64>,
    /// Maximum characters of the summary; 1200 if omitted.
    #[schema(minimum = 100, maximum = 10_000)]
    pub max_chars: Option<usize>,
    /// Whether the summary is part of the thread's window from then on; false if omitted.
    pub pinned: Option<bool>,
}

/// Get the window of a thread
///
/// Returns the last `k` turns verbatim, without system messages, and the pinned summary.
#[utoipa::path(
    get, path = "/v1/threads/{id}/window", tag = "conversations", operation_id = "get_window",
    params(("id" = String, Path, description = "The thread's id."), WindowQuery),
    responses((status = 200, description = "The window.", body = WindowResponse))
)]
pub async fn get_window(
    caller: Caller,
    State(conversation): State<Conversation>,
    PathId(id): PathId,
    QueryParams(query): QueryParams<WindowQuery>,
) -> Result<Json<WindowResponse>, ApiError> {
    let window = conversation
        .window(&caller.call, &id, query.user_id.as_deref(), query.k)
        .await?;
    let turns = window
        .turns
        .iter()
        .map(|(turn_index, messages)| TurnResponse {
            turn_index: *turn_index,
            messages: messages
                .iter()
                .map(|message| MemoryResponse::of(message, caller.call.now))
                .collect(),
        });
    Ok(Json(WindowResponse {
        thread: window.thread,
        k: window.k,
        turns: turns.collect(),
        pinned_summary: window
            .pinned
            .as_ref()
            .map(|summary| MemoryResponse::of(summary, caller.call.now)),
    }))
}

/// Summarise old messages
///
/// Has a model summarise the oldest messages that no summary covers yet, and stores the result as a
/// memory of the type `summary` with a title. The messages are kept. The last four turns are never
/// summarised. If another request is summarising the thread, this one waits for it: it returns the
/// same summary if that leaves nothing to summarise, and 409 if it takes more than a minute.
#[utoipa::path(
    post, path = "/v1/threads/{id}/summaries", tag = "conversations", operation_id = "create_summary", request_body = CreateSummaryRequest,
    params(("id" = String, Path, description = "The thread's id."), UserQuery, ("Idempotency-Key" = Option<String>, Header, description = "A repeat of the request with the same key and body within 24 hours returns the first response.")),
    responses(
        (status = 201, description = "The summary.", body = MemoryResponse, headers(("Location" = String, description = "The URL of the summary."))),
        (status = 409, response = crate::http::openapi::ProblemResponse),
        (status = 429, response = crate::http::openapi::ProblemResponse),
        (status = 502, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn create_summary(
    caller: Caller,
    State(state): State<AppState>,
    PathId(id): PathId,
    QueryParams(query): QueryParams<UserQuery>,
    headers: HeaderMap,
    body: JsonBody<CreateSummaryRequest>,
) -> Result<Response, ApiError> {
    let signed = [id.as_bytes(), b"\n", &body.bytes].concat();
    let idempotency = Idempotency::of(&headers, "create_summary", &signed)?;
    if let Some(response) = idempotency.answered(&state.store, &caller).await? {
        return Ok(response);
    }

    let request = body.value;
    let input = RollupInput {
        until_turn: request.until_turn,
        max_chars: request.max_chars,
        pinned: request.pinned.unwrap_or(false),
    };
    let thread = state
        .conversation
        .thread(&caller.call, &id, query.user_id.as_deref())
        .await?;
    let before = state
        .conversation
        .summaries(&caller.call, &thread.id)
        .await?;
    let alone = Idempotency::alone("create_summary", thread.id.as_str());
    let Some(run) = alone.exclusive(&state, &caller, PATIENCE).await? else {
        return Err(in_progress());
    };

    let (_, session) = context_session(&caller.call, &thread.user_id);
    let conversation = &state.conversation;
    let rolled = Box::pin(conversation.roll_up(&session, &thread.id, &input, &before));
    let rolled = run.during(rolled).await?;
    let memory = match &rolled {
        RolledUp::New(ready) => &ready.memory,
        RolledUp::Meanwhile(memory) => memory,
    };

    let (state, caller, rolled) = (&state, &caller, &rolled);
    let add = |mut tx: Tx| async move {
        if let RolledUp::New(ready) = rolled {
            conversation
                .add_summary(&mut tx, &caller.call, ready)
                .await?;
        }

        let body = MemoryResponse::of(memory, caller.call.now);
        let created = Created::at(&format!("/v1/memories/{}", body.id), body)?;
        Ok((tx, created.with_etag()))
    };

    idempotency.create(state, caller, add).await
}

fn in_progress() -> ApiError {
    let detail = "another request is still summarising this thread";
    ApiError::new(problems::SUMMARY_IN_PROGRESS, detail)
        .header(header::RETRY_AFTER, HeaderValue::from_static("10"))
}
