//! Chunks: reading one by id, and the wire format of all chunks.

use std::collections::{BTreeSet, HashMap};

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::base::ids::Space;
use crate::categories::Categories;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::PathId;
use crate::http::page;
use crate::model::category::CategoryPath;
use crate::model::chunk::Chunk;

/// A chunk of a source, verbatim.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "chunk_id": 17, "ordinal": 1, "profile": "taxonomy", "text_content": "The lighthouse was built in 1843.",
    "token_count": 9, "start_char": 0, "end_char": 33, "heading": "The coast › Lighthouses", "category_id": 5,
    "category_path": ["Coast", "Lighthouses", "History"], "source_id": "0199a7e0-1c2d-7000-8000-000000000000",
    "source_version": 1, "created_at": "2026-01-31T12:00:00.000000Z"
}))]
pub struct ChunkResponse {
    pub chunk_id: i64,
    /// Position in the source, starting at 1.
    pub ordinal: i64,
    /// `taxonomy`: filed under the hierarchy; `retrieval`: split for search.
    pub profile: String,
    /// The chunk, verbatim.
    pub text_content: String,
    pub token_count: i64,
    /// Start offset in the text of the version, in characters.
    pub start_char: i64,
    /// End offset in characters, exclusive.
    pub end_char: i64,
    /// The headings above the chunk, highest first, separated by ` › `; null if there is none.
    pub heading: Option<String>,
    /// The leaf it is filed under.
    pub category_id: Option<i64>,
    /// Names from level 1 to the leaf.
    pub category_path: Vec<String>,
    pub source_id: String,
    /// The source version that created the chunk; later versions with the same text share it.
    pub source_version: i64,
    #[schema(format = DateTime)]
    pub created_at: String,
}

/// A page of chunks.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ChunkListResponse {
    pub items: Vec<ChunkResponse>,
    /// Pass it as `cursor` to get the next page; null on the last page.
    pub next_cursor: Option<String>,
}

impl ChunkResponse {
    fn new(chunk: Chunk, paths: &HashMap<i64, CategoryPath>) -> Self {
        let path = chunk.category_id.and_then(|id| paths.get(&id));
        Self {
            chunk_id: chunk.id,
            ordinal: chunk.ordinal,
            profile: chunk.profile,
            text_content: chunk.text,
            token_count: chunk.token_count,
            start_char: chunk.start_char,
            end_char: chunk.end_char,
            heading: chunk.heading,
            category_id: chunk.category_id,
            category_path: path
                .map(|path| path.iter().map(|(_, name)| name.clone()).collect())
                .unwrap_or_default(),
            source_id: chunk.source_id.to_string(),
            source_version: chunk.source_version,
            created_at: chunk.created_at.to_string(),
        }
    }
}

/// Builds a page from a list that was read one item longer than the page.
pub async fn page_of<K: Serialize>(
    categories: &Categories,
    space: &Space,
    found: Vec<Chunk>,
    limit: usize,
    fingerprint: &str,
    key: impl Fn(&Chunk) -> K,
) -> Result<Json<ChunkListResponse>, ApiError> {
    let (chunks, next_cursor) = page::cut(found, limit, fingerprint, key);
    let leaves: BTreeSet<i64> = chunks
        .iter()
        .filter_map(|chunk| chunk.category_id)
        .collect();

    let leaves: Vec<i64> = leaves.into_iter().collect();
    let paths = categories.paths(space, &leaves).await?;
    let items = chunks
        .into_iter()
        .map(|chunk| ChunkResponse::new(chunk, &paths))
        .collect();

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
    responses((status = 200, description = "The chunk.", body = ChunkResponse))
)]
pub async fn get_chunk(
    caller: Caller,
    State(categories): State<Categories>,
    PathId(id): PathId,
) -> Result<Json<ChunkResponse>, ApiError> {
    let number = number(&id, "chunk")?;
    let found = categories.find_chunk(&caller.space, number).await?;
    let chunk = found
        .ok_or_else(|| ApiError::not_found(format!("there is no chunk {number} in this space")))?;
    let leaf: Vec<i64> = chunk.category_id.into_iter().collect();
    let paths = categories.paths(&caller.space, &leaf).await?;

    Ok(Json(ChunkResponse::new(chunk, &paths)))
}
