//! The hierarchy: lists, the whole tree, single categories and their chunks, and manual creation.

mod changes;

pub use changes::{
    __path_list_category_changes, __path_rename_category, list_category_changes, rename_category,
};

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::chunks::{ChunkListResponse, number, page_of};
use super::sources::AsOfQuery;
use crate::base::ids::Space;
use crate::categories::{Categories, CategoryInput};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::{JsonBody, PathId, QueryParams, moment};
use crate::http::idempotency::{Begun, Idempotency, location};
use crate::http::page;
use crate::http::state::AppState;
use crate::model::category::Category;
use crate::model::chunk::Chunk;
use crate::store::{CategoryFilter, CategoryPage, ChunkScope};

/// A category.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "id": 5, "parent_id": 2, "level": 3, "name": "History", "chunk_count": 12,
    "created_at": "2026-01-31T12:00:00.000000Z"
}))]
pub struct CategoryResponse {
    pub id: i64,
    /// The id of the parent; null on level 1.
    pub parent_id: Option<i64>,
    /// The level, starting at 1.
    pub level: i64,
    pub name: String,
    /// Number of chunks in it and its descendants, from the latest versions of the sources.
    pub chunk_count: i64,
    /// When the category was created. If older chunks were moved into it, the time of the oldest of
    /// them.
    #[schema(format = DateTime)]
    pub created_at: String,
}

/// A category and its path.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct CategoryDetailResponse {
    #[serde(flatten)]
    pub category: CategoryResponse,
    /// Names from level 1 to this category.
    pub path: Vec<String>,
    /// Ids from level 1 to this category.
    pub path_ids: Vec<i64>,
}

/// A page of categories, sorted by level and then by age, oldest first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct CategoryListResponse {
    pub items: Vec<CategoryResponse>,
    /// Pass it as `cursor` to get the next page; null on the last page.
    pub next_cursor: Option<String>,
}

/// A page of the whole hierarchy as a flat list, parents before their children.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct CategoryTreeResponse {
    pub items: Vec<CategoryResponse>,
    /// Pass it as `cursor` to get the next page; null on the last page.
    pub next_cursor: Option<String>,
    /// Number of levels.
    pub depth: i64,
    /// What limits count: all categories of a `level`, or the children of one `parent`.
    #[schema(example = "parent")]
    pub limit_scope: String,
    /// The number of categories and the limit of each level.
    pub levels: Vec<CategoryLevelResponse>,
    /// With limits per parent: the parents that are full now, at most 100. New subjects below them are
    /// filed under existing categories.
    pub full_parents: Vec<FullParentResponse>,
}

/// A parent that has as many children as its limit allows.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct FullParentResponse {
    /// The parent category; null if level 1 is full.
    pub id: Option<i64>,
    /// Names from level 1 down to the parent; empty if level 1 is full.
    pub path: Vec<String>,
    /// Number of its children.
    pub categories: i64,
    /// Maximum number of its children.
    pub limit: i64,
}

/// The number of categories on a level and its limit.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct CategoryLevelResponse {
    pub level: i64,
    pub categories: i64,
    /// Maximum number of categories on the level, or per parent, depending on `limit_scope`.
    pub limit: i64,
}

/// A category to create manually.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"name": "Lighthouses", "parent_id": 2}))]
pub struct CreateCategoryRequest {
    /// The name; unique under its parent, ignoring case.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
    /// The parent category; omit it on level 1.
    #[serde(default)]
    pub parent_id: Option<i64>,
    /// The level; derived from the parent if omitted.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 100)]
    pub level: Option<i64>,
}

/// Filters and pagination of the category list.
#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListCategoriesQuery {
    /// Only children of this category.
    #[serde(default)]
    parent_id: Option<i64>,
    /// Only categories on this level; 1 is the highest.
    #[serde(default)]
    level: Option<i64>,
    /// Shows the hierarchy as it was at this time, with the source versions that were current then.
    #[serde(default)]
    #[param(format = DateTime)]
    as_of: Option<String>,
    /// Maximum number of items on the page.
    #[serde(default)]
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<usize>,
    /// `next_cursor` from the previous page.
    #[serde(default)]
    cursor: Option<String>,
}

/// Pagination of the hierarchy.
#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct TreeQuery {
    /// Shows the hierarchy as it was at this time, with the source versions that were current then.
    #[serde(default)]
    #[param(format = DateTime)]
    as_of: Option<String>,
    /// Maximum number of items on the page.
    #[serde(default)]
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<usize>,
    /// `next_cursor` from the previous page.
    #[serde(default)]
    cursor: Option<String>,
}

