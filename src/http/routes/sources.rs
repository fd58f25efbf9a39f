//! Sources: create, list, read, update and delete.

mod helpers;
mod listing;
mod versions;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::erasures::RemovalReceipt;
use crate::base::clock::Timestamp;
use crate::erasure::Erasures;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::etag;
use crate::http::extract::{JsonBody, PathId, QueryParams, moment};
use crate::http::idempotency::{Begun, Idempotency, location};
use crate::http::state::AppState;
use crate::model::source::{FILE_INGEST, Source};
use crate::sources::{DescribedSource, NewSource, SourceChange, Sources};

pub use helpers::{
    __path_get_helper, __path_list_helpers, __path_preview_helper, __path_regenerate_helper,
    __path_update_helper, HelperPreviewResponse, get_helper, list_helpers, preview_helper,
    regenerate_helper, update_helper,
};
pub use listing::ListSourcesQuery;
pub use versions::{
    __path_diff_source_versions, __path_get_source_content, __path_get_source_version,
    __path_list_source_chunks, __path_list_source_versions, diff_source_versions,
    get_source_content, get_source_version, list_source_chunks, list_source_versions,
};

/// A source.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "id": "0199a7e0-1c2d-7000-8000-000000000000", "user_id": "default", "filename": "plan.md",
    "path": "/docs/plan.md", "kind": "file_ingest", "type": "md", "eligible": true,
    "tags": ["file_ingest", "design"], "latest_version": 0,
    "created_at": "2026-01-31T12:00:00.000000Z", "updated_at": "2026-01-31T12:00:00.000000Z"
}))]
pub struct SourceResponse {
    pub id: String,
    /// The end user within the space.
    pub user_id: String,
    /// The last segment of the path.
    pub filename: String,
    /// The path of the source in the owner's system.
    pub path: String,
    /// Always `file_ingest`.
    pub kind: String,
    /// The file type, from the extension.
    #[serde(rename = "type")]
    pub file_type: String,
    /// Whether retrieval may use the source.
    pub eligible: bool,
    /// In the order in which they were given. memoir sets the tag `file_ingest` on every source.
    pub tags: Vec<String>,
    /// The number of the newest version; 0 until the first ingestion.
    pub latest_version: i64,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[schema(format = DateTime)]
    pub updated_at: String,
}

impl From<&Source> for SourceResponse {
    fn from(source: &Source) -> Self {
        Self {
            id: source.id.to_string(),
            user_id: source.user_id.clone(),
            filename: source.filename.clone(),
            path: source.path.clone(),
            kind: FILE_INGEST.to_owned(),
            file_type: source.file_type.clone(),
            eligible: source.eligible,
            tags: source.tags.clone(),
            latest_version: source.latest_version,
            created_at: source.created_at.to_string(),
            updated_at: source.updated_at.to_string(),
        }
    }
}

/// A source to create. Send `filename` or `path`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"path": "/docs/plan.md", "tags": ["design"]}))]
pub struct CreateSourceRequest {
    /// The file name. If you send a path, memoir uses its last segment.
    #[serde(default)]
    #[schema(
        max_length = 255,
        pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*[^\\s\\u0000-\\u001f\\u007f-\\u009f][^\\u0000-\\u001f\\u007f-\\u009f]*$"
    )]
    pub filename: Option<String>,
    /// The path in your system: absolute, unique per user.
    #[serde(default)]
    #[schema(
        max_length = 4096,
        pattern = "^(/|\\\\\\\\|[A-Za-z]:[/\\\\])[^\\u0000-\\u001f\\u007f-\\u009f]*$"
    )]
    pub path: Option<String>,
    /// The end user who owns the source; `default` if omitted.
    #[serde(default, deserialize_with = "crate::base::user_id::trimmed")]
    #[schema(
        max_length = 128,
        pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*[^\\s\\u0000-\\u001f\\u007f-\\u009f][^\\u0000-\\u001f\\u007f-\\u009f]*$"
    )]
    pub user_id: Option<String>,
    /// Tags to find the source by.
    #[serde(default)]
    #[schema(max_items = 99)]
    pub tags: Vec<Tag>,
    /// Whether retrieval may use the source; true if omitted.
    // Not declared as `default`, because some generators then make the field required.
    #[serde(default = "yes")]
    pub eligible: bool,
}

