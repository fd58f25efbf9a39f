//! Memories: facts, preferences and summaries that an application states; and what may change in
//! any memory.

mod wire;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use super::erasures::RemovalReceipt;
use super::jobs::JobSummaryResponse;
use super::threads::UserQuery;
use crate::base::clock::Timestamp;
use crate::base::ids::ThreadId;
use crate::base::user_id;
use crate::conversation::Conversation;
use crate::conversation::memories::{MemoryChange, NewMemory};
use crate::erasure::Erasures;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::etag;
use crate::http::extract::{JsonBody, PathId, QueryParams};
use crate::http::idempotency::{Created, Idempotency, location};
use crate::http::page::{Page, list_query};
use crate::http::state::AppState;
use crate::model::memory::{EnrichmentState, Memory, MemoryKind};
use crate::store::{MemoryFilter, MemoryPage, Tx};

pub use wire::{CreatedMemoryResponse, MemoryListResponse, MemoryResponse};

list_query! {
    /// Filters and pagination of the memory list.
    ListMemoriesQuery {
        /// The end user; `default` if omitted.
        #[serde(default, deserialize_with = "crate::base::user_id::trimmed")]
        user_id: Option<String>,
        /// Only memories of this thread.
        #[param(pattern = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")]
        thread_id: Option<String>,
        /// Only this type: `message`, `fact`, `preference` or `summary`; all types except `message` if
        /// omitted.
        #[serde(default, rename = "type")]
        #[param(pattern = "^(message|fact|preference|summary)$")]
        kind: Option<String>,
        /// Only memories with this tag.
        tag: Option<String>,
        /// Only memories with this topic.
        topic: Option<String>,
        /// Only memories with this category of the vocabulary, which is not a category of the hierarchy.
        category: Option<String>,
        /// Only memories whose classification is in this state: `pending`, `done`, `failed` or `none`.
        #[param(pattern = "^(pending|done|failed|none)$")]
        enrichment_state: Option<String>,
        /// Only memories that are (true) or are not (false) pinned.
        pinned: Option<bool>,
        /// Only memories that are (true) or are not (false) marked as important.
        important: Option<bool>,
        /// Returns the memories that were in force at this time.
        #[param(value_type = Option<String>, format = DateTime)]
        as_of: Option<Timestamp>,
        /// Whether to include memories that newer ones have replaced; false if omitted.
        superseded: Option<bool>,
    }
}

/// Create a memory
///
/// Stores a fact, a preference or a summary about an end user. With `supersedes`, it replaces an
/// earlier memory, which is kept but no longer used; if another memory has already replaced that one,
/// returns 409. `conflicts` lists what is known and cannot be true together with the new memory, such
/// as another deadline or another place to live; nothing is replaced by it. Send an `Idempotency-Key`
/// to make the request safe to retry.
#[utoipa::path(
    post, path = "/v1/memories", tag = "conversations", operation_id = "create_memory", request_body = NewMemory,
    params(("Idempotency-Key" = Option<String>, Header, description = "A repeat of the request with the same key and body within 24 hours returns the first response.")),
    responses(
        (status = 201, description = "The new memory.", body = CreatedMemoryResponse, headers(("Location" = String, description = "The URL of the new memory."), ("ETag" = String, description = "The current ETag, for `If-Match`."))),
        (status = 404, response = crate::http::openapi::ProblemResponse),
        (status = 409, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn create_memory(
    caller: Caller,
    State(state): State<AppState>,
    headers: HeaderMap,
    body: JsonBody<NewMemory>,
) -> Result<Response, ApiError> {
    let idempotency = Idempotency::of(&headers, "create_memory", &body.bytes)?;
    if let Some(response) = idempotency.answered(&state.store, &caller).await? {
        return Ok(response);
    }

    let ready = state
        .conversation
        .prepare_memory(&caller.call, body.value)
        .await?;
    let (state, caller, ready) = (&state, &caller, &ready);
    let add = |mut tx: Tx| async move {
        let conversation = &state.conversation;
        conversation
            .add_memory(&mut tx, &caller.call, ready)
            .await?;
        let body = CreatedMemoryResponse {
            memory: MemoryResponse::of(&ready.memory, caller.call.now),
            conflicts: ready.conflicts.clone(),
        };
        // The tag of what a later read shows.
        let etag = etag::etag(&body.memory);
        let created = Created::at(&format!("/v1/memories/{}", body.memory.id), body)?;
        Ok((tx, created.with(header::ETAG, etag)))
    };

    idempotency.create(state, caller, add).await
}

/// List memories
///
/// Returns the facts, preferences and summaries about an end user, oldest first; messages only with
/// `type=message`. Memories that newer ones have replaced are omitted, unless you set `superseded`,
/// or an `as_of` at which they were still in force.
#[utoipa::path(
    get, path = "/v1/memories", tag = "conversations", operation_id = "list_memories", params(ListMemoriesQuery),
    responses((status = 200, description = "A page of memories.", body = MemoryListResponse))
)]
pub async fn list_memories(
    caller: Caller,
    State(conversation): State<Conversation>,
    QueryParams(query): QueryParams<ListMemoriesQuery>,
) -> Result<Json<MemoryListResponse>, ApiError> {
    let filter = filter(&query)?;
    let page = Page::new(query.limit, query.cursor, format!("{filter:?}"))?;
    let wanted = MemoryPage {
        from: page.after_item()?,
        newest_first: false,
        limit: page.rows(),
    };
    let found = conversation
        .list_memories(&caller.call, &filter, &wanted)
        .await?;

    let key = |memory: &Memory| (memory.created_at.as_micros(), memory.id.to_string());
    Ok(page.list(found, key, |memory| {
        MemoryResponse::of(&memory, caller.call.now)
    }))
}