/// Filters and pagination of the chunks of a category.
#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CategoryChunksQuery {
    /// `latest`: chunks of the current versions only; `all`: chunks of earlier versions too.
    #[serde(default)]
    #[param(inline)]
    version_scope: Option<VersionScopeName>,
    /// Returns chunks of the source versions that were current at this time.
    #[serde(default)]
    #[param(format = DateTime)]
    as_of: Option<String>,
    /// Maximum number of items on the page.
    #[serde(default)]
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<usize>,
    /// `next_cursor` from the previous page.
    #[serde(default)]
    cursor: Option<String>,
}

/// Which versions of the sources to include.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum VersionScopeName {
    Latest,
    All,
}

impl From<&Category> for CategoryResponse {
    fn from(category: &Category) -> Self {
        Self {
            id: category.id,
            parent_id: category.parent_id,
            level: category.level,
            name: category.name.clone(),
            chunk_count: category.chunk_count,
            created_at: category.created_at.to_string(),
        }
    }
}

async fn list(
    categories: &Categories,
    space: &Space,
    filter: &CategoryFilter,
    limit: Option<usize>,
    cursor: Option<&str>,
) -> Result<(Vec<CategoryResponse>, Option<String>), ApiError> {
    let limit = page::limit(limit)?;
    let fingerprint = format!("{filter:?}");
    let after = page::decode_numbers(cursor, &fingerprint)?;
    let page = CategoryPage {
        after,
        limit: Some(limit + 1),
    };

    let found = categories.list(space, filter, &page).await?;
    let (items, next_cursor) = page::cut(found, limit, &fingerprint, |category| {
        (category.level, category.id)
    });
    Ok((
        items.iter().map(CategoryResponse::from).collect(),
        next_cursor,
    ))
}

/// List categories
///
/// Returns all categories, or only those under one parent or on one level.
#[utoipa::path(
    get, path = "/v1/categories", tag = "categories", operation_id = "list_categories", params(ListCategoriesQuery),
    responses((status = 200, description = "A page of categories.", body = CategoryListResponse))
)]
pub async fn list_categories(
    caller: Caller,
    State(categories): State<Categories>,
    QueryParams(query): QueryParams<ListCategoriesQuery>,
) -> Result<Json<CategoryListResponse>, ApiError> {
    let as_of = moment("as_of", query.as_of.as_deref())?;
    let filter = CategoryFilter {
        parent_id: query.parent_id,
        level: query.level,
        as_of,
    };

    let listed = list(
        &categories,
        &caller.space,
        &filter,
        query.limit,
        query.cursor.as_deref(),
    )
    .await?;

    Ok(Json(CategoryListResponse {
        items: listed.0,
        next_cursor: listed.1,
    }))
}

/// Get the whole hierarchy
///
/// Returns a flat list, parents before their children, with the number of categories and the limit
/// of each level, and the parents that are full.
#[utoipa::path(
    get, path = "/v1/categories/tree", tag = "categories", operation_id = "get_category_tree", params(TreeQuery),
    responses((status = 200, description = "A page of the hierarchy.", body = CategoryTreeResponse))
)]
pub async fn get_category_tree(
    caller: Caller,
    State(categories): State<Categories>,
    QueryParams(query): QueryParams<TreeQuery>,
) -> Result<Json<CategoryTreeResponse>, ApiError> {
    let as_of = moment("as_of", query.as_of.as_deref())?;
    let filter = CategoryFilter {
        as_of,
        ..CategoryFilter::default()
    };

    let listed = list(
        &categories,
        &caller.space,
        &filter,
        query.limit,
        query.cursor.as_deref(),
    )
    .await?;

    let taxonomy = categories.taxonomy();
    let counts = categories.counts(&caller.space, as_of).await?;
    let full = |(level, categories)| CategoryLevelResponse {
        level,
        categories,
        limit: taxonomy.limit(level),
    };

    Ok(Json(CategoryTreeResponse {
        items: listed.0,
        next_cursor: listed.1,
        depth: taxonomy.depth(),
        limit_scope: taxonomy.scope().into_str().to_owned(),
        levels: counts.into_iter().map(full).collect(),
        full_parents: full_parents(&categories, &caller.space).await?,
    }))
}

async fn full_parents(
    categories: &Categories,
    space: &Space,
) -> Result<Vec<FullParentResponse>, ApiError> {
    let full = categories.full_parents(space).await?;
    let ids: Vec<i64> = full
        .iter()
        .map(|(id, _)| *id)
        .filter(|id| *id != 0)
        .collect();
    let mut paths = categories.paths(space, &ids).await?;
    let limit = categories.taxonomy().limit(1);

    let parent = |(id, categories)| FullParentResponse {
        id: Some(id).filter(|id| *id != 0),
        path: paths.remove(&id).map_or_else(Vec::new, |path| {
            path.into_iter().map(|(_, name)| name).collect()
        }),
        categories,
        limit,
    };
    Ok(full.into_iter().map(parent).collect())
}

