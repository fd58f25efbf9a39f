//! Memories: facts, preferences and summaries that an application states; and what may change in
//! any memory.

mod wire;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::erasures::RemovalReceipt;
use super::jobs::JobSummaryResponse;
use super::threads::UserQuery;
use crate::base::ids::{MemoryId, ThreadId};
use crate::conversation::memories::{MemoryChange, NewMemory};
use crate::conversation::{Conversation, Correction, DEFAULT_USER};
use crate::erasure::Erasures;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::etag;
use crate::http::extract::{JsonBody, PathId, QueryParams, moment};
use crate::http::idempotency::{Begun, Idempotency, location};
use crate::http::page;
use crate::http::state::AppState;
use crate::model::memory::{EnrichmentState, FileHint, Memory, MemoryKind};
use crate::store::{MemoryFilter, MemoryPage};

pub use wire::{EntityResponse, MemoryListResponse, MemoryResponse};

/// A memory to create: what an application knows about an end user.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"user_id": "U-123", "type": "preference", "content": "User prefers SMS notifications for orders"}))]
pub struct CreateMemoryRequest {
    /// The end user; `default` if omitted.
    #[serde(default, deserialize_with = "crate::base::user_id::trimmed")]
    #[schema(max_length = 128)]
    pub user_id: Option<String>,
    /// A thread of the user that it belongs to.
    #[serde(default)]
    pub thread_id: Option<String>,
    /// `fact` (the default), `preference` or `summary`.
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    /// The title.
    #[serde(default)]
    #[schema(max_length = 300)]
    pub title: Option<String>,
    /// The text, stored verbatim.
    #[schema(min_length = 1, max_length = 200_000, pattern = "\\S")]
    pub content: String,
    /// A category of the vocabulary, or `user_preference`.
    #[serde(default)]
    pub category: Option<String>,
    /// Topics of the vocabulary.
    #[serde(default)]
    #[schema(max_items = 3)]
    pub topics: Vec<String>,
    /// Tags to find the memory by.
    #[serde(default)]
    #[schema(max_items = 20)]
    pub tags: Vec<String>,
    /// The importance, from 0 to 1.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1)]
    pub importance: Option<f64>,
    /// Whether to mark it as important, which raises its importance to at least 0.9; false if
    /// omitted.
    #[serde(default)]
    pub important: Option<bool>,
    /// Whether a summary becomes part of the window of its thread; false if omitted.
    #[serde(default)]
    pub pinned: Option<bool>,
    /// The time from which it is true; now if omitted.
    #[serde(default)]
    #[schema(format = DateTime)]
    pub created_at: Option<String>,
    /// The file that it is about.
    #[serde(default)]
    pub file_path: Option<String>,
    /// SHA-256 of the version of the file that it is about.
    #[serde(default)]
    pub file_sha256: Option<String>,
    /// When that version of the file was last modified.
    #[serde(default)]
    #[schema(format = DateTime)]
    pub file_mtime: Option<String>,
    /// The memory that it replaces, which is kept but no longer used.
    #[serde(default)]
    pub supersedes: Option<String>,
}

/// The fields to change; omitted fields stay unchanged.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"important": true, "topics": ["shipping"], "tags": ["diet"]}))]
pub struct UpdateMemoryRequest {
    /// The new title; null removes it.
    #[serde(default, deserialize_with = "crate::http::extract::given")]
    #[schema(value_type = Option<String>, max_length = 300)]
    #[expect(clippy::option_option, reason = "omitted and null differ")]
    pub title: Option<Option<String>>,
    /// Corrects the topics: topics of the vocabulary, in place of the model's. Corrected fields stay
    /// when the memory is classified again; null ends the correction, so that the next
    /// classification replaces them.
    #[serde(default, deserialize_with = "crate::http::extract::given")]
    #[schema(value_type = Option<Vec<String>>, max_items = 3)]
    #[expect(clippy::option_option, reason = "omitted and null differ")]
    pub topics: Option<Option<Vec<String>>>,
    /// Corrects the category: one of the vocabulary, or `user_preference`; null ends the correction.
    #[serde(default, deserialize_with = "crate::http::extract::given")]
    #[schema(value_type = Option<String>)]
    #[expect(clippy::option_option, reason = "omitted and null differ")]
    pub category: Option<Option<String>>,
    /// Corrects the message type: one of the vocabulary; null ends the correction.
    #[serde(default, deserialize_with = "crate::http::extract::given")]
    #[schema(value_type = Option<String>)]
    #[expect(clippy::option_option, reason = "omitted and null differ")]
    pub message_type: Option<Option<String>>,
    /// The importance, from 0 to 1, which replaces the value from the model; null removes the
    /// value.
    #[serde(default, deserialize_with = "crate::http::extract::given")]
    #[schema(value_type = Option<f64>, minimum = 0, maximum = 1)]
    #[expect(clippy::option_option, reason = "omitted and null differ")]
    pub importance: Option<Option<f64>>,
    /// Whether it is marked as important, which raises its importance to at least 0.9.
    #[serde(default)]
    pub important: Option<bool>,
    /// Whether it is pinned. A pinned summary is part of the window of its thread.
    #[serde(default)]
    pub pinned: Option<bool>,
    /// The new tags, which replace all existing ones.
    #[serde(default)]
    #[schema(max_items = 20)]
    pub tags: Option<Vec<String>>,
    /// Set to true to use a replaced memory again.
    #[serde(default)]
    pub restore: Option<bool>,
}

