//! The hierarchy: lists, the whole tree, single categories and their chunks, and manual creation.

mod care;
mod changes;

pub use care::{
    __path_delete_category, __path_merge_category, __path_move_category, __path_review_categories,
    __path_split_category, __path_undo_change, delete_category, merge_category, move_category,
    review_categories, split_category, undo_change,
};
pub use changes::{
    __path_list_category_changes, __path_rename_category, list_category_changes, rename_category,
};

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::chunks::{self, ChunkListResponse, number};
use super::sources::AsOfQuery;
use crate::base::clock::Timestamp;
use crate::categories::{Categories, CategoryInput};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::{JsonBody, PathId, QueryParams};
use crate::http::idempotency::{Created, Idempotency};
use crate::http::page::{Page, list_query, list_response};
use crate::http::state::AppState;
use crate::model::call::CallContext;
use crate::model::category::Category;
use crate::model::chunk::Chunk;
use crate::store::{CategoryFilter, CategoryPage, ChunkScope, Tx};

/// A category and its path.
#[derive(Debug, Serialize, ToSchema)]
pub struct CategoryDetailResponse {
    #[serde(flatten)]
    pub category: Category,
    /// Names from level 1 to this category.
    pub path: Vec<String>,
    /// Ids from level 1 to this category.
    pub path_ids: Vec<i64>,
}

list_response! {
    /// A page of categories, sorted by level and then by age, oldest first.
    CategoryListResponse of Category
}

/// A page of the whole hierarchy as a flat list, parents before their children.
#[derive(Debug, Serialize, ToSchema)]
pub struct CategoryTreeResponse {
    pub items: Vec<Category>,
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
#[derive(Debug, Serialize, ToSchema)]
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
#[derive(Debug, Serialize, ToSchema)]
pub struct CategoryLevelResponse {
    pub level: i64,
    pub categories: i64,
    /// Maximum number of categories on the level, or per parent, depending on `limit_scope`.
    pub limit: i64,
}

list_query! {
    /// Filters and pagination of the category list.
    ListCategoriesQuery {
        /// Only children of this category.
        parent_id: Option<i64>,
        /// Only categories on this level; 1 is the highest.
        level: Option<i64>,
        /// Shows the hierarchy as it was at this time, with the source versions that were current then. Names, moves
        /// and merges from before the upgrade to this feature are shown as they were at the upgrade.
        #[param(value_type = Option<String>, format = DateTime)]
        as_of: Option<Timestamp>,
    }
}

list_query! {
    /// Pagination of the hierarchy.
    TreeQuery {
        /// Shows the hierarchy as it was at this time, with the source versions that were current then. Names, moves
        /// and merges from before the upgrade to this feature are shown as they were at the upgrade.
        #[param(value_type = Option<String>, format = DateTime)]
        as_of: Option<Timestamp>,
    }
}

list_query! {
    /// Filters and pagination of the chunks of a category.
    CategoryChunksQuery {
        /// `latest`: chunks of the current versions only; `all`: chunks of earlier versions too.
        #[param(inline)]
        version_scope: Option<VersionScopeName>,
        /// Returns the chunks that were in the leaf at this time, of the source versions that were current then.
        #[param(value_type = Option<String>, format = DateTime)]
        as_of: Option<Timestamp>,
    }
}

/// Which versions of the sources to include.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum VersionScopeName {
    Latest,
    All,
}

/// The categories of a page, and the cursor for the next one.
async fn page_of(
    categories: &Categories,
    call: &CallContext,
    filter: &CategoryFilter,
    (limit, cursor): (Option<usize>, Option<String>),
) -> Result<(Vec<Category>, Option<String>), ApiError> {
    let page = Page::new(limit, cursor, format!("{filter:?}"))?;
    let wanted = CategoryPage {
        after: page.after()?,
        limit: Some(page.rows()),
    };

    let found = categories.list(call, filter, &wanted).await?;
    Ok(page.cut(found, |category| (category.level, category.id)))
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
    let filter = CategoryFilter {
        parent_id: query.parent_id,
        level: query.level,
        as_of: query.as_of,
    };

    let place = (query.limit, query.cursor);
    let (items, next_cursor) = page_of(&categories, &caller.call, &filter, place).await?;
    Ok(Json(CategoryListResponse { items, next_cursor }))
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
    let as_of = query.as_of;
    let filter = CategoryFilter {
        as_of,
        ..CategoryFilter::default()
    };

    let place = (query.limit, query.cursor);
    let (items, next_cursor) = page_of(&categories, &caller.call, &filter, place).await?;
    let taxonomy = categories.taxonomy();
    let counts = categories.counts(&caller.call, as_of).await?;
    let full = |(level, categories)| CategoryLevelResponse {
        level,
        categories,
        limit: taxonomy.limit(level),
    };

    Ok(Json(CategoryTreeResponse {
        items,
        next_cursor,
        depth: taxonomy.depth(),
        limit_scope: taxonomy.scope().into_str().to_owned(),
        levels: counts.into_iter().map(full).collect(),
        full_parents: full_parents(&categories, &caller.call).await?,
    }))
}

async fn full_parents(
    categories: &Categories,
    call: &CallContext,
) -> Result<Vec<FullParentResponse>, ApiError> {
    let full = categories.full_parents(call).await?;
    let ids: Vec<i64> = full
        .iter()
        .map(|(id, _)| *id)
        .filter(|id| *id != 0)
        .collect();
    let mut paths = categories.paths(call, &ids, None).await?;
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
    post, path = "/v1/categories", tag = "categories", operation_id = "create_category", request_body = CategoryInput,
    params(("Idempotency-Key" = Option<String>, Header, description = "A repeat of the request with the same key and body within 24 hours returns the first response.")),
    responses(
        (status = 201, description = "The new category.", body = Category, headers(("Location" = String, description = "The URL of the new category."))),
        (status = 409, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn create_category(
    caller: Caller,
    State(state): State<AppState>,
    headers: HeaderMap,
    body: JsonBody<CategoryInput>,
) -> Result<Response, ApiError> {
    let idempotency = Idempotency::of(&headers, "create_category", &body.bytes)?;
    let (state, caller, new) = (&state, &caller, &body.value);
    let create = |mut tx: Tx| async move {
        let category = state
            .categories
            .create(&mut tx, &caller.call, new.clone())
            .await?;

        let unkept = HeaderValue::from_static("no-store");
        let created = Created::at(&format!("/v1/categories/{}", category.id), category)?;
        Ok((tx, created.with(header::CACHE_CONTROL, unkept)))
    };

    idempotency.create(state, caller, create).await
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
        .find(&caller.call, number(&id, "category")?, query.as_of)
        .await?;
    let path = categories
        .paths(&caller.call, &[category.id], query.as_of)
        .await?
        .remove(&category.id)
        .unwrap_or_default();

    let (path_ids, path) = path.into_iter().unzip();
    Ok(Json(CategoryDetailResponse {
        category,
        path,
        path_ids,
    }))
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
    let id = number(&id, "category")?;
    let latest = query.version_scope != Some(VersionScopeName::All);
    let scope = ChunkScope {
        latest,
        as_of: query.as_of,
    };

    let fingerprint = format!("category {id} {scope:?}");
    let page = Page::new(query.limit, query.cursor, fingerprint)?;
    let after = page.after_item::<i64>()?;
    let found = categories
        .chunks(&caller.call, id, scope, after, page.rows())
        .await?;
    let key = |chunk: &Chunk| (chunk.created_at.as_micros(), chunk.id.to_string());

    chunks::page_of((&categories, query.as_of), &caller.call, &page, found, key).await
}
