//! The manifest: every known file with the metadata of its newest version, for comparing a folder
//! with the store.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::sources::ListSourcesQuery;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::QueryParams;
use crate::http::page::list_response;
use crate::model::source::SourceKind;
use crate::model::version_search::ManifestEntry;
use crate::sources::retrieval::DocumentRetrieval;

/// A file and its newest version.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "source_id": "0199a7e0-1c2d-7000-8000-000000000000", "user_id": "default", "path": "/docs/plan.md",
    "filename": "plan.md", "kind": "file_ingest", "type": "md",
    "sha256": "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824", "size_bytes": 5,
    "mtime": "2026-01-31T12:00:00.000000Z", "tags": ["file_ingest", "design"], "eligible": true, "latest_version": 3,
    "ingested_at": "2026-01-31T12:00:00.000000Z"
}))]
pub struct ManifestEntryResponse {
    pub source_id: String,
    pub user_id: String,
    pub path: String,
    pub filename: String,
    /// Always `file_ingest`.
    #[schema(value_type = String)]
    pub kind: SourceKind,
    /// The file type, from the extension.
    #[serde(rename = "type")]
    pub file_type: String,
    /// SHA-256 of the stored text; null until the first ingestion.
    pub sha256: Option<String>,
    pub size_bytes: Option<i64>,
    /// When the file was last modified, if given.
    #[schema(format = DateTime)]
    pub mtime: Option<String>,
    pub tags: Vec<String>,
    /// Whether retrieval may use the source.
    pub eligible: bool,
    /// 0 until the first ingestion.
    pub latest_version: i64,
    /// When the newest version was ingested.
    #[schema(format = DateTime)]
    pub ingested_at: Option<String>,
}

list_response! {
    /// A page of the manifest, in the order of `sort`.
    ManifestResponse of ManifestEntryResponse
}

impl From<ManifestEntry> for ManifestEntryResponse {
    fn from(entry: ManifestEntry) -> Self {
        let (source, version) = (entry.source, entry.version);
        let facts = version.as_ref().map(|version| &version.facts);
        Self {
            sha256: facts.map(|facts| facts.sha256.clone()),
            size_bytes: facts.map(|facts| facts.size_bytes),
            mtime: facts
                .and_then(|facts| facts.mtime)
                .map(|moment| moment.to_string()),
            ingested_at: version
                .as_ref()
                .map(|version| version.ingested_at.to_string()),
            source_id: source.id.to_string(),
            user_id: source.user_id,
            path: source.path,
            filename: source.filename,
            kind: source.kind,
            file_type: source.file_type,
            tags: source.tags,
            eligible: source.eligible,
            latest_version: source.latest_version,
        }
    }
}

/// Get the manifest
///
/// Lists every source with its path, hash, size, modification time, type and tags, so that a client
/// can compare a folder with the store.
#[utoipa::path(
    get, path = "/v1/manifest", tag = "documents", operation_id = "get_manifest", params(ListSourcesQuery),
    responses((status = 200, description = "A page of the manifest.", body = ManifestResponse))
)]
pub async fn get_manifest(
    caller: Caller,
    State(documents): State<DocumentRetrieval>,
    QueryParams(query): QueryParams<ListSourcesQuery>,
) -> Result<Json<ManifestResponse>, ApiError> {
    let listing = query.listing("manifest ")?;
    let found = documents
        .manifest(&caller.call, &listing.filter, &listing.page)
        .await?;

    let (items, next_cursor) = listing.cut(found, None, |entry| {
        let version = entry.version.as_ref();
        (
            &entry.source,
            version.map(|version| version.facts.size_bytes),
        )
    });
    let items = items.into_iter().map(ManifestEntryResponse::from).collect();
    Ok(Json(ManifestResponse { items, next_cursor }))
}