/// Filters and pagination of the memory list.
#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListMemoriesQuery {
    /// The end user; `default` if omitted.
    #[serde(default, deserialize_with = "crate::base::user_id::trimmed")]
    user_id: Option<String>,
    /// Only memories of this thread.
    #[serde(default)]
    #[param(pattern = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")]
    thread_id: Option<String>,
    /// Only this type: `message`, `fact`, `preference` or `summary`; all types except `message` if
    /// omitted.
    #[serde(default, rename = "type")]
    #[param(pattern = "^(message|fact|preference|summary)$")]
    kind: Option<String>,
    /// Only memories with this tag.
    #[serde(default)]
    tag: Option<String>,
    /// Only memories with this topic.
    #[serde(default)]
    topic: Option<String>,
    /// Only memories with this category of the vocabulary, which is not a category of the hierarchy.
    #[serde(default)]
    category: Option<String>,
    /// Only memories whose classification is in this state: `pending`, `done`, `failed` or `none`.
    #[serde(default)]
    #[param(pattern = "^(pending|done|failed|none)$")]
    enrichment_state: Option<String>,
    /// Only memories that are (true) or are not (false) pinned.
    #[serde(default)]
    pinned: Option<bool>,
    /// Only memories that are (true) or are not (false) marked as important.
    #[serde(default)]
    important: Option<bool>,
    /// Returns the memories that were in force at this time.
    #[serde(default)]
    #[param(format = DateTime)]
    as_of: Option<String>,
    /// Whether to include memories that newer ones have replaced; false if omitted.
    #[serde(default)]
    superseded: Option<bool>,
    /// Maximum number of items on the page.
    #[serde(default)]
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<usize>,
    /// `next_cursor` from the previous page.
    #[serde(default)]
    cursor: Option<String>,
}

