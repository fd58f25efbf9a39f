//! End users: delete everything of one.

use axum::Json;
use axum::extract::State;

use super::erasures::RemovalReceipt;
use crate::conversation::checked_user;
use crate::erasure::Erasures;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::PathId;

/// Delete a user
///
/// Permanently deletes all data of an end user in this space: threads, messages, memories, sources,
/// jobs, receipts of queries and search entries. Jobs are cancelled first, so that none creates
/// anything again. What quotes the user's texts elsewhere is emptied: receipts of other callers,
/// stored responses, model outputs. Returns the receipt of the deletion, whose numbers are 0 for an
/// unknown user. Safe to retry.
#[utoipa::path(
    delete, path = "/v1/users/{user_id}", tag = "conversations", operation_id = "delete_user",
    params(("user_id" = String, Path, description = "The end user; white space around it is ignored, as everywhere.")),
    responses((status = 200, description = "What was deleted.", body = RemovalReceipt))
)]
pub async fn delete_user(
    caller: Caller,
    State(erasures): State<Erasures>,
    PathId(user_id): PathId,
) -> Result<Json<RemovalReceipt>, ApiError> {
    let user_id = checked_user(Some(user_id))?;
    let erased = erasures.user(&caller.erasure(), &user_id).await?;
    Ok(Json(erased.into()))
}