/// A tag: at least one visible character, no control characters.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(
    max_length = 100,
    pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*[^\\s\\u0000-\\u001f\\u007f-\\u009f][^\\u0000-\\u001f\\u007f-\\u009f]*$",
    example = "design"
)]
pub struct Tag(String);

pub fn to_texts(tags: Vec<Tag>) -> Vec<String> {
    tags.into_iter().map(|tag| tag.0).collect()
}

fn yes() -> bool {
    true
}

/// The fields to change; omitted fields stay unchanged.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"tags": ["file_ingest", "design", "draft"], "eligible": false}))]
pub struct UpdateSourceRequest {
    /// The new tags, which replace all existing ones; must include `file_ingest`.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub tags: Option<Vec<Tag>>,
    /// Whether retrieval may use the source.
    #[serde(default)]
    pub eligible: Option<bool>,
}

/// A source in a list.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ListedSourceResponse {
    #[serde(flatten)]
    pub source: SourceResponse,
    /// The size of the newest version in bytes; null until the first ingestion.
    pub size_bytes: Option<i64>,
    /// The current contextual helper; null if there is none.
    pub helper: Option<String>,
}

impl From<&DescribedSource> for ListedSourceResponse {
    fn from(item: &DescribedSource) -> Self {
        Self {
            source: SourceResponse::from(&item.source),
            size_bytes: item.size_bytes,
            helper: item.helper.clone(),
        }
    }
}

/// A page of sources, in the order of `sort`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct SourceListResponse {
    pub items: Vec<ListedSourceResponse>,
    /// Pass it as `cursor` to get the next page; null on the last page.
    pub next_cursor: Option<String>,
    /// Number of sources that match the filters, on all pages; counted for the first page.
    pub total: i64,
}

/// A point in time.
#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AsOfQuery {
    /// Returns the state at this time, but with the current tags and eligibility of sources.
    #[serde(default)]
    #[param(format = DateTime)]
    as_of: Option<String>,
}

impl AsOfQuery {
    pub fn moment(&self) -> Result<Option<Timestamp>, ApiError> {
        moment("as_of", self.as_of.as_deref())
    }
}

/// Create a source
///
/// Registers a source under its path without a text; ingest a text to add its first version. Send
/// an `Idempotency-Key` to make the request safe to retry.
#[utoipa::path(
    post, path = "/v1/sources", tag = "sources", operation_id = "create_source", request_body = CreateSourceRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "A repeat of the request with the same key and body within 24 hours returns the first response.")),
    responses(
        (status = 201, description = "The new source.", body = SourceResponse, headers(("Location" = String, description = "The URL of the new source."), ("ETag" = String, description = "The current ETag, for `If-Match`."))),
        (status = 409, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn create_source(
    caller: Caller,
    State(state): State<AppState>,
    headers: HeaderMap,
    JsonBody {
        value: request,
        bytes,
        ..
    }: JsonBody<CreateSourceRequest>,
) -> Result<Response, ApiError> {
    let idempotency = Idempotency::of(&headers, "create_source", &bytes)?;
    let new = NewSource {
        id: None,
        filename: request.filename,
        path: request.path,
        user_id: request.user_id,
        tags: to_texts(request.tags),
        eligible: request.eligible,
    };

    let created = state.store.retry_as("create_source", || async {
        let mut tx = match idempotency.begin(&state.store, &caller).await? {
            Begun::Answered(response) => return Ok(response),
            Begun::Fresh(tx) => tx,
        };

        let source = state
            .sources
            .register(&mut tx, &caller.space, new.clone(), caller.now)
            .await?;

        let body = SourceResponse::from(&source);
        let headers = [
            location(&format!("/v1/sources/{}", source.id))?,
            (header::ETAG, etag::etag(&body)),
        ];
        idempotency
            .finish(tx, &caller, StatusCode::CREATED, headers, &body)
            .await
    });

    Ok(created.await?)
}

/// List sources
///
/// Returns sources in the order of `sort` (oldest first if omitted), each with the size of its
/// newest version and its contextual helper.
#[utoipa::path(
    get, path = "/v1/sources", tag = "sources", operation_id = "list_sources", params(ListSourcesQuery),
    responses((status = 200, description = "A page of sources.", body = SourceListResponse))
)]
pub async fn list_sources(
    caller: Caller,
    State(sources): State<Sources>,
    QueryParams(query): QueryParams<ListSourcesQuery>,
) -> Result<Json<SourceListResponse>, ApiError> {
    let listing = query.listing("")?;
    let found = sources
        .list_described(&caller.space, &listing.filter, &listing.page)
        .await?;

    let total = match listing.total {
        Some(total) => total,
        // The first page has the whole list, so there is nothing to count.
        None if !listing.has_more(&found) => i64::try_from(found.len()).unwrap_or(i64::MAX),
        None => sources.count(&caller.space, &listing.filter).await?,
    };

    let (items, next_cursor) =
        listing.cut(found, Some(total), |item| (&item.source, item.size_bytes));
    Ok(Json(SourceListResponse {
        items: items.iter().map(ListedSourceResponse::from).collect(),
        next_cursor,
        total,
    }))
}