/// Create a memory
///
/// Stores a fact, a preference or a summary about an end user. With `supersedes`, it replaces an
/// earlier memory, which is kept but no longer used; if another memory has already replaced that one,
/// returns 409. Send an `Idempotency-Key` to make the request
/// safe to retry.
#[utoipa::path(
    post, path = "/v1/memories", tag = "conversations", operation_id = "create_memory", request_body = CreateMemoryRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "A repeat of the request with the same key and body within 24 hours returns the first response.")),
    responses(
        (status = 201, description = "The new memory.", body = MemoryResponse, headers(("Location" = String, description = "The URL of the new memory."), ("ETag" = String, description = "The current ETag, for `If-Match`."))),
        (status = 404, response = crate::http::openapi::ProblemResponse),
        (status = 409, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn create_memory(
    caller: Caller,
    State(state): State<AppState>,
    headers: HeaderMap,
    JsonBody {
        value: request,
        bytes,
        ..
    }: JsonBody<CreateMemoryRequest>,
) -> Result<Response, ApiError> {
    let idempotency = Idempotency::of(&headers, "create_memory", &bytes)?;
    if let Some(response) = idempotency.answered(&state.store, &caller).await? {
        return Ok(response);
    }

    let new = new_memory(request)?;
    let ready = state
        .conversation
        .prepare_memory(&caller.space, new, caller.now)
        .await?;

    let created = state.store.retry_as("create_memory", || async {
        let mut tx = match idempotency.begin(&state.store, &caller).await? {
            Begun::Answered(response) => return Ok(response),
            Begun::Fresh(tx) => tx,
        };

        state
            .conversation
            .add_memory(&mut tx, &caller.space, &ready, caller.now)
            .await?;
        let body = MemoryResponse::of(&ready.memory, caller.now);
        let headers = [
            location(&format!("/v1/memories/{}", body.id))?,
            (header::ETAG, etag::etag(&body)),
        ];
        idempotency
            .finish(tx, &caller, StatusCode::CREATED, headers, &body)
            .await
    });

    Ok(created.await?)
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
    let limit = page::limit(query.limit)?;
    let filter = filter(&query)?;
    let fingerprint = format!("{filter:?}");
    let from = page::decode_place::<MemoryId>(query.cursor.as_deref(), &fingerprint)?;
    let page = MemoryPage {
        from,
        newest_first: false,
        limit: limit + 1,
    };
    let found = conversation
        .list_memories(&caller.space, &filter, &page)
        .await?;

    let key = |memory: &Memory| (memory.created_at.as_micros(), memory.id.to_string());
    let (items, next_cursor) = page::cut(found, limit, &fingerprint, key);
    let shown = |memory: &Memory| MemoryResponse::of(memory, caller.now);
    Ok(Json(MemoryListResponse {
        items: items.iter().map(shown).collect(),
        next_cursor,
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
        .memory(&caller.space, &id, query.user_id.as_deref())
        .await?;
    let shown = MemoryResponse::of(&memory, caller.now);
    Ok(etag::respond(&headers, &shown))
}

/// Update a memory
///
/// Changes the title, topics, category, message type, importance and tags, and whether the memory is
/// marked as important or pinned. The text cannot be changed. With `If-Match`, returns 412 if it has
/// changed since you read it.
#[utoipa::path(
    patch, path = "/v1/memories/{id}", tag = "conversations", operation_id = "update_memory", request_body = UpdateMemoryRequest,
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
    JsonBody { value: request, .. }: JsonBody<UpdateMemoryRequest>,
) -> Result<Response, ApiError> {
    let change = MemoryChange {
        title: request.title,
        correction: Correction {
            topics: request.topics,
            category: request.category,
            message_type: request.message_type,
            importance: request.importance,
        },
        important: request.important,
        pinned: request.pinned,
        tags: request.tags,
        restore: request.restore.unwrap_or(false),
    };
    let shown = |memory: &Memory| MemoryResponse::of(memory, caller.now);
    let unchanged = etag::condition(&headers, shown);
    let memory = conversation
        .update_memory(
            &caller.space,
            &id,
            query.user_id.as_deref(),
            &change,
            unchanged,
            caller.now,
        )
        .await?;

    Ok(etag::changed(&MemoryResponse::of(&memory, caller.now)))
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
    let shown = |memory: &Memory| MemoryResponse::of(memory, caller.now);
    let unchanged = etag::condition(&headers, shown);
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
        .memory(&caller.space, &id, query.user_id.as_deref())
        .await?;
    let payer = caller.budget();
    let queued = state.store.retry_as("enrich_memory", || async {
        let mut tx = state.store.begin().await?;
        let id = known.id.to_string();
        let job = state
            .conversation
            .enrich_again(&mut tx, &caller.space, &id, payer.as_ref(), caller.now)
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

fn new_memory(request: CreateMemoryRequest) -> Result<NewMemory, ApiError> {
    Ok(NewMemory {
        user_id: request.user_id,
        thread_id: request.thread_id,
        kind: request.kind,
        title: request.title,
        content: request.content,
        category: request.category,
        topics: request.topics,
        tags: request.tags,
        importance: request.importance,
        important: request.important.unwrap_or(false),
        pinned: request.pinned.unwrap_or(false),
        created_at: moment("created_at", request.created_at.as_deref())?,
        file: FileHint {
            path: request.file_path,
            sha256: request.file_sha256,
            mtime: moment("file_mtime", request.file_mtime.as_deref())?,
        },
        supersedes: request.supersedes,
        redacted: false,
    })
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
                .unwrap_or_else(|| DEFAULT_USER.to_owned()),
        ),
        thread_id: thread_id.transpose()?,
        kinds,
        tag: query.tag.clone(),
        topic: query.topic.clone(),
        category: query.category.clone(),
        enrichment_state: state.transpose()?,
        pinned: query.pinned,
        important: query.important,
        as_of: moment("as_of", query.as_of.as_deref())?,
        superseded: query.superseded.unwrap_or(false),
    })
}
