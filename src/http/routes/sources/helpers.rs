//! The helper of a source: read, preview, provide and regenerate.

use axum::Json;
use axum::extract::State;
use memoir_policy::secrets::redact_in_place;
use memoir_text::field_error::FieldError;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::contextual_helpers::{HelperError, HelperFields, compose, from_text};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::extract::{JsonBody, PathId};
use crate::http::state::AppState;
use crate::model::call::CallContext;
use crate::model::contextual_helper::{ContextualHelper, NewHelper};

/// One version of a source's helper.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct HelperResponse {
    /// Starts at 1; the highest version is in force.
    pub version: i64,
    /// One paragraph; empty if nothing is known.
    pub text: String,
    /// `user` or `generated`.
    pub origin: String,
    pub author: Option<String>,
    pub date: Option<String>,
    pub topic: Option<String>,
    pub description: Option<String>,
    /// Token count of the paragraph.
    pub token_count: i64,
    /// Prompt tokens used to generate the helper.
    pub tokens_prompt: i64,
    pub tokens_completion: i64,
    #[schema(format = DateTime)]
    pub created_at: String,
}

/// All helper versions of a source, newest first, and their origins.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct HelperListResponse {
    pub items: Vec<HelperResponse>,
    pub helper_events: Vec<HelperOriginResponse>,
}

/// The origin of a helper.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct HelperOriginResponse {
    pub version: i64,
    /// `user` or `generated`.
    pub origin: String,
    #[schema(format = DateTime)]
    pub timestamp: String,
    pub token_count: i64,
    pub tokens_prompt: i64,
    pub tokens_completion: i64,
}

/// A helper as memoir would store it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct HelperPreviewResponse {
    /// The paragraph.
    pub preview: String,
    pub token_count: i64,
}

/// A helper in your own words: free text of at most 300 tokens, or the four fields.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(example = json!({"text": "Notes of the harbour master, 1843 to 1851."}))]
pub struct UpdateHelperRequest {
    /// Free text, instead of the fields.
    pub text: Option<String>,
    /// When the source was created: `YYYY-MM-DD`, `YYYY-MM-DDTHH:MM:SS` or `unknown`.
    pub date: Option<String>,
    /// Who created it, or `unknown`.
    pub author: Option<String>,
    /// What it is about, or `unknown`.
    pub topic: Option<String>,
    /// What it is, in at most 200 tokens.
    pub description: Option<String>,
}

impl From<&ContextualHelper> for HelperResponse {
    fn from(stored: &ContextualHelper) -> Self {
        let helper = stored.helper.clone();
        Self {
            version: stored.version,
            text: helper.text,
            origin: helper.origin.into_str().to_owned(),
            author: helper.author,
            date: helper.date,
            topic: helper.topic,
            description: helper.description,
            token_count: helper.token_count,
            tokens_prompt: helper.tokens_prompt,
            tokens_completion: helper.tokens_completion,
            created_at: stored.created_at.to_string(),
        }
    }
}

impl From<&ContextualHelper> for HelperOriginResponse {
    fn from(stored: &ContextualHelper) -> Self {
        Self {
            version: stored.version,
            origin: stored.helper.origin.into_str().to_owned(),
            timestamp: stored.created_at.to_string(),
            token_count: stored.helper.token_count,
            tokens_prompt: stored.helper.tokens_prompt,
            tokens_completion: stored.helper.tokens_completion,
        }
    }
}

impl UpdateHelperRequest {
    fn compose(mut self, call: &CallContext) -> Result<NewHelper, HelperError> {
        let mut fields = HelperFields {
            date: self.date,
            author: self.author,
            topic: self.topic,
            description: self.description,
        };
        if call.redact_secrets {
            fields.redact_secrets();
            if let Some(text) = &mut self.text {
                redact_in_place(text);
            }
        }

        let some = [
            &fields.date,
            &fields.author,
            &fields.topic,
            &fields.description,
        ]
        .iter()
        .any(|field| field.is_some());

        match self.text {
            Some(_) if some => {
                let rule = "send either `text` or the four fields, not both";
                Err(HelperError::Invalid(FieldError::new("text", rule).into()))
            }
            None => compose(&fields).map_err(HelperError::Invalid),
            Some(text) => {
                from_text("text", &text).map_err(|error| HelperError::Invalid(error.into()))
            }
        }
    }
}

