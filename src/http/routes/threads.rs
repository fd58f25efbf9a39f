//! Threads: create, list, read, rename, delete.

mod episodic;
mod layers;
mod messages;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::erasures::RemovalReceipt;
use crate::base::ids::ThreadId;
use crate::conversation::{Conversation, ThreadChange};
use crate::erasure::Erasures;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::etag;
use crate::http::extract::{JsonBody, PathId, QueryParams};
use crate::http::idempotency::{Begun, Idempotency, location};
use crate::http::page;
use crate::http::state::AppState;
use crate::model::thread::Thread;
use crate::store::{ThreadKey, ThreadPage};

pub use episodic::{__path_select_episodic, select_episodic};
pub use layers::{__path_create_summary, __path_get_window, create_summary, get_window};
pub use messages::{__path_create_messages, __path_list_messages, create_messages, list_messages};

/// A thread: one conversation of an end user.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ThreadResponse {
    pub id: String,
    /// The end user who owns the thread and its messages.
    pub user_id: String,
    pub title: Option<String>,
    pub message_count: i64,
    /// Number of turns. A turn is a message of the user and everything up to the next one.
    pub turn_count: i64,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[schema(format = DateTime)]
    pub updated_at: String,
    /// The time of the newest message.
    #[schema(format = DateTime)]
    pub last_message_at: Option<String>,
}

impl From<&Thread> for ThreadResponse {
    fn from(thread: &Thread) -> Self {
        Self {
            id: thread.id.to_string(),
            user_id: thread.user_id.clone(),
            title: thread.title.clone(),
            message_count: thread.message_count,
            turn_count: thread.turn_count,
            created_at: thread.created_at.to_string(),
            updated_at: thread.updated_at.to_string(),
            last_message_at: thread.last_message_at.map(|time| time.to_string()),
        }
    }
}

/// A thread to create.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"user_id": "U-123", "title": "Support Chat Jan 15"}))]
pub struct CreateThreadRequest {
    /// A UUID of your own; memoir generates one if omitted.
    #[serde(default)]
    pub id: Option<String>,
    /// The end user; `default` if omitted.
    #[serde(default, deserialize_with = "crate::base::user_id::trimmed")]
    #[schema(max_length = 128)]
    pub user_id: Option<String>,
    /// The title.
    #[serde(default)]
    #[schema(max_length = 300)]
    pub title: Option<String>,
}

/// The fields to change; omitted fields stay unchanged.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"title": "Refund of order 5678"}))]
pub struct UpdateThreadRequest {
    /// The new title; null removes it.
    #[serde(default, deserialize_with = "crate::http::extract::given")]
    #[schema(value_type = Option<String>, max_length = 300)]
    #[expect(clippy::option_option, reason = "omitted and null differ")]
    pub title: Option<Option<String>>,
}

/// A page of threads.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ThreadListResponse {
    pub items: Vec<ThreadResponse>,
    /// Pass it as `cursor` to get the next page; null on the last page.
    pub next_cursor: Option<String>,
}

/// Filters and pagination of the thread list.
#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListThreadsQuery {
    /// Only threads of this end user.
    #[serde(default, deserialize_with = "crate::base::user_id::trimmed")]
    user_id: Option<String>,
    /// The order: `-created_at` (the default) for the newest thread first, or `-last_message_at`
    /// for the newest message first; threads without messages are then last.
    #[serde(default)]
    #[param(pattern = "^-(created_at|last_message_at)$")]
    sort: Option<String>,
    /// Maximum number of items on the page.
    #[serde(default)]
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<usize>,
    /// `next_cursor` from the previous page.
    #[serde(default)]
    cursor: Option<String>,
}

/// The end user on whose behalf a request is made.
#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UserQuery {
    /// The end user; what belongs to another user is treated as not found.
    #[serde(default, deserialize_with = "crate::base::user_id::trimmed")]
    pub user_id: Option<String>,
}

