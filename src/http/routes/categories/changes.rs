//! Changes of the hierarchy: their list, and renaming a category.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::CategoryResponse;
use crate::categories::{Categories, CategoryError};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::{JsonBody, PathId, QueryParams};
use crate::http::page;
use crate::http::routes::chunks::number;
use crate::http::state::AppState;
use crate::model::category::CategoryChange;

/// A change of the hierarchy.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "id": 3, "category_id": 5, "kind": "rename", "from": "Boiler service", "to": "Radiators",
    "actor": "embedded", "reason": "the former name fitted 9 of 32 chunks, the new one fits 27",
    "created_at": "2026-01-31T12:00:00.000000Z"
}))]
pub struct CategoryChangeResponse {
    pub id: i64,
    /// The category, which may have been deleted since.
    pub category_id: i64,
    /// `rename`.
    pub kind: String,
    /// The former name.
    pub from: String,
    /// The new name.
    pub to: String,
    /// Who made the change: `user`, or `embedded` for the embedded model.
    pub actor: String,
    /// Why the embedded model made the change; null for a change by a user.
    pub reason: Option<String>,
    #[schema(format = DateTime)]
    pub created_at: String,
}

/// A page of changes, newest first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct CategoryChangeListResponse {
    pub items: Vec<CategoryChangeResponse>,
    /// Pass it as `cursor` to get the next page; null on the last page.
    pub next_cursor: Option<String>,
}

/// Filters and pagination of the changes.
#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListCategoryChangesQuery {
    /// Only changes of this category.
    #[serde(default)]
    category_id: Option<i64>,
    /// Maximum number of items on the page.
    #[serde(default)]
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<usize>,
    /// `next_cursor` from the previous page.
    #[serde(default)]
    cursor: Option<String>,
}

/// What to change in a category.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"name": "Lighthouses"}))]
pub struct UpdateCategoryRequest {
    /// At most 100 characters; unique under its parent, ignoring case.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
}

impl From<&CategoryChange> for CategoryChangeResponse {
    fn from(change: &CategoryChange) -> Self {
        Self {
            id: change.id,
            category_id: change.category_id,
            kind: change.kind.clone(),
            from: name_in(&change.before_json),
            to: name_in(&change.after_json),
            actor: change.actor.clone(),
            reason: change.reason.clone(),
            created_at: change.created_at.to_string(),
        }
    }
}

/// The name in the stored state of a category.
fn name_in(state: &str) -> String {
    let state: serde_json::Value = serde_json::from_str(state).unwrap_or_default();
    state["name"].as_str().unwrap_or_default().to_owned()
}

/// List changes of the hierarchy
///
/// Returns the renamed categories, newest first. The embedded model may rename a leaf that has grown,
/// if the name no longer fits most of its chunks. It renames only leaves that it named: a name given
/// by a user or by another model stays.
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
    let limit = page::limit(query.limit)?;
    let fingerprint = format!("category changes {:?}", query.category_id);
    let before = page::decode_numbers(query.cursor.as_deref(), &fingerprint)?;
    let found = categories
        .changes(
            &caller.space,
            query.category_id,
            before.map(|(id, _)| id),
            limit + 1,
        )
        .await?;

    let (items, next_cursor) = page::cut(found, limit, &fingerprint, |change| {
        (change.id, change.category_id)
    });
    Ok(Json(CategoryChangeListResponse {
        items: items.iter().map(CategoryChangeResponse::from).collect(),
        next_cursor,
    }))
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
        (status = 200, description = "The renamed category.", body = CategoryResponse),
        (status = 409, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn rename_category(
    caller: Caller,
    State(state): State<AppState>,
    PathId(id): PathId,
    JsonBody { value: request, .. }: JsonBody<UpdateCategoryRequest>,
) -> Result<Json<CategoryResponse>, ApiError> {
    let id = number(&id, "category")?;
    let renamed = state.store.retry_as("rename_category", || async {
        let mut tx = state.store.begin().await?;
        let wanted = (id, request.name.as_str());
        let category = state
            .categories
            .rename(&mut tx, &caller.space, wanted, caller.now)
            .await?;
        tx.commit().await?;
        Ok::<_, CategoryError>(category)
    });

    Ok(Json(CategoryResponse::from(&renamed.await?)))
}