/// Create a category
///
/// Creates a category manually, before any text is filed under it. Names that differ only in case,
/// character width or spacing are considered equal.
#[utoipa::path(
    post, path = "/v1/categories", tag = "categories", operation_id = "create_category", request_body = CreateCategoryRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "A repeat of the request with the same key and body within 24 hours returns the first response.")),
    responses(
        (status = 201, description = "The new category.", body = CategoryResponse, headers(("Location" = String, description = "The URL of the new category."))),
        (status = 409, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn create_category(
    caller: Caller,
    State(state): State<AppState>,
    headers: HeaderMap,
    JsonBody {
        value: request,
        bytes,
        ..
    }: JsonBody<CreateCategoryRequest>,
) -> Result<Response, ApiError> {
    let idempotency = Idempotency::of(&headers, "create_category", &bytes)?;
    let input = CategoryInput {
        name: request.name,
        parent_id: request.parent_id,
        level: request.level,
    };

    let created = state.store.retry_as("create_category", || async {
        let mut tx = match idempotency.begin(&state.store, &caller).await? {
            Begun::Answered(response) => return Ok(response),
            Begun::Fresh(tx) => tx,
        };

        let category = state
            .categories
            .create(&mut tx, &caller.space, input.clone(), caller.now)
            .await?;

        let unkept = (header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let headers = [
            location(&format!("/v1/categories/{}", category.id))?,
            unkept,
        ];

        let body = CategoryResponse::from(&category);
        idempotency
            .finish(tx, &caller, StatusCode::CREATED, headers, &body)
            .await
    });

    Ok(created.await?)
}

/// Get a category
///
/// Returns the category and its path.
#[utoipa::path(
    get, path = "/v1/categories/{id}", tag = "categories", operation_id = "get_category",
    params(("id" = String, Path, description = "The category id."), AsOfQuery),
    responses((status = 200, description = "The category.", body = CategoryDetailResponse))
)]
pub async fn get_category(
    caller: Caller,
    State(categories): State<Categories>,
    PathId(id): PathId,
    QueryParams(query): QueryParams<AsOfQuery>,
) -> Result<Json<CategoryDetailResponse>, ApiError> {
    let category = categories
        .find(&caller.space, number(&id, "category")?, query.moment()?)
        .await?;
    let path = categories
        .paths(&caller.space, &[category.id])
        .await?
        .remove(&category.id)
        .unwrap_or_default();

    let (path_ids, path) = path.into_iter().unzip();
    Ok(Json(CategoryDetailResponse {
        category: CategoryResponse::from(&category),
        path,
        path_ids,
    }))
}

/// Delete a category
///
/// Deletes the category and its descendants. Returns 409 if any of them contains a chunk, including
/// chunks of earlier versions. The category also disappears from requests with an earlier `as_of`;
/// receipts keep its name.
#[utoipa::path(
    delete, path = "/v1/categories/{id}", tag = "categories", operation_id = "delete_category",
    params(("id" = String, Path, description = "The category id.")),
    responses(
        (status = 204, description = "The category is deleted."),
        (status = 409, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn delete_category(
    caller: Caller,
    State(categories): State<Categories>,
    PathId(id): PathId,
) -> Result<StatusCode, ApiError> {
    categories
        .remove(&caller.space, number(&id, "category")?)
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List the chunks of a leaf
///
/// Returns chunks in the order of ingestion.
#[utoipa::path(
    get, path = "/v1/categories/{id}/chunks", tag = "categories", operation_id = "list_category_chunks",
    params(("id" = String, Path, description = "The id of the leaf."), CategoryChunksQuery),
    responses((status = 200, description = "A page of chunks.", body = ChunkListResponse))
)]
pub async fn list_category_chunks(
    caller: Caller,
    State(categories): State<Categories>,
    PathId(id): PathId,
    QueryParams(query): QueryParams<CategoryChunksQuery>,
) -> Result<Json<ChunkListResponse>, ApiError> {
    let limit = page::limit(query.limit)?;
    let id = number(&id, "category")?;
    let latest = query.version_scope != Some(VersionScopeName::All);
    let scope = ChunkScope {
        latest,
        as_of: moment("as_of", query.as_of.as_deref())?,
    };

    let fingerprint = format!("category {id} {scope:?}");
    let after = page::decode_place::<i64>(query.cursor.as_deref(), &fingerprint)?;
    let found = categories
        .chunks(&caller.space, id, scope, after, limit + 1)
        .await?;
    let key = |chunk: &Chunk| (chunk.created_at.as_micros(), chunk.id.to_string());

    page_of(&categories, &caller.space, found, limit, &fingerprint, key).await
}