/// Get a memory
///
/// Returns a memory. With `If-None-Match`, returns 304 if it has not changed.
#[utoipa::path(
    get, path = "/v1/memories/{id}", tag = "conversations", operation_id = "get_memory",
    params(("id" = String, Path, description = "The memory's id."), UserQuery, ("If-None-Match" = Option<String>, Header, description = "The ETag from an earlier response.")),
    responses(
        (status = 200, description = "The memory.", body = MemoryResponse, headers(("ETag" = String, description = "The current ETag, for `If-Match`."))),
        (status = 304, description = "The memory has not changed."),
    )
)]
pub async fn get_memory(
    caller: Caller,
    State(conversation): State<Conversation>,
    PathId(id): PathId,
    QueryParams(query): QueryParams<UserQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let memory = conversation
        .memory(&caller.call, &id, query.user_id.as_deref())
        .await?;
    let shown = MemoryResponse::of(&memory, caller.call.now);
    Ok(etag::respond(&headers, &shown))
}

/// Update a memory
///
/// Changes the title, topics, category, message type, importance and tags, and whether the memory is
/// marked as important or pinned. The text cannot be changed. With `If-Match`, returns 412 if it has
/// changed since you read it.
#[utoipa::path(
    patch, path = "/v1/memories/{id}", tag = "conversations", operation_id = "update_memory", request_body = MemoryChange,
    params(("id" = String, Path, description = "The memory's id."), UserQuery, ("If-Match" = Option<String>, Header, description = "The ETag from an earlier response.")),
    responses(
        (status = 200, description = "The updated memory.", body = MemoryResponse, headers(("ETag" = String, description = "The current ETag, for `If-Match`."))),
        (status = 412, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn update_memory(
    caller: Caller,
    State(conversation): State<Conversation>,
    PathId(id): PathId,
    QueryParams(query): QueryParams<UserQuery>,
    headers: HeaderMap,
    JsonBody { value: change, .. }: JsonBody<MemoryChange>,
) -> Result<Response, ApiError> {
    let shown = |memory: &Memory| MemoryResponse::of(memory, caller.call.now);
    let unchanged = etag::condition_on(&headers, shown);
    let memory = conversation
        .update_memory(
            &caller.call,
            &id,
            query.user_id.as_deref(),
            &change,
            unchanged,
        )
        .await?;

    Ok(etag::changed(&MemoryResponse::of(&memory, caller.call.now)))
}

/// Delete a memory
///
/// Permanently deletes a memory and removes it from search; with a message go the facts and summaries
/// that rest on it. What quotes it elsewhere is emptied: receipts of queries, stored responses, model
/// outputs. Returns the receipt of the deletion. With `If-Match`, returns 412 if it has changed since
/// you read it.
#[utoipa::path(
    delete, path = "/v1/memories/{id}", tag = "conversations", operation_id = "delete_memory",
    params(("id" = String, Path, description = "The memory's id."), UserQuery, ("If-Match" = Option<String>, Header, description = "The ETag from an earlier response.")),
    responses(
        (status = 200, description = "What was deleted.", body = RemovalReceipt),
        (status = 412, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn delete_memory(
    caller: Caller,
    State(erasures): State<Erasures>,
    PathId(id): PathId,
    QueryParams(query): QueryParams<UserQuery>,
    headers: HeaderMap,
) -> Result<Json<RemovalReceipt>, ApiError> {
    let shown = |memory: &Memory| MemoryResponse::of(memory, caller.call.now);
    let unchanged = etag::condition_on(&headers, shown);
    let erased = erasures
        .memory(&caller.erasure(), &id, query.user_id.as_deref(), unchanged)
        .await?;
    Ok(Json(erased.into()))
}

/// Classify a memory again
///
/// Queues a job that classifies the memory with the current vocabulary.
#[utoipa::path(
    post, path = "/v1/memories/{id}/enrich", tag = "conversations", operation_id = "enrich_memory",
    params(("id" = String, Path, description = "The memory's id."), UserQuery),
    responses(
        (status = 202, description = "The job.", body = JobSummaryResponse, headers(("Location" = String, description = "The URL of the job."))),
        (status = 429, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn enrich_memory(
    caller: Caller,
    State(state): State<AppState>,
    PathId(id): PathId,
    QueryParams(query): QueryParams<UserQuery>,
) -> Result<Response, ApiError> {
    let known = state
        .conversation
        .memory(&caller.call, &id, query.user_id.as_deref())
        .await?;
    let queued = state.store.retry_as("enrich_memory", || async {
        let mut tx = state.store.begin().await?;
        let id = known.id.to_string();
        let job = state
            .conversation
            .enrich_again(&mut tx, &caller.call, &id)
            .await?;
        tx.commit().await?;
        Ok::<_, crate::http::idempotency::ApiFailure>(job)
    });

    let job = queued.await?;
    state.conversation.announce();
    let place = location(&format!("/v1/jobs/{}", job.id))?;
    let later = (header::RETRY_AFTER, HeaderValue::from_static("1"));
    let body = Json(JobSummaryResponse::from(&job));
    Ok((StatusCode::ACCEPTED, [place, later], body).into_response())
}

fn filter(query: &ListMemoriesQuery) -> Result<MemoryFilter, ApiError> {
    let kinds = match query.kind.as_deref() {
        None => vec!["fact", "preference", "summary"],
        Some(kind) => {
            let rule = "must be message, fact, preference or summary";
            let kind: MemoryKind = kind
                .parse()
                .map_err(|_| ApiError::invalid_field("type", rule))?;
            vec![kind.into_str()]
        }
    };

    let state = query.enrichment_state.as_deref().map(|state| {
        state.parse::<EnrichmentState>().map_err(|_| {
            ApiError::invalid_field("enrichment_state", "must be pending, done, failed or none")
        })
    });

    let thread_id = query.thread_id.as_deref().map(|id| {
        id.parse::<ThreadId>()
            .map_err(|_| ApiError::invalid_field("thread_id", "must be the id of a thread"))
    });

    Ok(MemoryFilter {
        user_id: Some(
            query
                .user_id
                .clone()
                .unwrap_or_else(|| user_id::DEFAULT.to_owned()),
        ),
        thread_id: thread_id.transpose()?,
        kinds,
        tag: query.tag.clone(),
        topic: query.topic.clone(),
        category: query.category.clone(),
        enrichment_state: state.transpose()?,
        pinned: query.pinned,
        important: query.important,
        as_of: query.as_of,
        superseded: query.superseded.unwrap_or(false),
    })
}
