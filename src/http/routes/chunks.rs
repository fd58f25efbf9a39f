//! Chunks: reading one by id, and the wire format of all chunks.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::base::clock::Timestamp;
use crate::categories::Categories;
use crate::categories::care::CareOrder;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::{JsonBody, PathId};
use crate::http::page::{Page, list_response};
use crate::model::call::CallContext;
use crate::model::chunk::Chunk;

list_response! {
    /// A page of chunks.
    ChunkListResponse of Chunk
}

/// Builds a page from a list that was read one item longer than the page; the paths are those of now or
/// of a time.
pub async fn page_of<K: Serialize>(
    (categories, as_of): (&Categories, Option<Timestamp>),
    call: &CallContext,
    page: &Page,
    found: Vec<Chunk>,
    key: impl Fn(&Chunk) -> K,
) -> Result<Json<ChunkListResponse>, ApiError> {
    let (mut items, next_cursor) = page.cut(found, key);
    categories.add_paths(call, &mut items, as_of).await?;
    Ok(Json(ChunkListResponse { items, next_cursor }))
}

/// Parses a number in the path; a malformed id is treated as not found.
pub fn number(id: &str, noun: &str) -> Result<i64, ApiError> {
    let shown: String = id.chars().take(64).collect();
    id.parse()
        .map_err(|_| ApiError::not_found(format!("there is no {noun} {shown} in this space")))
}

/// Get a chunk
///
/// Returns the verbatim text and the category path.
#[utoipa::path(
    get, path = "/v1/chunks/{id}", tag = "categories", operation_id = "get_chunk",
    params(("id" = String, Path, description = "The chunk id.")),
    responses((status = 200, description = "The chunk.", body = Chunk))
)]
pub async fn get_chunk(
    caller: Caller,
    State(categories): State<Categories>,
    PathId(id): PathId,
) -> Result<Json<Chunk>, ApiError> {
    let number = number(&id, "chunk")?;
    found(&categories, &caller.call, number, None).await
}

/// The chunk as it is now, with its path; or as it would be in another leaf.
async fn found(
    categories: &Categories,
    call: &CallContext,
    number: i64,
    leaf: Option<i64>,
) -> Result<Json<Chunk>, ApiError> {
    let found = categories.find_chunk(call, number).await?;
    let mut chunk = found
        .ok_or_else(|| ApiError::not_found(format!("there is no chunk {number} in this space")))?;
    chunk.category_id = leaf.or(chunk.category_id);
    categories
        .add_paths(call, std::slice::from_mut(&mut chunk), None)
        .await?;
    Ok(Json(chunk))
}

/// What to change in a chunk.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"category_id": 5}))]
pub struct UpdateChunkRequest {
    /// The leaf to file it in.
    pub category_id: i64,
    /// Return the chunk as it would be, without moving it.
    #[serde(default)]
    pub dry_run: bool,
}

/// Move a chunk to another leaf
///
/// The chunk stays there: no model moves it, and when its source is ingested again, a chunk with the same
/// text is filed there. The move is listed as a change of the hierarchy and can be undone.
#[utoipa::path(
    patch, path = "/v1/chunks/{id}", tag = "categories", operation_id = "move_chunk", request_body = UpdateChunkRequest,
    params(("id" = String, Path, description = "The chunk id.")),
    responses((status = 200, description = "The chunk, or with `dry_run` as it would be.", body = Chunk))
)]
pub async fn move_chunk(
    caller: Caller,
    State(categories): State<Categories>,
    PathId(id): PathId,
    JsonBody { value: request, .. }: JsonBody<UpdateChunkRequest>,
) -> Result<Json<Chunk>, ApiError> {
    let id = number(&id, "chunk")?;
    let leaf = request.category_id;
    let order = CareOrder::MoveChunk { id, leaf };
    categories
        .care(&caller.call, order, request.dry_run)
        .await?;
    let would_be = request.dry_run.then_some(leaf);
    found(&categories, &caller.call, id, would_be).await
}