/// Get a source
///
/// Returns the metadata, the tags and the number of the newest version. With `If-None-Match`,
/// returns 304 if the source has not changed.
#[utoipa::path(
    get, path = "/v1/sources/{id}", tag = "sources", operation_id = "get_source",
    params(("id" = String, Path, description = "The source's id."), AsOfQuery, ("If-None-Match" = Option<String>, Header, description = "The ETag from an earlier response.")),
    responses(
        (status = 200, description = "The source.", body = SourceResponse, headers(("ETag" = String, description = "The current ETag, for `If-Match`."))),
        (status = 304, description = "The source has not changed."),
    )
)]
pub async fn get_source(
    caller: Caller,
    State(sources): State<Sources>,
    PathId(id): PathId,
    QueryParams(query): QueryParams<AsOfQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let as_of = query.moment()?;
    let source = sources.find_as_of(&caller.space, &id, as_of).await?;
    if as_of.is_some() {
        // A past state has no ETag, because no change can depend on it.
        return Ok(Json(SourceResponse::from(&source)).into_response());
    }

    Ok(etag::respond(&headers, &SourceResponse::from(&source)))
}

/// Update a source
///
/// Changes the tags, or whether retrieval may use the source. With `If-Match`, returns 412 if the
/// source has changed since you read it.
#[utoipa::path(
    patch, path = "/v1/sources/{id}", tag = "sources", operation_id = "update_source", request_body = UpdateSourceRequest,
    params(("id" = String, Path, description = "The source's id."), ("If-Match" = Option<String>, Header, description = "The ETag from an earlier response.")),
    responses(
        (status = 200, description = "The updated source.", body = SourceResponse, headers(("ETag" = String, description = "The current ETag, for `If-Match`."))),
        (status = 412, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn update_source(
    caller: Caller,
    State(sources): State<Sources>,
    PathId(id): PathId,
    headers: HeaderMap,
    JsonBody { value: request, .. }: JsonBody<UpdateSourceRequest>,
) -> Result<Response, ApiError> {
    let change = SourceChange {
        tags: request.tags.map(to_texts),
        eligible: request.eligible,
    };

    let unchanged = etag::condition(&headers, |source: &Source| SourceResponse::from(source));
    let source = sources
        .update(&caller.space, &id, &change, unchanged, caller.now)
        .await?;
    Ok(etag::changed(&SourceResponse::from(&source)))
}

/// Delete a source
///
/// Permanently deletes the source with all its versions and chunks, cancels its jobs, and deletes the
/// categories that are left without a chunk. What quotes it elsewhere is emptied: receipts of queries,
/// stored responses, model outputs; a category is renamed if only deleted text explains its name.
/// Returns the receipt of the deletion. With `If-Match`, returns 412 if the source has changed since
/// you read it.
#[utoipa::path(
    delete, path = "/v1/sources/{id}", tag = "sources", operation_id = "delete_source",
    params(("id" = String, Path, description = "The source's id."), ("If-Match" = Option<String>, Header, description = "The ETag from an earlier response.")),
    responses(
        (status = 200, description = "What was deleted.", body = RemovalReceipt),
        (status = 412, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn delete_source(
    caller: Caller,
    State(erasures): State<Erasures>,
    PathId(id): PathId,
    headers: HeaderMap,
) -> Result<Json<RemovalReceipt>, ApiError> {
    let unchanged = etag::condition(&headers, |source: &Source| SourceResponse::from(source));
    let erased = erasures.source(&caller.erasure(), &id, unchanged).await?;
    Ok(Json(erased.into()))
}
