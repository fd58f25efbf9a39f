//! Receipts of deletions.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::erasure::{Erased, Erasures};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::{PathId, QueryParams};
use crate::http::page;
use crate::model::erasure::Erasure;
use crate::store::ErasurePage;

/// The receipt of a deletion. It is kept without content.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ErasureResponse {
    pub id: String,
    /// `source`, `thread`, `memory`, `user` or `space`.
    #[schema(example = "user")]
    pub kind: String,
    /// A hash that names what was deleted, for those who know its id: SHA-256, in hexadecimal, of four
    /// lines joined by line feeds: `memoir erasure`, the space, the kind and the id.
    pub subject_sha256: String,
    /// Number of rows deleted or emptied, by table.
    pub rows: BTreeMap<String, u64>,
    /// The API key of the request; null if the service requires no keys.
    pub key_id: Option<String>,
    /// The name of that key.
    pub key_name: Option<String>,
    /// The time of the request.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// When everything was deleted; null while some is left.
    #[schema(format = DateTime)]
    pub finished_at: Option<String>,
}

/// What was deleted: the receipt, and the number of items of each kind.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct RemovalReceipt {
    #[serde(flatten)]
    pub erasure: ErasureResponse,
    pub threads: u64,
    /// Messages of threads.
    pub messages: u64,
    /// Facts, preferences and summaries.
    pub memories: u64,
    /// Entries of the keyword index.
    pub terms: u64,
    pub vectors: u64,
    /// Jobs deleted or emptied, with their records of model calls.
    pub jobs: u64,
    /// Stored responses of requests with an `Idempotency-Key`, which were emptied.
    pub stored_responses: u64,
    /// Sources, with their versions.
    pub sources: u64,
    /// SQLite: whether the write-ahead log, which held the deleted text, was emptied. If others were
    /// reading from it, it is emptied shortly. Null for other databases.
    pub log_truncated: Option<bool>,
}

/// Pagination of the receipts.
#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListErasuresQuery {
    /// Maximum number of items on the page.
    #[serde(default)]
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<usize>,
    /// `next_cursor` from the previous page.
    #[serde(default)]
    cursor: Option<String>,
}

/// A page of receipts, newest first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ErasureListResponse {
    pub items: Vec<ErasureResponse>,
    /// Pass it as `cursor` to get the next page; null on the last page.
    pub next_cursor: Option<String>,
}

impl From<Erasure> for ErasureResponse {
    fn from(erasure: Erasure) -> Self {
        Self {
            id: erasure.id.to_string(),
            kind: erasure.kind.into_str().to_owned(),
            subject_sha256: erasure.subject_sha256,
            rows: erasure.rows,
            key_id: erasure.by.key_id,
            key_name: erasure.by.key_name,
            created_at: erasure.created_at.to_string(),
            finished_at: erasure.finished_at.map(|time| time.to_string()),
        }
    }
}

impl From<Erased> for RemovalReceipt {
    fn from(erased: Erased) -> Self {
        let rows = |table: &str| erased.erasure.rows.get(table).copied().unwrap_or(0);
        Self {
            threads: rows("threads"),
            messages: erased.messages,
            memories: erased.memories,
            terms: rows("search_entries"),
            vectors: rows("embeddings"),
            jobs: rows("jobs"),
            stored_responses: rows("idempotency_keys"),
            sources: rows("sources"),
            log_truncated: erased.log_truncated,
            erasure: erased.erasure.into(),
        }
    }
}

/// List deletions
///
/// Returns the receipts of everything that was deleted in this space: sources, threads, memories,
/// users and the space itself. A receipt contains numbers and a hash, and is kept when the space is
/// deleted.
#[utoipa::path(
    get, path = "/v1/erasures", tag = "admin", operation_id = "list_erasures", params(ListErasuresQuery),
    responses((status = 200, description = "A page of receipts.", body = ErasureListResponse))
)]
pub async fn list_erasures(
    caller: Caller,
    State(erasures): State<Erasures>,
    QueryParams(query): QueryParams<ListErasuresQuery>,
) -> Result<Json<ErasureListResponse>, ApiError> {
    let limit = page::limit(query.limit)?;
    let before = page::decode_place(query.cursor.as_deref(), "erasures")?;
    let page = ErasurePage {
        before,
        limit: limit + 1,
    };
    let found = erasures.list(&caller.space, &page).await?;
    let key = |erasure: &Erasure| (erasure.created_at.as_micros(), erasure.id.to_string());
    let (items, next_cursor) = page::cut(found, limit, "erasures", key);
    Ok(Json(ErasureListResponse {
        items: items.into_iter().map(ErasureResponse::from).collect(),
        next_cursor,
    }))
}

/// Get a deletion
///
/// Returns the receipt of one deletion.
#[utoipa::path(
    get, path = "/v1/erasures/{id}", tag = "admin", operation_id = "get_erasure",
    params(("id" = String, Path, description = "The id of the receipt.")),
    responses((status = 200, description = "The receipt.", body = ErasureResponse))
)]
pub async fn get_erasure(
    caller: Caller,
    State(erasures): State<Erasures>,
    PathId(id): PathId,
) -> Result<Json<ErasureResponse>, ApiError> {
    Ok(Json(erasures.find(&caller.space, &id).await?.into()))
}
