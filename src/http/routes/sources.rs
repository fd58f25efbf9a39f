//! Sources: create, list, read, update and delete.

mod helpers;
mod listing;
mod versions;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::erasures::RemovalReceipt;
use crate::base::clock::Timestamp;
use crate::erasure::Erasures;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::etag;
use crate::http::extract::{JsonBody, PathId, QueryParams};
use crate::http::idempotency::{Created, Idempotency};
use crate::http::state::AppState;
use crate::model::source::Source;
use crate::sources::{DescribedSource, NewSource, SourceChange, Sources};
use crate::store::Tx;

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

/// A page of sources, in the order of `sort`.
#[derive(Debug, Serialize, ToSchema)]
pub struct SourceListResponse {
    pub items: Vec<DescribedSource>,
    /// Pass it as `cursor` to get the next page; null on the last page.
    pub next_cursor: Option<String>,
    /// Number of sources that match the filters, on all pages; counted for the first page.
    pub total: i64,
}

/// A point in time.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AsOfQuery {
    /// Returns the state at this time, but with the current tags and eligibility of sources.
    #[param(value_type = Option<String>, format = DateTime)]
    pub as_of: Option<Timestamp>,
}

/// Create a source
///
/// Registers a source under its path without a text; ingest a text to add its first version. Send
/// an `Idempotency-Key` to make the request safe to retry.
#[utoipa::path(
    post, path = "/v1/sources", tag = "sources", operation_id = "create_source", request_body = NewSource,
    params(("Idempotency-Key" = Option<String>, Header, description = "A repeat of the request with the same key and body within 24 hours returns the first response.")),
    responses(
        (status = 201, description = "The new source.", body = Source, headers(("Location" = String, description = "The URL of the new source."), ("ETag" = String, description = "The current ETag, for `If-Match`."))),
        (status = 409, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn create_source(
    caller: Caller,
    State(state): State<AppState>,
    headers: HeaderMap,
    body: JsonBody<NewSource>,
) -> Result<Response, ApiError> {
    let idempotency = Idempotency::of(&headers, "create_source", &body.bytes)?;
    let (state, caller, new) = (&state, &caller, &body.value);
    let register = |mut tx: Tx| async move {
        let source = state
            .sources
            .register(&mut tx, &caller.call, new.clone())
            .await?;
        let created = Created::at(&format!("/v1/sources/{}", source.id), source)?;
        Ok((tx, created.with_etag()))
    };

    idempotency.create(state, caller, register).await
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
        .list_described(&caller.call, &listing.filter, &listing.page)
        .await?;

    let total = match listing.total {
        Some(total) => total,
        // The first page has the whole list, so there is nothing to count.
        None if !listing.has_more(&found) => i64::try_from(found.len()).unwrap_or(i64::MAX),
        None => sources.count(&caller.call, &listing.filter).await?,
    };

    let (items, next_cursor) =
        listing.cut(found, Some(total), |item| (&item.source, item.size_bytes));
    Ok(Json(SourceListResponse {
        items,
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
        (status = 200, description = "The source.", body = Source, headers(("ETag" = String, description = "The current ETag, for `If-Match`."))),
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
    let source = sources.find_as_of(&caller.call, &id, query.as_of).await?;
    if query.as_of.is_some() {
        // A past state has no ETag, because no change can depend on it.
        return Ok(Json(source).into_response());
    }

    Ok(etag::respond(&headers, &source))
}

/// Update a source
///
/// Changes the tags, or whether retrieval may use the source. With `If-Match`, returns 412 if the
/// source has changed since you read it.
#[utoipa::path(
    patch, path = "/v1/sources/{id}", tag = "sources", operation_id = "update_source", request_body = SourceChange,
    params(("id" = String, Path, description = "The source's id."), ("If-Match" = Option<String>, Header, description = "The ETag from an earlier response.")),
    responses(
        (status = 200, description = "The updated source.", body = Source, headers(("ETag" = String, description = "The current ETag, for `If-Match`."))),
        (status = 412, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn update_source(
    caller: Caller,
    State(sources): State<Sources>,
    PathId(id): PathId,
    headers: HeaderMap,
    JsonBody { value: change, .. }: JsonBody<SourceChange>,
) -> Result<Response, ApiError> {
    let unchanged = etag::condition(&headers);
    let source = sources
        .update(&caller.call, &id, &change, unchanged)
        .await?;
    Ok(etag::changed(&source))
}

/// Delete a source
///
/// Permanently deletes the source with all its versions and chunks, cancels its jobs, and deletes the
/// categories that are left without a chunk. A source whose first text is not stored yet, or never
/// was, is deleted with its ingestions. What quotes it elsewhere is emptied: receipts of queries,
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
    let unchanged = |source: Option<&Source>| etag::is_unchanged_if_any(&headers, source);
    let erased = erasures.source(&caller.erasure(), &id, unchanged).await?;
    Ok(Json(erased.into()))
}
