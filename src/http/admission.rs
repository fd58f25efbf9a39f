//! What a connection may request: everything, or only health probes if all connection slots are
//! taken.

use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::error::ApiError;
use crate::base::metrics as names;
use crate::base::problems;

/// Attached to each request as an extension.
#[derive(Debug, Clone, Copy)]
pub enum Admission {
    All,
    /// The connection uses a reserved slot.
    ProbesOnly(Refusal),
}

/// Why a connection has no regular slot.
#[derive(Debug, Clone, Copy)]
pub enum Refusal {
    /// Every slot is busy with a request.
    Full { most: usize },
    /// The peer has reached its limit, and all its connections are busy with a request.
    Peer { most: usize },
}

impl Refusal {
    /// Counts the refusal and returns its problem document.
    pub fn problem(self) -> ApiError {
        metrics::counter!(names::HTTP_CONNECTIONS_REFUSED_TOTAL).increment(1);
        let problem = match self {
            Self::Full { most } => ApiError::new(
                problems::TOO_MANY_CONNECTIONS,
                format!("all {most} connections are busy"),
            ),
            Self::Peer { most } => ApiError::new(
                problems::TOO_MANY_CONNECTIONS_FROM_ADDRESS,
                format!("this address already has {most} connections, all of them busy"),
            ),
        };

        problem.header(header::RETRY_AFTER, HeaderValue::from_static("2"))
    }
}

/// Allows only probes on a reserved connection, and closes it after the response.
pub async fn admit(request: Request, next: Next) -> Response {
    let Some(refusal) = refusal(&request) else {
        return next.run(request).await;
    };
    let mut response = if is_probe(&request) {
        next.run(request).await
    } else {
        refusal.problem().into_response()
    };

    response
        .headers_mut()
        .insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Whether a request is a health probe.
pub fn is_probe<B>(request: &axum::http::Request<B>) -> bool {
    request.uri().path().starts_with("/health/")
}

/// Why the connection of this request has no regular slot, if it has none.
pub fn refusal(request: &Request) -> Option<Refusal> {
    match request.extensions().get::<Admission>() {
        Some(Admission::ProbesOnly(refusal)) => Some(*refusal),
        Some(Admission::All) | None => None,
    }
}