/// Get the helper of a source
///
/// Returns the version in force, which is part of every prompt about the source.
#[utoipa::path(
    get, path = "/v1/sources/{id}/helper", tag = "sources", operation_id = "get_helper",
    params(("id" = String, Path, description = "The source's id.")),
    responses((status = 200, description = "The helper.", body = HelperResponse))
)]
pub async fn get_helper(
    caller: Caller,
    State(state): State<AppState>,
    PathId(id): PathId,
) -> Result<Json<HelperResponse>, ApiError> {
    let source = state.sources.find(&caller.call, &id).await?;
    let current = state.helpers.current(&caller.call, &source.id).await?;
    Ok(Json(HelperResponse::from(
        &current.ok_or(HelperError::NotFound(id))?,
    )))
}

/// List the helpers of a source
///
/// Returns all versions, newest first, with their origin and cost.
#[utoipa::path(
    get, path = "/v1/sources/{id}/helpers", tag = "sources", operation_id = "list_helpers",
    params(("id" = String, Path, description = "The source's id.")),
    responses((status = 200, description = "All versions of the helper.", body = HelperListResponse))
)]
pub async fn list_helpers(
    caller: Caller,
    State(state): State<AppState>,
    PathId(id): PathId,
) -> Result<Json<HelperListResponse>, ApiError> {
    let source = state.sources.find(&caller.call, &id).await?;
    let all = state.helpers.list(&caller.call, &source.id).await?;
    let items = all.iter().map(HelperResponse::from).collect();
    Ok(Json(HelperListResponse {
        items,
        helper_events: all.iter().map(HelperOriginResponse::from).collect(),
    }))
}

/// Preview a helper
///
/// Composes the paragraph and counts its tokens without storing anything.
#[utoipa::path(
    post, path = "/v1/sources/{id}/helper/preview", tag = "sources", operation_id = "preview_helper",
    request_body = HelperFields, params(("id" = String, Path, description = "The source's id.")),
    responses((status = 200, description = "The paragraph.", body = HelperPreviewResponse))
)]
pub async fn preview_helper(
    caller: Caller,
    State(state): State<AppState>,
    PathId(id): PathId,
    JsonBody { value: request, .. }: JsonBody<HelperFields>,
) -> Result<Json<HelperPreviewResponse>, ApiError> {
    state.sources.find(&caller.call, &id).await?;
    let helper = compose(&request).map_err(HelperError::Invalid)?;
    Ok(Json(HelperPreviewResponse {
        preview: helper.text,
        token_count: helper.token_count,
    }))
}

/// Set the helper of a source
///
/// Stores your text as a new version. A model replaces it only if you regenerate the helper.
#[utoipa::path(
    put, path = "/v1/sources/{id}/helper", tag = "sources", operation_id = "update_helper",
    request_body = UpdateHelperRequest, params(("id" = String, Path, description = "The source's id.")),
    responses((status = 200, description = "The helper in force.", body = HelperResponse))
)]
pub async fn update_helper(
    caller: Caller,
    State(state): State<AppState>,
    PathId(id): PathId,
    JsonBody { value: request, .. }: JsonBody<UpdateHelperRequest>,
) -> Result<Json<HelperResponse>, ApiError> {
    let source = state.sources.find(&caller.call, &id).await?;
    let helper = request.compose(&caller.call)?;
    let stored = state
        .helpers
        .store(&caller.call, &source.id, &helper)
        .await?;

    Ok(Json(HelperResponse::from(&stored)))
}

/// Regenerate the helper of a source
///
/// A model writes a new helper from the metadata of the source and its first chunks. Responds when
/// the helper is stored.
#[utoipa::path(
    post, path = "/v1/sources/{id}/helper/regenerate", tag = "sources", operation_id = "regenerate_helper",
    params(("id" = String, Path, description = "The source's id.")),
    responses(
        (status = 200, description = "The helper in force.", body = HelperResponse),
        (status = 409, response = crate::http::openapi::ProblemResponse),
        (status = 429, response = crate::http::openapi::ProblemResponse),
        (status = 502, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn regenerate_helper(
    caller: Caller,
    State(state): State<AppState>,
    PathId(id): PathId,
) -> Result<Json<HelperResponse>, ApiError> {
    let source = state.sources.find(&caller.call, &id).await?;
    let stored = state.helpers.regenerate(&caller.call, &source).await?;

    Ok(Json(HelperResponse::from(&stored)))
}
