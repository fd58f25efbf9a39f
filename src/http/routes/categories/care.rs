//! Care of the hierarchy: merging, moving and removing categories, and undoing changes.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::categories::Categories;
use crate::categories::care::{CareOrder, CareOutcome};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::{JsonBody, PathId, QueryParams};
use crate::http::routes::chunks::number;

/// Which category takes the place of another one.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"into": 9, "dry_run": true}))]
pub struct MergeCategoryRequest {
    /// A category of the same level.
    pub into: i64,
    /// Only say what would change.
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
    /// Only say what would change.
    #[serde(default)]
    pub dry_run: bool,
}

/// What becomes of the contents.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DeleteCategoryQuery {
    /// A category of the same level that gets everything below the deleted one.
    into: Option<i64>,
}

/// Merge a category into another
///
/// The other category gets all children and chunks, including those of earlier versions, and takes the
/// place of this one: texts that a model files under the former name go there. Children with equal names
/// are merged as well. The merged category is closed; requests with an earlier `as_of` still show it.
#[utoipa::path(
    post, path = "/v1/categories/{id}/merge", tag = "categories", operation_id = "merge_category",
    request_body = MergeCategoryRequest, params(("id" = String, Path, description = "The id of the category to merge.")),
    responses((status = 200, description = "What has changed, or would change.", body = CareOutcome))
)]
pub async fn merge_category(
    caller: Caller,
    State(categories): State<Categories>,
    PathId(id): PathId,
    JsonBody { value: request, .. }: JsonBody<MergeCategoryRequest>,
) -> Result<Json<CareOutcome>, ApiError> {
    let order = CareOrder::Merge {
        id: number(&id, "category")?,
        into: request.into,
    };
    let done = categories.care(&caller.call, order, request.dry_run);
    Ok(Json(done.await?))
}

/// Move a category
///
/// Puts the category with everything below it under another parent. It keeps its level. Texts that a
/// model files under its former path go to the moved category.
#[utoipa::path(
    post, path = "/v1/categories/{id}/move", tag = "categories", operation_id = "move_category",
    request_body = MoveCategoryRequest, params(("id" = String, Path, description = "The category id.")),
    responses(
        (status = 200, description = "What has changed, or would change.", body = CareOutcome),
        (status = 409, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn move_category(
    caller: Caller,
    State(categories): State<Categories>,
    PathId(id): PathId,
    JsonBody { value: request, .. }: JsonBody<MoveCategoryRequest>,
) -> Result<Json<CareOutcome>, ApiError> {
    let order = CareOrder::Move {
        id: number(&id, "category")?,
        parent_id: request.parent_id,
    };
    let done = categories.care(&caller.call, order, request.dry_run);
    Ok(Json(done.await?))
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
        (status = 204, description = "The category is deleted."),
        (status = 409, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn delete_category(
    caller: Caller,
    State(categories): State<Categories>,
    PathId(id): PathId,
    QueryParams(query): QueryParams<DeleteCategoryQuery>,
) -> Result<StatusCode, ApiError> {
    let order = CareOrder::Remove {
        id: number(&id, "category")?,
        into: query.into,
    };
    categories.care(&caller.call, order, false).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Undo a change of the hierarchy
///
/// Restores what the change altered. Returns 409 `change_conflicts` if a later change contradicts it.
/// Chunks that were moved again since stay where they are.
#[utoipa::path(
    post, path = "/v1/categories/changes/{id}/undo", tag = "categories", operation_id = "undo_category_change",
    params(("id" = String, Path, description = "The id of the change.")),
    responses(
        (status = 200, description = "What has changed.", body = CareOutcome),
        (status = 409, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn undo_change(
    caller: Caller,
    State(categories): State<Categories>,
    PathId(id): PathId,
) -> Result<Json<CareOutcome>, ApiError> {
    let order = CareOrder::Undo {
        change: number(&id, "change")?,
    };
    Ok(Json(categories.care(&caller.call, order, false).await?))
}
