//! The API behind the tools: the same routes that every other client calls, with the same keys, roles,
//! limits and checks. One implementation calls them inside this process (`/mcp`), the other over HTTP
//! (`memoir mcp`).

use std::fmt::Write as _;

use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, StatusCode};
use serde_json::Value;

/// A call of the API.
#[derive(Debug, Clone)]
pub struct ApiRequest {
    pub method: Method,
    /// The path with its query.
    pub path: String,
    pub body: Option<Value>,
}

/// What the API returned.
#[derive(Debug, Clone)]
pub struct ApiReply {
    pub status: StatusCode,
    pub text: String,
}

/// The service could not be reached.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct Unreachable(pub String);

/// Why a call has no result that a tool can show.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ApiFailure {
    /// The API refused it, with a problem document.
    #[error("{}", explained(.problem, *.status))]
    Refused { status: StatusCode, problem: Value },
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
}

/// Where the routes are.
pub trait Api: Send + Sync + 'static {
    /// Calls a route. `headers` are those of the MCP request: they say who calls, and in which space.
    fn send<'a>(
        &'a self,
        request: ApiRequest,
        headers: &'a HeaderMap,
    ) -> BoxFuture<'a, Result<ApiReply, Unreachable>>;
}

impl ApiRequest {
    pub fn get(path: impl Into<String>) -> Self {
        Self {
            method: Method::GET,
            path: path.into(),
            body: None,
        }
    }

    pub fn post(path: impl Into<String>, body: Value) -> Self {
        Self {
            method: Method::POST,
            path: path.into(),
            body: Some(body),
        }
    }

    pub fn delete(path: impl Into<String>) -> Self {
        Self {
            method: Method::DELETE,
            path: path.into(),
            body: None,
        }
    }
}

impl ApiReply {
    /// The body, or why there is none.
    pub fn accepted(self) -> Result<String, ApiFailure> {
        if self.status.is_success() {
            return Ok(self.text);
        }

        Err(ApiFailure::Refused {
            status: self.status,
            problem: serde_json::from_str(&self.text).unwrap_or_default(),
        })
    }

    /// The body as JSON, or why there is none.
    pub fn json(self) -> Result<Value, ApiFailure> {
        let text = self.accepted()?;
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }
}

impl ApiFailure {
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if *status == StatusCode::NOT_FOUND)
    }
}

/// A problem document as a sentence that tells a model what to do.
fn explained(problem: &Value, status: StatusCode) -> String {
    let text = |name: &str| problem[name].as_str().unwrap_or_default();
    if text("detail").is_empty() {
        return format!("the service returned {status} without an explanation");
    }

    let mut said = text("detail").to_owned();
    for fault in problem["errors"].as_array().into_iter().flatten() {
        let part = |name: &str| fault[name].as_str().unwrap_or_default();
        let _ = write!(said, "\n- {}: {}", part("field"), part("message"));
    }

    let _ = write!(said, "\n{} ({})", text("remediation"), text("code"));
    said
}

/// A segment of a path.
pub fn segment(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes())
        .collect::<String>()
        .replace('+', "%20")
}

/// Parameters of a path.
pub fn query(parameters: &[(&str, Option<&str>)]) -> String {
    let given = parameters
        .iter()
        .filter_map(|(name, value)| Some((*name, (*value)?)));
    let query = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(given)
        .finish();
    if query.is_empty() {
        query
    } else {
        format!("?{query}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_problem_tells_what_to_do() {
        let problem = json!({
            "detail": "the request is invalid", "remediation": "Fix the fields.", "code": "invalid_request",
            "errors": [{"field": "query", "message": "must not be empty"}],
        });
        let reply = ApiReply {
            status: StatusCode::UNPROCESSABLE_ENTITY,
            text: problem.to_string(),
        };
        assert_eq!(
            reply.json().unwrap_err().to_string(),
            "the request is invalid\n- query: must not be empty\nFix the fields. (invalid_request)"
        );
    }

    #[test]
    fn an_id_cannot_leave_its_segment() {
        assert_eq!(segment("../users/a b?x#y"), "..%2Fusers%2Fa%20b%3Fx%23y");
        assert_eq!(query(&[("a", Some("1&b=2")), ("c", None)]), "?a=1%26b%3D2");
        assert_eq!(query(&[("c", None)]), "");
    }
}
