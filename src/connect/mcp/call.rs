//! One call of a tool: who calls, how it reaches the API, and how it tells its progress.

use std::path::PathBuf;

use http::{HeaderMap, StatusCode};
use rmcp::RoleServer;
use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;
use serde_json::{Value, json};

use super::api::{Api, ApiFailure, ApiReply, ApiRequest};

/// A call of a tool.
pub struct Call<'c> {
    pub api: &'c dyn Api,
    /// The headers of the request that brought the call; empty over standard input.
    pub headers: HeaderMap,
    /// The end user, if one is set.
    pub user: Option<String>,
    pub max_result_tokens: usize,
    /// The folder whose files may be read; none for calls over HTTP.
    pub files: Option<&'c PathBuf>,
    pub context: &'c RequestContext<RoleServer>,
}

/// Why a tool has no result.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// An argument is wrong.
    #[error("{0}")]
    Argument(String),
    #[error(transparent)]
    Api(#[from] ApiFailure),
}

impl Call<'_> {
    pub async fn send(&self, request: ApiRequest) -> Result<ApiReply, ApiFailure> {
        // Clients resolve such segments, so that the path would lead elsewhere.
        let path = request.path.split('?').next().unwrap_or_default();
        if path
            .split('/')
            .any(|segment| [".", ".."].contains(&segment))
        {
            return Err(ApiFailure::Refused {
                status: StatusCode::NOT_FOUND,
                problem: json!({"detail": "an id or a name cannot be . or .."}),
            });
        }

        Ok(self.api.send(request, &self.headers).await?)
    }

    pub async fn json(&self, request: ApiRequest) -> Result<Value, ApiFailure> {
        self.send(request).await?.json()
    }

    /// The response as JSON; `None` if what the path names does not exist, or belongs to another user.
    pub async fn found(&self, request: ApiRequest) -> Result<Option<Value>, ApiFailure> {
        let found = match self.json(request).await {
            Err(error) if error.is_not_found() => return Ok(None),
            found => found?,
        };
        let owner = found["user_id"].as_str();
        let is_foreign = self
            .user
            .as_deref()
            .zip(owner)
            .is_some_and(|(user, owner)| user != owner);
        Ok((!is_foreign).then_some(found))
    }

    /// Whether a failure says that nothing exists under an id, or no longer.
    pub fn names_nothing(failure: &ApiFailure) -> bool {
        let absent = [StatusCode::NOT_FOUND, StatusCode::GONE];
        matches!(failure, ApiFailure::Refused { status, .. } if absent.contains(status))
    }

    /// Tells the client how far a long call is, if it wants to know.
    pub async fn tell(&self, done: f64, total: Option<f64>, message: String) {
        let Some(token) = self.context.meta.get_progress_token() else {
            return;
        };
        let mut progress = ProgressNotificationParam::new(token, done);
        progress.total = total;
        progress.message = Some(message);
        // A client that has gone needs no progress.
        let _ = self.context.peer.notify_progress(progress).await;
    }

    pub fn wants_progress(&self) -> bool {
        self.context.meta.get_progress_token().is_some()
    }
}
