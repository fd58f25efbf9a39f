//! Threads: create, list, read, rename, delete.

mod episodic;
mod layers;
mod messages;
mod receipts;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::erasures::RemovalReceipt;
use crate::conversation::{Conversation, NewThread, ThreadChange};
use crate::erasure::Erasures;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::etag;
use crate::http::extract::{JsonBody, PathId, QueryParams};
use crate::http::idempotency::{Created, Idempotency};
use crate::http::page::{Page, list_query, list_response};
use crate::http::state::AppState;
use crate::model::thread::Thread;
use crate::store::{ThreadFilter, ThreadKey, ThreadPage, Tx};

pub use episodic::{__path_select_episodic, select_episodic};
pub use layers::{__path_create_summary, __path_get_window, create_summary, get_window};
pub use messages::{
    __path_create_messages, __path_create_messages_by_name, __path_list_messages, create_messages,
    create_messages_by_name, list_messages,
};

pub use receipts::{__path_list_receipts, list_receipts};

/// A thread to create.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"user_id": "U-123", "title": "Support Chat Jan 15"}))]
pub struct CreateThreadRequest {
    /// A UUID of your own; memoir generates one if omitted.
    pub id: Option<String>,
    /// A name of your own instead of `id`, such as the id of the conversation in your application. A
    /// user has one thread of each name: if it exists, it is returned unchanged, with status 200. A
    /// name that is a UUID is used as the id.
    #[schema(min_length = 1, max_length = 128)]
    pub external_id: Option<String>,
    /// The end user; `default` if omitted.
    #[serde(default, deserialize_with = "crate::base::user_id::trimmed")]
    #[schema(max_length = 128)]
    pub user_id: Option<String>,
    /// The title.
    #[schema(max_length = 300)]
    pub title: Option<String>,
}

list_response! {
    /// A page of threads.
    ThreadListResponse of Thread
}

list_query! {
    /// Filters and pagination of the thread list.
    ListThreadsQuery {
        /// Only threads of this end user.
        #[serde(default, deserialize_with = "crate::base::user_id::trimmed")]
        user_id: Option<String>,
        /// Only threads with this name.
        external_id: Option<String>,
        /// The order: `-created_at` (the default) for the newest thread first, or `-last_message_at`
        /// for the newest message first; threads without messages are then last.
        #[param(pattern = "^-(created_at|last_message_at)$")]
        sort: Option<String>,
    }
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
/// Creates an empty thread for an end user, or finds the one with your `external_id`. Send an
/// `Idempotency-Key` or an `external_id` to make the request safe to retry.
#[utoipa::path(
    post, path = "/v1/threads", tag = "conversations", operation_id = "create_thread", request_body = CreateThreadRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "A repeat of the request with the same key and body within 24 hours returns the first response.")),
    responses(
        (status = 200, description = "The thread with this `external_id`, which existed.", body = Thread, headers(("Location" = String, description = "The URL of the thread."), ("ETag" = String, description = "The current ETag, for `If-Match`."))),
        (status = 201, description = "The new thread.", body = Thread, headers(("Location" = String, description = "The URL of the new thread."), ("ETag" = String, description = "The current ETag, for `If-Match`."))),
        (status = 409, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn create_thread(
    caller: Caller,
    State(state): State<AppState>,
    headers: HeaderMap,
    body: JsonBody<CreateThreadRequest>,
) -> Result<Response, ApiError> {
    let idempotency = Idempotency::of(&headers, "create_thread", &body.bytes)?;
    let new = body.value;
    let is_named = new.external_id.is_some();
    let new = NewThread {
        id: new.id,
        external_id: new.external_id,
        user_id: new.user_id,
        title: new.title,
    };
    let thread = state.conversation.prepare_thread(&caller.call, new).await?;
    let (state, caller, thread) = (&state, &caller, &thread);
    let add = |mut tx: Tx| async move {
        let (conversation, call) = (&state.conversation, &caller.call);
        let (thread, is_new) = if is_named {
            let found = conversation.find_or_add_thread(&mut tx, call, thread);
            found.await?
        } else {
            conversation.add_thread(&mut tx, call, thread).await?;
            (thread.clone(), true)
        };

        let created = Created::at(&format!("/v1/threads/{}", thread.id), thread)?;
        Ok((tx, created.with_etag().unless_new(is_new)))
    };

    idempotency.create(state, caller, add).await
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
    let by = match query.sort.as_deref() {
        None | Some("-created_at") => ThreadKey::Created,
        Some("-last_message_at") => ThreadKey::LastMessage,
        Some(_) => {
            let rule = "must be -created_at or -last_message_at";
            return Err(ApiError::invalid_field("sort", rule));
        }
    };

    let fingerprint = format!("threads|{by:?}|{:?}|{:?}", query.user_id, query.external_id);
    let page = Page::new(query.limit, query.cursor, fingerprint)?;
    let wanted = ThreadPage {
        before: page.after_item()?,
        limit: page.rows(),
        by,
    };
    let filter = ThreadFilter {
        user_id: query.user_id.as_deref(),
        external_id: query.external_id.as_deref().map(str::trim),
    };
    let found = conversation
        .list_threads(&caller.call, filter, &wanted)
        .await?;

    let key = |thread: &Thread| (by.value(thread).as_micros(), thread.id.to_string());
    Ok(page.list(found, key, |thread| thread))
}

/// Get a thread
///
/// Returns the title, the owner and the number of messages. With `If-None-Match`, returns 304 if
/// nothing has changed.
#[utoipa::path(
    get, path = "/v1/threads/{id}", tag = "conversations", operation_id = "get_thread",
    params(("id" = String, Path, description = "The thread's id."), UserQuery, ("If-None-Match" = Option<String>, Header, description = "The ETag from an earlier response.")),
    responses(
        (status = 200, description = "The thread.", body = Thread, headers(("ETag" = String, description = "The current ETag, for `If-Match`."))),
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
        .thread(&caller.call, &id, query.user_id.as_deref())
        .await?;
    Ok(etag::respond(&headers, &thread))
}

/// Update a thread
///
/// Changes the title. With `If-Match`, returns 412 if the thread has changed since you read it.
#[utoipa::path(
    patch, path = "/v1/threads/{id}", tag = "conversations", operation_id = "update_thread", request_body = ThreadChange,
    params(("id" = String, Path, description = "The thread's id."), UserQuery, ("If-Match" = Option<String>, Header, description = "The ETag from an earlier response.")),
    responses(
        (status = 200, description = "The updated thread.", body = Thread, headers(("ETag" = String, description = "The current ETag, for `If-Match`."))),
        (status = 412, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn update_thread(
    caller: Caller,
    State(conversation): State<Conversation>,
    PathId(id): PathId,
    QueryParams(query): QueryParams<UserQuery>,
    headers: HeaderMap,
    JsonBody { value: change, .. }: JsonBody<ThreadChange>,
) -> Result<Response, ApiError> {
    let thread = conversation
        .update_thread(
            &caller.call,
            &id,
            query.user_id.as_deref(),
            &change,
            etag::condition(&headers),
        )
        .await?;

    Ok(etag::changed(&thread))
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
    let unchanged = etag::condition(&headers);
    let erased = erasures
        .thread(&caller.erasure(), &id, query.user_id.as_deref(), unchanged)
        .await?;
    Ok(Json(erased.into()))
}
