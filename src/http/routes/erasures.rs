//! Receipts of deletions.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::erasure::{Erased, Erasures};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::{PathId, QueryParams};
use crate::http::page::{Page, list_query, list_response};
use crate::model::erasure::Erasure;
use crate::store::ErasurePage;

/// What was deleted: the receipt, and the number of items of each kind.
#[derive(Debug, Serialize, ToSchema)]
pub struct RemovalReceipt {
    #[serde(flatten)]
    pub erasure: Erasure,
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

list_query! {
    /// Pagination of the receipts.
    ListErasuresQuery {}
}

list_response! {
    /// A page of receipts, newest first.
    ErasureListResponse of Erasure
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
            erasure: erased.erasure,
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
    let page = Page::new(query.limit, query.cursor, "erasures")?;
    let wanted = ErasurePage {
        before: page.after_item()?,
        limit: page.rows(),
    };
    let found = erasures.list(&caller.call, &wanted).await?;
    let key = |erasure: &Erasure| (erasure.created_at.as_micros(), erasure.id.to_string());
    Ok(page.list(found, key, |erasure| erasure))
}

/// Get a deletion
///
/// Returns the receipt of one deletion.
#[utoipa::path(
    get, path = "/v1/erasures/{id}", tag = "admin", operation_id = "get_erasure",
    params(("id" = String, Path, description = "The id of the receipt.")),
    responses((status = 200, description = "The receipt.", body = Erasure))
)]
pub async fn get_erasure(
    caller: Caller,
    State(erasures): State<Erasures>,
    PathId(id): PathId,
) -> Result<Json<Erasure>, ApiError> {
    Ok(Json(erasures.find(&caller.call, &id).await?))
}
