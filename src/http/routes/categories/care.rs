//! Care of the hierarchy: categories are merged, moved, split and removed, proposals are listed, and changes
//! are undone.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::categories::Categories;
use crate::categories::care::{CareOrder, CareOutcome, ReviewItem};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::{JsonBody, OptionalJsonBody, PathId, QueryParams};
use crate::http::idempotency::Idempotency;
use crate::http::routes::chunks::number;
use crate::http::state::AppState;
use crate::store::Tx;

/// Which category takes the place of another one.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"into": 9, "dry_run": true}))]
pub struct MergeCategoryRequest {
    /// A category of the same level.
    pub into: i64,
    /// Report what would change, without changing it.
    #[serde(default)]
    pub dry_run: bool,
}

/// Where a category goes.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"parent_id": 2, "dry_run": true}))]
pub struct MoveCategoryRequest {
    /// A category one level above.
    pub parent_id: i64,
    /// Report what would change, without changing it.
    #[serde(default)]
    pub dry_run: bool,
}

/// Whether to split a category, or to report how.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"dry_run": true}))]
pub struct SplitCategoryRequest {
    /// Report what would change, without changing it.
    #[serde(default)]
    pub dry_run: bool,
}

/// Whether to undo a change, or to report what that would do.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"dry_run": true}))]
pub struct UndoChangeRequest {
    /// Report what would change, without changing it.
    #[serde(default)]
    pub dry_run: bool,
}

/// Proposals for the hierarchy.
#[derive(Debug, Serialize, ToSchema)]
pub struct CategoryReviewResponse {
    /// At most 50 of each kind.
    pub items: Vec<ReviewItem>,
}

/// What becomes of the contents.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DeleteCategoryQuery {
    /// A category of the same level that gets everything below the deleted one.
    into: Option<i64>,
    /// Report what would change, without changing it; the response is then 200.
    dry_run: Option<bool>,
}

/// Merge a category into another
///
/// The other category gets all children and chunks, including those of earlier versions, and takes the
/// place of this one: texts that a model files under the former name go there. Children with equal names
/// are merged as well. The merged category is closed; requests with an earlier `as_of` still show it.
#[utoipa::path(
    post, path = "/v1/categories/{id}/merge", tag = "categories", operation_id = "merge_category",
    request_body = MergeCategoryRequest, params(("id" = String, Path, description = "The id of the category to merge."),
        ("Idempotency-Key" = Option<String>, Header, description = "A repeat of the request with the same key and body within 24 hours returns the first response.")),
    responses((status = 200, description = "What has changed, or would change.", body = CareOutcome))
)]
pub async fn merge_category(
    caller: Caller,
    State(state): State<AppState>,
    PathId(id): PathId,
    headers: HeaderMap,
    body: JsonBody<MergeCategoryRequest>,
) -> Result<Response, ApiError> {
    let key = key_of(&headers, "merge_category", &id, &body)?;
    let order = CareOrder::Merge {
        id: number(&id, "category")?,
        into: body.value.into,
    };
    change(&state, &caller, &key, order, body.value.dry_run).await
}

/// Move a category
///
/// Puts the category with everything below it under another parent. It keeps its level. Texts that a
/// model files under its former path go to the moved category.
#[utoipa::path(
    post, path = "/v1/categories/{id}/move", tag = "categories", operation_id = "move_category",
    request_body = MoveCategoryRequest, params(("id" = String, Path, description = "The category id."),
        ("Idempotency-Key" = Option<String>, Header, description = "A repeat of the request with the same key and body within 24 hours returns the first response.")),
    responses(
        (status = 200, description = "What has changed, or would change.", body = CareOutcome),
        (status = 409, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn move_category(
    caller: Caller,
    State(state): State<AppState>,
    PathId(id): PathId,
    headers: HeaderMap,
    body: JsonBody<MoveCategoryRequest>,
) -> Result<Response, ApiError> {
    let key = key_of(&headers, "move_category", &id, &body)?;
    let order = CareOrder::Move {
        id: number(&id, "category")?,
        parent_id: body.value.parent_id,
    };
    change(&state, &caller, &key, order, body.value.dry_run).await
}

/// Split a category
///
/// The embedded model groups the chunks of a leaf, or the children of another category, by what they are
/// about. The largest group stays, each other group gets a new category beside it. A large leaf of one
/// source, or one whose chunks cannot be told apart, is split by position: "Chapter 1 (2)". Chunks that a
/// person has moved stay, and so do those of earlier versions. Level 1 is never split, unless
/// it is the only level (`taxonomy.hierarchy_depth = 1`): its categories are split as leaves are.
#[utoipa::path(
    post, path = "/v1/categories/{id}/split", tag = "categories", operation_id = "split_category",
    request_body = SplitCategoryRequest, params(("id" = String, Path, description = "The id of the category."),
        ("Idempotency-Key" = Option<String>, Header, description = "A repeat of the request with the same key and body within 24 hours returns the first response.")),
    responses((status = 200, description = "What has changed, or would change.", body = CareOutcome))
)]
pub async fn split_category(
    caller: Caller,
    State(state): State<AppState>,
    PathId(id): PathId,
    headers: HeaderMap,
    body: JsonBody<SplitCategoryRequest>,
) -> Result<Response, ApiError> {
    let key = key_of(&headers, "split_category", &id, &body)?;
    // Before the leaf is read, which may be closed.
    if let Some(response) = key.answered(&state.store, &caller).await? {
        return Ok(response);
    }

    let id = number(&id, "category")?;
    let parts = state.categories.plan_split(&caller.call, id).await?;
    let order = CareOrder::Split { id, parts: &parts };
    change(&state, &caller, &key, order, body.value.dry_run).await
}

