//! The workspace: read it, and replace it.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::etag;
use crate::http::extract::JsonBody;
use crate::workbench::Workbench;
use crate::workbench::workspace::{StoredWorkspace, Workspace, WorkspaceInput};

/// The workspace of a space.
#[derive(Debug, Serialize, ToSchema)]
pub struct WorkspaceResponse {
    /// 0 until the first change.
    pub version: i64,
    /// Null until the first change.
    pub created_at: Option<String>,
    #[serde(flatten)]
    pub workspace: Workspace,
}

impl From<StoredWorkspace> for WorkspaceResponse {
    fn from(stored: StoredWorkspace) -> Self {
        Self {
            version: stored.version,
            created_at: stored.created_at.map(|time| time.to_string()),
            workspace: stored.workspace,
        }
    }
}

/// Get the workspace
///
/// Returns the hard rules, the project memory, and the settings of runs that do not set their own.
#[utoipa::path(
    get, path = "/v1/workspace", tag = "prompts", operation_id = "get_workspace",
    params(("If-None-Match" = Option<String>, Header, description = "The ETag from an earlier response.")),
    responses(
        (status = 200, description = "The workspace.", body = WorkspaceResponse, headers(("ETag" = String, description = "The current ETag, for `If-Match`."))),
        (status = 304, description = "The workspace has not changed."),
    )
)]
pub async fn get_workspace(
    caller: Caller,
    State(workbench): State<Workbench>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let stored = workbench.workspaces().current(&caller.call).await?;
    Ok(etag::respond(&headers, &WorkspaceResponse::from(stored)))
}

/// Replace the workspace
///
/// Stores the workspace as a new version, which every later run uses. Omitted fields get their
/// defaults. With `If-Match`, returns 412 if the workspace has changed since you read it.
#[utoipa::path(
    put, path = "/v1/workspace", tag = "prompts", operation_id = "update_workspace", request_body = WorkspaceInput,
    params(("If-Match" = Option<String>, Header, description = "The ETag from an earlier response.")),
    responses(
        (status = 200, description = "The new version.", body = WorkspaceResponse, headers(("ETag" = String, description = "The current ETag, for `If-Match`."))),
        (status = 412, response = crate::http::openapi::ProblemResponse),
    )
)]
pub async fn update_workspace(
    caller: Caller,
    State(workbench): State<Workbench>,
    headers: HeaderMap,
    JsonBody { value: given, .. }: JsonBody<WorkspaceInput>,
) -> Result<Response, ApiError> {
    let unchanged = |current: &StoredWorkspace| {
        etag::is_unchanged(&headers, &WorkspaceResponse::from(current.clone()))
    };
    let stored = workbench
        .workspaces()
        .replace(&caller.call, given, unchanged)
        .await?;

    let shown = WorkspaceResponse::from(stored);
    Ok(([(header::ETAG, etag::etag(&shown))], Json(shown)).into_response())
}
