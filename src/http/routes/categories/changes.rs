//! Changes of the hierarchy: their list, and renaming a category.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::categories::{Categories, CategoryError};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::{JsonBody, PathId, QueryParams};
use crate::http::page::{Page, list_query, list_response};
use crate::http::routes::chunks::number;
use crate::http::state::AppState;
use crate::model::category::{Category, CategoryChange};

list_response! {
    /// A page of changes, newest first.
    CategoryChangeListResponse of CategoryChange
}

list_query! {
    /// Filters and pagination of the changes.
    ListCategoryChangesQuery {
        /// Only changes that have to do with this category.
        category_id: Option<i64>,
    }
}

/// What to change in a category.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"name": "Lighthouses"}))]
pub struct UpdateCategoryRequest {
    /// At most 100 characters; unique under its parent, ignoring case.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
}

/// List changes of the hierarchy
///
/// Returns what was renamed, moved, merged and removed, newest first; each change can be undone. The
/// embedded model may rename a leaf that has grown, if the name no longer fits most of its chunks. It
/// renames only leaves that it named: a name given by a user or by another model stays. When it files a
/// chunk elsewhere, the job's result lists it.
#[utoipa::path(
    get, path = "/v1/categories/changes", tag = "categories", operation_id = "list_category_changes",
    params(ListCategoryChangesQuery),
    responses((status = 200, description = "A page of changes.", body = CategoryChangeListResponse))
)]
pub async fn list_category_changes(
    caller: Caller,
    State(categories): State<Categories>,
    QueryParams(query): QueryParams<ListCategoryChangesQuery>,
) -> Result<Json<CategoryChangeListResponse>, ApiError> {
    let fingerprint = format!("category changes {:?}", query.category_id);
    let page = Page::new(query.limit, query.cursor, fingerprint)?;
    let before = page.after::<(i64, i64)>()?.map(|(id, _)| id);
    let found = categories
        .changes(&caller.call, query.category_id, before, page.rows())
        .await?;

    let key = |change: &CategoryChange| (change.id, change.category_id);
    Ok(page.list(found, key, |change| change))
}

/// Rename a category
///
/// The change is recorded. Chunks that a model files under the former name are filed in this category,
/// unless another category has that name. No model changes the name of a category that a user has
/// renamed. Stored receipts keep the former name.
#[utoipa::path(
    patch, path = "/v1/categories/{id}", tag = "categories", operation_id = "rename_category",
    request_body = UpdateCategoryRequest, params(("id" = String, Path, description = "The category id.")),
    responses(
        (status = 200, description = "The renamed category.", body = Category),
        (status = 409, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn rename_category(
    caller: Caller,
    State(state): State<AppState>,
    PathId(id): PathId,
    JsonBody { value: request, .. }: JsonBody<UpdateCategoryRequest>,
) -> Result<Json<Category>, ApiError> {
    let id = number(&id, "category")?;
    let renamed = state.store.retry_as("rename_category", || async {
        let mut tx = state.store.begin().await?;
        let wanted = (id, request.name.as_str());
        let category = state
            .categories
            .rename(&mut tx, &caller.call, wanted)
            .await?;
        tx.commit().await?;
        Ok::<_, CategoryError>(category)
    });

    Ok(Json(renamed.await?))
}