/// Review the hierarchy
///
/// Proposes what to change, each with its evidence and the request that applies it: siblings whose names
/// have the same words, leaves of one chunk, leaves with too many chunks, categories with too many children,
/// and names that fit few chunks of their leaf. What memoir does not do on its own is changed only by that
/// request (`taxonomy.auto_care`).
#[utoipa::path(
    get, path = "/v1/categories/review", tag = "categories", operation_id = "review_categories",
    responses((status = 200, description = "The proposals.", body = CategoryReviewResponse))
)]
pub async fn review_categories(
    caller: Caller,
    State(categories): State<Categories>,
) -> Result<Json<CategoryReviewResponse>, ApiError> {
    let items = categories.review(&caller.call).await?;
    Ok(Json(CategoryReviewResponse { items }))
}

/// Delete a category
///
/// Closes the category and its descendants. Returns 409 if any of them contains a chunk, including
/// chunks of earlier versions, unless `into` names a category of the same level that gets them; then
/// this is a merge. The deletion is listed as a change and can be undone. Requests with an earlier
/// `as_of` still show the category, and receipts keep its name.
#[utoipa::path(
    delete, path = "/v1/categories/{id}", tag = "categories", operation_id = "delete_category",
    params(("id" = String, Path, description = "The category id."), DeleteCategoryQuery),
    responses(
        (status = 200, description = "What would change, with `dry_run`.", body = CareOutcome),
        (status = 204, description = "The category is deleted."),
        (status = 409, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn delete_category(
    caller: Caller,
    State(categories): State<Categories>,
    PathId(id): PathId,
    QueryParams(query): QueryParams<DeleteCategoryQuery>,
) -> Result<Response, ApiError> {
    let order = CareOrder::Remove {
        id: number(&id, "category")?,
        into: query.into,
    };
    let dry_run = query.dry_run.unwrap_or(false);
    let outcome = categories.care(&caller.call, order, dry_run).await?;
    Ok(if dry_run {
        Json(outcome).into_response()
    } else {
        StatusCode::NO_CONTENT.into_response()
    })
}

/// Undo a change of the hierarchy
///
/// Restores what the change altered. Returns 409 `change_conflicts` if a later change contradicts it or
/// moved the same chunks. Chunks that the embedded model has filed elsewhere since stay there.
#[utoipa::path(
    post, path = "/v1/categories/changes/{id}/undo", tag = "categories", operation_id = "undo_category_change",
    request_body = Option<UndoChangeRequest>, params(("id" = String, Path, description = "The id of the change."),
        ("Idempotency-Key" = Option<String>, Header, description = "A repeat of the request with the same key and body within 24 hours returns the first response.")),
    responses(
        (status = 200, description = "What has changed, or would change.", body = CareOutcome),
        (status = 409, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn undo_change(
    caller: Caller,
    State(state): State<AppState>,
    PathId(id): PathId,
    headers: HeaderMap,
    OptionalJsonBody(body): OptionalJsonBody<UndoChangeRequest>,
) -> Result<Response, ApiError> {
    let key = key_of(&headers, "undo_category_change", &id, &body)?;
    let order = CareOrder::Undo {
        change: number(&id, "change")?,
    };
    change(&state, &caller, &key, order, body.value.dry_run).await
}

/// The key of a request about one category or change: the same body may be sent to another one.
fn key_of<T>(
    headers: &HeaderMap,
    route: &'static str,
    id: &str,
    body: &JsonBody<T>,
) -> Result<Idempotency, ApiError> {
    let signed = [id.as_bytes(), b"\n", &body.bytes].concat();
    Idempotency::of(headers, route, &signed)
}

/// Changes the hierarchy, once for each key.
async fn change(
    state: &AppState,
    caller: &Caller,
    key: &Idempotency,
    order: CareOrder<'_>,
    dry_run: bool,
) -> Result<Response, ApiError> {
    let work = |tx: Tx| async move {
        let done = state
            .categories
            .care_by_user(tx, &caller.call, order, dry_run);
        Ok(done.await?)
    };
    key.change(state, caller, work).await
}
