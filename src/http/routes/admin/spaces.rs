//! Whole spaces: listed, measured, removed.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::base::ids::Space;
use crate::http::auth::{Admin, Caller};
use crate::http::error::ApiError;
use crate::http::extract::{PathId, QueryParams};
use crate::http::page;
use crate::http::routes::usage::UsageTotalsResponse;
use crate::keys::Keys;
use crate::spaces::{Measured, Spaces};

/// Which part of the list.
#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListSpacesQuery {
    /// Items on the page.
    #[serde(default)]
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<usize>,
    /// `next_cursor` of the page before.
    #[serde(default)]
    cursor: Option<String>,
}

/// That the removal is meant.
#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DeleteSpaceQuery {
    /// The name of the space once more.
    #[serde(default)]
    confirm: Option<String>,
}

/// A page of spaces.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct SpaceListResponse {
    pub items: Vec<SpaceNameResponse>,
    /// Pass it as `cursor` to go on; null at the end.
    pub next_cursor: Option<String>,
}

/// A space.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct SpaceNameResponse {
    pub space: String,
}

/// What a space holds now, and what was asked of models for it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct SpaceResponse {
    pub space: String,
    pub sources: i64,
    pub versions: i64,
    /// Bytes of the texts of all versions.
    pub text_bytes: i64,
    pub chunks: i64,
    pub categories: i64,
    /// Receipts of queries.
    pub queries: i64,
    /// Keys that open this space alone, without those of the configuration.
    pub api_keys: i64,
    /// Jobs, by their state.
    pub jobs: BTreeMap<String, i64>,
    /// As far back as the ledger goes.
    pub usage: UsageTotalsResponse,
}

/// The receipt of a removal.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct DeletedSpaceResponse {
    pub space: String,
    /// Jobs that were not over.
    pub jobs_cancelled: u64,
    /// Rows that were removed, by table.
    pub removed: BTreeMap<String, u64>,
}

/// List spaces
///
/// Every space that holds anything, in the order of their names, in pages. An admin of one space
/// sees that space.
#[utoipa::path(
    get, path = "/v1/admin/spaces", tag = "admin", operation_id = "list_spaces", params(ListSpacesQuery),
    responses((status = 200, description = "A page of spaces.", body = SpaceListResponse))
)]
pub async fn list_spaces(
    Admin(caller): Admin,
    State(spaces): State<Spaces>,
    QueryParams(query): QueryParams<ListSpacesQuery>,
) -> Result<Json<SpaceListResponse>, ApiError> {
    let limit = page::limit(query.limit)?;
    let after: Option<[String; 1]> = page::decode_texts(query.cursor.as_deref(), "spaces")?;
    let after = after
        .map(|[after]| after)
        .filter(|after| after.is_ascii())
        .unwrap_or_default();

    let found = match caller.only_space() {
        Some(own) => Vec::from_iter(spaces.exists(own).await?.then(|| own.to_string())),
        None => spaces.list(&after, limit + 1).await?,
    };

    let (found, next_cursor) = page::cut(found, limit, "spaces", |space| [space.clone()]);
    let items = found
        .into_iter()
        .map(|space| SpaceNameResponse { space })
        .collect();

    Ok(Json(SpaceListResponse { items, next_cursor }))
}

/// Measure a space
///
/// Counts what it holds now. 404 for a space that holds nothing.
#[utoipa::path(
    get, path = "/v1/admin/spaces/{space}", tag = "admin", operation_id = "get_space",
    params(("space" = String, Path, description = "The name of the space.")),
    responses((status = 200, description = "The space, measured.", body = SpaceResponse))
)]
pub async fn get_space(
    Admin(caller): Admin,
    State(spaces): State<Spaces>,
    PathId(name): PathId,
) -> Result<Json<SpaceResponse>, ApiError> {
    let space = managed(&caller, &name)?;
    if !spaces.exists(&space).await? {
        return Err(
            ApiError::not_found(format!("the space {space} holds nothing"))
                .fix("List the spaces that hold something with GET /v1/admin/spaces."),
        );
    }

    Ok(Json(SpaceResponse::of(
        &space,
        spaces.measure(&space).await?,
    )))
}

/// Remove a space
///
/// Everything in it, for good: sources, chunks, categories, jobs, receipts, the ledger, and the API
/// keys that open this space alone. Its jobs are cancelled first. Needs `?confirm=` with the name
/// once more. The answer comes when all is gone and counts it; the removal goes on when you hang
/// up, and repeating it removes what is left. Later writes create the space again.
#[utoipa::path(
    delete, path = "/v1/admin/spaces/{space}", tag = "admin", operation_id = "delete_space",
    params(("space" = String, Path, description = "The name of the space."), DeleteSpaceQuery),
    responses((status = 200, description = "What was removed.", body = DeletedSpaceResponse))
)]
pub async fn delete_space(
    Admin(caller): Admin,
    State(spaces): State<Spaces>,
    State(keys): State<Keys>,
    PathId(name): PathId,
    QueryParams(query): QueryParams<DeleteSpaceQuery>,
) -> Result<Json<DeletedSpaceResponse>, ApiError> {
    let space = managed(&caller, &name)?;
    if query.confirm.as_deref() != Some(space.as_str()) {
        let rule = format!("must be {space}, the name of the space to remove");
        return Err(ApiError::invalid_field("confirm", rule));
    }

    let removed = spaces.remove(&space, caller.now).await?;
    keys.refresh().await?;
    Ok(Json(DeletedSpaceResponse {
        space: space.to_string(),
        jobs_cancelled: removed.jobs_cancelled as u64,
        removed: removed
            .rows
            .into_iter()
            .map(|(table, rows)| (table.to_owned(), rows))
            .collect(),
    }))
}

/// A space that this admin manages.
fn managed(caller: &Caller, name: &str) -> Result<Space, ApiError> {
    let space: Space = name
        .parse()
        .map_err(|()| ApiError::invalid_field("space", format!("must be {}", Space::RULE)))?;
    match caller.only_space() {
        Some(own) if *own != space => Err(ApiError::forbidden(
            "the API key opens another space than this one",
        )
        .fix("Name the key's own space, or use an admin key whose space is \"*\".")),
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
