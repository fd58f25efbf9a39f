//! End users: delete everything of one.

use axum::Json;
use axum::extract::State;

use super::threads::RemovalReceipt;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::PathId;
use crate::http::state::AppState;
use crate::sources::SourceError;
use crate::store::{SourceFilter, SourcePage};

/// Sources deleted between two looks at the list.
const PART: usize = 100;

/// Delete a user
///
/// Permanently deletes all data of an end user in this space: threads, messages, memories, sources,
/// jobs and search entries. Returns the number of deleted items, which is 0 for an unknown user.
/// Safe to retry.
#[utoipa::path(
    delete, path = "/v1/users/{user_id}", tag = "conversations", operation_id = "delete_user",
    params(("user_id" = String, Path, description = "The end user.")),
    responses((status = 200, description = "The number of deleted items of each kind.", body = RemovalReceipt))
)]
pub async fn delete_user(
    caller: Caller,
    State(state): State<AppState>,
    PathId(user_id): PathId,
) -> Result<Json<RemovalReceipt>, ApiError> {
    let removed = state
        .conversation
        .remove_user(&caller.space, &user_id)
        .await?;
    let mut receipt = RemovalReceipt::from(removed);
    let filter = SourceFilter {
        user_id: Some(user_id),
        ..SourceFilter::default()
    };

    loop {
        let page = SourcePage {
            limit: PART,
            ..SourcePage::default()
        };
        let found = state.sources.list(&caller.space, &filter, &page).await?;
        for source in &found {
            let id = source.id.to_string();
            let removal = state
                .sources
                .remove(&caller.space, &id, |_| true, caller.now);
            match removal.await {
                Ok(()) => receipt.sources += 1,
                Err(SourceError::NotFound(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }

        if found.len() < PART {
            return Ok(Json(receipt));
        }
    }
}
