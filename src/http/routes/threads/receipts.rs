//! The receipts of a thread: what a model was handed for each of its turns.

use axum::Json;
use axum::extract::State;

use crate::conversation::Conversation;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::{PathId, QueryParams};
use crate::http::page::{Page, list_query, list_response};
use crate::model::thread_receipt::ThreadReceipt;
use crate::store::ReceiptPage;

list_response! {
    /// A page of receipts.
    ThreadReceiptListResponse of ThreadReceipt
}

list_query! {
    /// Pagination of the receipts.
    ListReceiptsQuery {
        /// The end user; a thread of another user is treated as not found.
        #[serde(default, deserialize_with = "crate::base::user_id::trimmed")]
        user_id: Option<String>,
    }
}

/// List the receipts of a thread
///
/// Returns what a model was handed for each turn that came through `/openai/v1`, newest first: the
/// ids of the memories in the context, without their text. All requests of a turn, such as those of
/// a tool loop, get the same memories and share a receipt.
#[utoipa::path(
    get, path = "/v1/threads/{id}/receipts", tag = "conversations", operation_id = "list_receipts",
    params(("id" = String, Path, description = "The thread's id."), ListReceiptsQuery),
    responses((status = 200, description = "A page of receipts.", body = ThreadReceiptListResponse))
)]
pub async fn list_receipts(
    caller: Caller,
    State(conversation): State<Conversation>,
    PathId(id): PathId,
    QueryParams(query): QueryParams<ListReceiptsQuery>,
) -> Result<Json<ThreadReceiptListResponse>, ApiError> {
    let thread = conversation
        .thread(&caller.call, &id, query.user_id.as_deref())
        .await?;
    let page = Page::new(query.limit, query.cursor, format!("receipts|{}", thread.id))?;
    let wanted = ReceiptPage {
        before: page.after_item()?,
        limit: page.rows(),
    };
    let found = conversation
        .list_receipts(&caller.call, &thread, &wanted)
        .await?;

    let key = |receipt: &ThreadReceipt| (receipt.created_at.as_micros(), receipt.id.clone());
    Ok(page.list(found, key, |receipt| receipt))
}
