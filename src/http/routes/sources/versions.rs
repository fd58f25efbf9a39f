//! The versions of a source, their texts and their chunks.

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::base::clock::Timestamp;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::{PathId, QueryParams};
use crate::http::page::{Page, list_query, list_response};
use crate::http::routes::chunks::{ChunkListResponse, number, page_of};
use crate::http::state::AppState;
use crate::model::chunk::{Chunk, RETRIEVAL, TAXONOMY};
use crate::model::source_version::SourceVersion;
use crate::sources::Sources;
use crate::sources::retrieval::DocumentRetrieval;

/// A version of a source, without its text.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct SourceVersionResponse {
    pub source_id: String,
    /// The version number, starting at 1.
    pub version: i64,
    /// SHA-256 of the stored text.
    pub sha256: String,
    pub size_bytes: i64,
    pub char_count: i64,
    pub token_count: i64,
    /// When the file was last modified, if given.
    #[schema(format = DateTime)]
    pub mtime: Option<String>,
    pub provider: Option<String>,
    pub topic: Option<String>,
    pub note: Option<String>,
    /// Title, author, date, and the settings of the ingestion.
    #[schema(value_type = std::collections::HashMap<String, Value>)]
    pub metadata: Map<String, Value>,
    /// Whether it shares the chunks of an earlier version with the same text.
    pub shares_chunks: bool,
    /// The job that created the version.
    pub job_id: Option<String>,
    #[schema(format = DateTime)]
    pub ingested_at: String,
}

list_response! {
    /// A page of versions, newest first.
    SourceVersionListResponse of SourceVersionResponse
}

impl From<SourceVersion> for SourceVersionResponse {
    fn from(version: SourceVersion) -> Self {
        let facts = version.facts;
        Self {
            source_id: version.source_id.to_string(),
            version: version.version,
            sha256: facts.sha256,
            size_bytes: facts.size_bytes,
            char_count: facts.char_count,
            token_count: facts.token_count,
            mtime: facts.mtime.map(|moment| moment.to_string()),
            provider: facts.provider,
            topic: facts.topic,
            note: facts.note,
            metadata: facts.metadata.as_object().cloned().unwrap_or_default(),
            shares_chunks: version.content_version_id.is_some(),
            job_id: facts.job_id,
            ingested_at: version.ingested_at.to_string(),
        }
    }
}

list_query! {
    /// Pagination of the version list.
    ListVersionsQuery {
        /// Only versions that existed at this time.
        #[param(value_type = Option<String>, format = DateTime)]
        as_of: Option<Timestamp>,
    }
}

/// The purpose of the chunks.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProfileName {
    Taxonomy,
    /// Split for search: longer, and overlapping.
    Retrieval,
}

list_query! {
    /// Filters and pagination of the chunk list.
    SourceChunksQuery {
        /// The version to read; the latest if omitted.
        version: Option<i64>,
        /// `taxonomy` (the default): chunks filed under the hierarchy; `retrieval`: chunks split for
        /// search.
        #[param(inline)]
        profile: Option<ProfileName>,
        /// Reads the version that was current at this time.
        #[param(value_type = Option<String>, format = DateTime)]
        as_of: Option<Timestamp>,
    }
}

/// List the versions of a source
///
/// Returns versions, newest first. Ingesting the same text again also creates a version.
#[utoipa::path(
    get, path = "/v1/sources/{id}/versions", tag = "sources", operation_id = "list_source_versions",
    params(("id" = String, Path, description = "The source's id."), ListVersionsQuery),
    responses((status = 200, description = "A page of versions.", body = SourceVersionListResponse))
)]
pub async fn list_source_versions(
    caller: Caller,
    State(sources): State<Sources>,
    PathId(id): PathId,
    QueryParams(query): QueryParams<ListVersionsQuery>,
) -> Result<Json<SourceVersionListResponse>, ApiError> {
    let as_of = query.as_of;
    let page = Page::new(
        query.limit,
        query.cursor,
        format!("versions of {id} {as_of:?}"),
    )?;
    let before = page.after::<(i64, i64)>()?.map(|(version, _)| version);
    let found = sources
        .versions(&caller.call, &id, before, as_of, page.rows())
        .await?;

    let key = |version: &SourceVersion| (version.version, 0);
    Ok(page.list(found, key, SourceVersionResponse::from))
}

