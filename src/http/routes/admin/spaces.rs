//! Spaces: list, inspect and delete.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::base::ids::Space;
use crate::erasure::Erasures;
use crate::http::auth::{Admin, Caller};
use crate::http::error::ApiError;
use crate::http::extract::{PathId, QueryParams};
use crate::http::page::{Page, list_query, list_response};
use crate::http::routes::usage::UsageTotalsResponse;
use crate::keys::Keys;
use crate::model::erasure::Erasure;
use crate::spaces::{Measured, Spaces};

list_query! {
    /// Pagination of the space list.
    ListSpacesQuery {}
}

/// Confirmation of the deletion.
#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DeleteSpaceQuery {
    /// Must repeat the name of the space.
    confirm: Option<String>,
}

list_response! {
    /// A page of spaces.
    SpaceListResponse of SpaceNameResponse
}

/// A space.
#[derive(Debug, Serialize, ToSchema)]
pub struct SpaceNameResponse {
    pub space: String,
}

/// The current contents of a space and its model usage.
#[derive(Debug, Serialize, ToSchema)]
pub struct SpaceResponse {
    pub space: String,
    pub sources: i64,
    pub versions: i64,
    /// Total size of the texts of all versions in bytes.
    pub text_bytes: i64,
    pub chunks: i64,
    pub categories: i64,
    /// Number of stored query receipts.
    pub queries: i64,
    /// Number of keys that are limited to this space, not counting keys from the configuration.
    pub api_keys: i64,
    /// Number of jobs by state.
    pub jobs: BTreeMap<String, i64>,
    /// Model usage since the space was created.
    pub usage: UsageTotalsResponse,
}

/// The result of deleting a space.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeletedSpaceResponse {
    pub space: String,
    /// Number of unfinished jobs that were cancelled.
    pub jobs_cancelled: u64,
    /// Number of deleted rows by table.
    pub removed: BTreeMap<String, u64>,
    #[serde(flatten)]
    pub erasure: Erasure,
    /// SQLite: whether the write-ahead log, which held the deleted text, was emptied. If others were
    /// reading from it, it is emptied shortly. Null for other databases.
    pub log_truncated: Option<bool>,
}

/// List spaces
///
/// Returns every space that contains data, sorted by name. An admin of one space sees only that
/// space.
#[utoipa::path(
    get, path = "/v1/admin/spaces", tag = "admin", operation_id = "list_spaces", params(ListSpacesQuery),
    responses((status = 200, description = "A page of spaces.", body = SpaceListResponse))
)]
pub async fn list_spaces(
    Admin(caller): Admin,
    State(spaces): State<Spaces>,
    QueryParams(query): QueryParams<ListSpacesQuery>,
) -> Result<Json<SpaceListResponse>, ApiError> {
    let page = Page::new(query.limit, query.cursor, "spaces")?;
    let after: Option<[String; 1]> = page.after_texts()?;
    let after = after
        .map(|[after]| after)
        .filter(|after| after.is_ascii())
        .unwrap_or_default();

    let found = match caller.only_space() {
        Some(own) => Vec::from_iter(spaces.exists(own).await?.then(|| own.to_string())),
        None => spaces.list(&after, page.rows()).await?,
    };

    let key = |space: &String| [space.clone()];
    Ok(page.list(found, key, |space| SpaceNameResponse { space }))
}

/// Get a space
///
/// Counts the sources, chunks, categories, jobs and other contents of the space. Returns 404 if the
/// space is empty.
#[utoipa::path(
    get, path = "/v1/admin/spaces/{space}", tag = "admin", operation_id = "get_space",
    params(("space" = String, Path, description = "The name of the space.")),
    responses((status = 200, description = "The space and its counts.", body = SpaceResponse))
)]
pub async fn get_space(
    Admin(caller): Admin,
    State(spaces): State<Spaces>,
    PathId(name): PathId,
) -> Result<Json<SpaceResponse>, ApiError> {
    let space = managed(&caller, &name)?;
    if !spaces.exists(&space).await? {
        return Err(
            ApiError::not_found(format!("the space {space} does not exist or is empty"))
                .fix("List the existing spaces with GET /v1/admin/spaces."),
        );
    }

    Ok(Json(SpaceResponse::of(
        &space,
        spaces.measure(&space).await?,
    )))
}

/// Delete a space
///
/// Permanently deletes everything in the space: sources, chunks, categories, conversations,
/// memories, jobs, receipts, the record of model usage, and the API keys that are limited to this
/// space. Unfinished jobs are cancelled first. Repeat the name in `?confirm=`.
///
/// The response is sent when the deletion is complete, and contains the number of deleted rows. The
/// deletion continues if the client disconnects, and a repeated request deletes the rest. A later
/// write creates the space again.
#[utoipa::path(
    delete, path = "/v1/admin/spaces/{space}", tag = "admin", operation_id = "delete_space",
    params(("space" = String, Path, description = "The name of the space."), DeleteSpaceQuery),
    responses((status = 200, description = "What was deleted.", body = DeletedSpaceResponse))
)]
pub async fn delete_space(
    Admin(caller): Admin,
    State(erasures): State<Erasures>,
    State(keys): State<Keys>,
    PathId(name): PathId,
    QueryParams(query): QueryParams<DeleteSpaceQuery>,
) -> Result<Json<DeletedSpaceResponse>, ApiError> {
    let space = managed(&caller, &name)?;
    if query.confirm.as_deref() != Some(space.as_str()) {
        let rule = format!("must be \"{space}\", the name of the space to delete");
        return Err(ApiError::invalid_field("confirm", rule));
    }

    let mut order = caller.erasure();
    order.call.space = space.clone();
    let erased = erasures.space(&order).await?;
    keys.refresh().await?;
    Ok(Json(DeletedSpaceResponse {
        space: space.to_string(),
        jobs_cancelled: erased.jobs_cancelled as u64,
        removed: erased.erasure.rows.clone(),
        log_truncated: erased.log_truncated,
        erasure: erased.erasure,
    }))
}

/// Returns the space if this admin manages it.
fn managed(caller: &Caller, name: &str) -> Result<Space, ApiError> {
    let space: Space = name
        .parse()
        .map_err(|()| ApiError::invalid_field("space", format!("must be {}", Space::RULE)))?;
    match caller.only_space() {
        Some(own) if *own != space => {
            Err(ApiError::forbidden("this API key does not open that space")
                .fix("Use the key's own space, or an admin key whose space is \"*\"."))
        }
        _ => Ok(space),
    }
}

impl SpaceResponse {
    fn of(space: &Space, measured: Measured) -> Self {
        let Measured { size, usage } = measured;
        Self {
            space: space.to_string(),
            sources: size.sources,
            versions: size.versions,
            text_bytes: size.text_bytes,
            chunks: size.chunks,
            categories: size.categories,
            queries: size.queries,
            api_keys: size.api_keys,
            jobs: size.jobs,
            usage: UsageTotalsResponse {
                calls: usage.calls,
                tokens_prompt: usage.tokens_prompt,
                tokens_completion: usage.tokens_completion,
                tokens_cached: usage.tokens_cached,
                cost_usd: usage.cost_usd,
            },
        }
    }
}