/// Create a thread
///
/// Creates an empty thread for an end user. Send an `Idempotency-Key` to make the request safe to
/// retry.
#[utoipa::path(
    post, path = "/v1/threads", tag = "conversations", operation_id = "create_thread", request_body = CreateThreadRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "A repeat of the request with the same key and body within 24 hours returns the first response.")),
    responses(
        (status = 201, description = "The new thread.", body = ThreadResponse, headers(("Location" = String, description = "The URL of the new thread."), ("ETag" = String, description = "The current ETag, for `If-Match`."))),
        (status = 409, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn create_thread(
    caller: Caller,
    State(state): State<AppState>,
    headers: HeaderMap,
    JsonBody {
        value: request,
        bytes,
        ..
    }: JsonBody<CreateThreadRequest>,
) -> Result<Response, ApiError> {
    let idempotency = Idempotency::of(&headers, "create_thread", &bytes)?;
    let id = request.id.as_deref();
    let prepared = state.conversation.prepare_thread(
        &caller.space,
        id,
        request.user_id,
        request.title,
        caller.now,
    );
    let thread = prepared.await?;

    let created = state.store.retry_as("create_thread", || async {
        let mut tx = match idempotency.begin(&state.store, &caller).await? {
            Begun::Answered(response) => return Ok(response),
            Begun::Fresh(tx) => tx,
        };

        state
            .conversation
            .add_thread(&mut tx, &caller.space, &thread)
            .await?;

        let body = ThreadResponse::from(&thread);
        let headers = [
            location(&format!("/v1/threads/{}", thread.id))?,
            (header::ETAG, etag::etag(&body)),
        ];
        idempotency
            .finish(tx, &caller, StatusCode::CREATED, headers, &body)
            .await
    });

    Ok(created.await?)
}

/// List threads
///
/// Returns threads, newest first, or in the order of `sort`.
#[utoipa::path(
    get, path = "/v1/threads", tag = "conversations", operation_id = "list_threads", params(ListThreadsQuery),
    responses((status = 200, description = "A page of threads.", body = ThreadListResponse))
)]
pub async fn list_threads(
    caller: Caller,
    State(conversation): State<Conversation>,
    QueryParams(query): QueryParams<ListThreadsQuery>,
) -> Result<Json<ThreadListResponse>, ApiError> {
    let limit = page::limit(query.limit)?;
    let by = match query.sort.as_deref() {
        None | Some("-created_at") => ThreadKey::Created,
        Some("-last_message_at") => ThreadKey::LastMessage,
        Some(_) => {
            let rule = "must be -created_at or -last_message_at";
            return Err(ApiError::invalid_field("sort", rule));
        }
    };

    let fingerprint = format!("threads|{by:?}|{:?}", query.user_id);
    let before = page::decode_place::<ThreadId>(query.cursor.as_deref(), &fingerprint)?;
    let page = ThreadPage {
        before,
        limit: limit + 1,
        by,
    };
    let found = conversation
        .list_threads(&caller.space, query.user_id.as_deref(), &page)
        .await?;

    let key = |thread: &Thread| (by.value(thread).as_micros(), thread.id.to_string());
    let (items, next_cursor) = page::cut(found, limit, &fingerprint, key);
    Ok(Json(ThreadListResponse {
        items: items.iter().map(ThreadResponse::from).collect(),
        next_cursor,
    }))
}

/// Get a thread
///
/// Returns the title, the owner and the number of messages. With `If-None-Match`, returns 304 if
/// nothing has changed.
#[utoipa::path(
    get, path = "/v1/threads/{id}", tag = "conversations", operation_id = "get_thread",
    params(("id" = String, Path, description = "The thread's id."), UserQuery, ("If-None-Match" = Option<String>, Header, description = "The ETag from an earlier response.")),
    responses(
        (status = 200, description = "The thread.", body = ThreadResponse, headers(("ETag" = String, description = "The current ETag, for `If-Match`."))),
        (status = 304, description = "The thread has not changed."),
    )
)]
pub async fn get_thread(
    caller: Caller,
    State(conversation): State<Conversation>,
    PathId(id): PathId,
    QueryParams(query): QueryParams<UserQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let thread = conversation
        .thread(&caller.space, &id, query.user_id.as_deref())
        .await?;
    Ok(etag::respond(&headers, &ThreadResponse::from(&thread)))
}

/// Update a thread
///
/// Changes the title. With `If-Match`, returns 412 if the thread has changed since you read it.
#[utoipa::path(
    patch, path = "/v1/threads/{id}", tag = "conversations", operation_id = "update_thread", request_body = UpdateThreadRequest,
    params(("id" = String, Path, description = "The thread's id."), UserQuery, ("If-Match" = Option<String>, Header, description = "The ETag from an earlier response.")),
    responses(
        (status = 200, description = "The updated thread.", body = ThreadResponse, headers(("ETag" = String, description = "The current ETag, for `If-Match`."))),
        (status = 412, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn update_thread(
    caller: Caller,
    State(conversation): State<Conversation>,
    PathId(id): PathId,
    QueryParams(query): QueryParams<UserQuery>,
    headers: HeaderMap,
    JsonBody { value: request, .. }: JsonBody<UpdateThreadRequest>,
) -> Result<Response, ApiError> {
    let change = ThreadChange {
        title: request.title,
    };
    let unchanged = etag::condition(&headers, |thread: &Thread| ThreadResponse::from(thread));
    let thread = conversation
        .update_thread(
            &caller.space,
            &id,
            query.user_id.as_deref(),
            &change,
            unchanged,
            caller.now,
        )
        .await?;

    Ok(etag::changed(&ThreadResponse::from(&thread)))
}

/// Delete a thread
///
/// Permanently deletes the thread with its messages, the facts and summaries made from them, and
/// their jobs. What quotes them elsewhere is emptied: receipts of queries, stored responses, model
/// outputs. Returns the receipt of the deletion. With `If-Match`, returns 412 if the thread has
/// changed since you read it.
#[utoipa::path(
    delete, path = "/v1/threads/{id}", tag = "conversations", operation_id = "delete_thread",
    params(("id" = String, Path, description = "The thread's id."), UserQuery, ("If-Match" = Option<String>, Header, description = "The ETag from an earlier response.")),
    responses(
        (status = 200, description = "What was deleted.", body = RemovalReceipt),
        (status = 412, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn delete_thread(
    caller: Caller,
    State(erasures): State<Erasures>,
    PathId(id): PathId,
    QueryParams(query): QueryParams<UserQuery>,
    headers: HeaderMap,
) -> Result<Json<RemovalReceipt>, ApiError> {
    let unchanged = etag::condition(&headers, |thread: &Thread| ThreadResponse::from(thread));
    let erased = erasures
        .thread(&caller.erasure(), &id, query.user_id.as_deref(), unchanged)
        .await?;
    Ok(Json(erased.into()))
}