/// Get a version of a source
///
/// Returns the metadata of the version without its text.
#[utoipa::path(
    get, path = "/v1/sources/{id}/versions/{version}", tag = "sources", operation_id = "get_source_version",
    params(("id" = String, Path, description = "The source's id."), ("version" = String, Path, description = "The version number.")),
    responses((status = 200, description = "The version.", body = SourceVersionResponse))
)]
pub async fn get_source_version(
    caller: Caller,
    State(sources): State<Sources>,
    PathId((id, version)): PathId<(String, String)>,
) -> Result<Json<SourceVersionResponse>, ApiError> {
    let found = sources
        .version(&caller.call, &id, number(&version, "version")?)
        .await?;
    Ok(Json(found.into()))
}

/// Get the text of a version
///
/// Returns the text as ingested.
#[utoipa::path(
    get, path = "/v1/sources/{id}/versions/{version}/content", tag = "sources", operation_id = "get_source_content",
    params(("id" = String, Path, description = "The source's id."), ("version" = String, Path, description = "The version number.")),
    responses((status = 200, description = "The text.", body = String, content_type = "text/plain"))
)]
pub async fn get_source_content(
    caller: Caller,
    State(sources): State<Sources>,
    PathId((id, version)): PathId<(String, String)>,
) -> Result<Response, ApiError> {
    let content = sources
        .content(&caller.call, &id, number(&version, "version")?)
        .await?;
    // A browser must not execute the text, whatever it contains.
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];

    Ok((headers, content).into_response())
}

/// Compare two versions of a source
///
/// Returns a unified diff from version `a` to version `b`; empty if their texts are equal.
#[utoipa::path(
    get, path = "/v1/sources/{id}/versions/{a}/diff/{b}", tag = "sources", operation_id = "diff_source_versions",
    params(
        ("id" = String, Path, description = "The source's id."),
        ("a" = String, Path, description = "The number of the old version."),
        ("b" = String, Path, description = "The number of the new version."),
    ),
    responses((status = 200, description = "The unified diff.", body = String, content_type = "text/plain"))
)]
pub async fn diff_source_versions(
    caller: Caller,
    State(documents): State<DocumentRetrieval>,
    PathId((id, a, b)): PathId<(String, String, String)>,
) -> Result<Response, ApiError> {
    let (from, to) = (number(&a, "version")?, number(&b, "version")?);
    let text = documents.difference(&caller.call, &id, from, to).await?;
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];

    Ok((headers, text).into_response())
}

/// List the chunks of a source
///
/// Returns the chunks of the latest or a given version, in text order. The chunks of the profile
/// `taxonomy`, joined, are the complete text. If both profiles cut a text in the same way, as they
/// do with most short texts, its chunks are stored once, as `taxonomy`, and listed for both.
#[utoipa::path(
    get, path = "/v1/sources/{id}/chunks", tag = "sources", operation_id = "list_source_chunks",
    params(("id" = String, Path, description = "The source's id."), SourceChunksQuery),
    responses((status = 200, description = "A page of chunks.", body = ChunkListResponse))
)]
pub async fn list_source_chunks(
    caller: Caller,
    State(state): State<AppState>,
    PathId(id): PathId,
    QueryParams(query): QueryParams<SourceChunksQuery>,
) -> Result<Json<ChunkListResponse>, ApiError> {
    let profile = match query.profile {
        None | Some(ProfileName::Taxonomy) => TAXONOMY,
        Some(ProfileName::Retrieval) => RETRIEVAL,
    };

    let as_of = query.as_of;
    let fingerprint = format!("chunks of {id} {:?} {profile} {as_of:?}", query.version);
    let page = Page::new(query.limit, query.cursor, fingerprint)?;
    let after = page
        .after::<(i64, i64)>()?
        .map_or(0, |(ordinal, _)| ordinal);
    let found = match state
        .sources
        .version_as_of(&caller.call, &id, query.version, as_of)
        .await?
    {
        Some(version) => {
            state
                .sources
                .chunks(&caller.call, &version, profile, after, page.rows())
                .await?
        }
        None => Vec::new(),
    };

    let key = |chunk: &Chunk| (chunk.ordinal, 0);
    page_of((&state.categories, None), &caller.call, &page, found, key).await
}
