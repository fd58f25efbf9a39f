//! What a connection may ask for: everything, or, where there is no place left, only whether the
//! service is alive.

use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::error::ApiError;
use crate::base::metrics as names;

/// Goes with each request as an extension.
#[derive(Debug, Clone, Copy)]
pub enum Admission {
    All,
    /// The connection is one of the reserve.
    ProbesOnly(Refusal),
}

/// Why a connection has no place.
#[derive(Debug, Clone, Copy)]
pub enum Refusal {
    /// Every place has a request in progress.
    Full { most: usize },
    /// Its address has as many as it may have, each with a request in progress.
    Address { most: usize },
}

impl Refusal {
    /// Counts it, and says so.
    pub fn problem(self) -> ApiError {
        metrics::counter!(names::HTTP_CONNECTIONS_REFUSED_TOTAL).increment(1);
        let problem = match self {
            Self::Full { most } => ApiError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "too_many_connections",
                "Too many connections",
                format!("all {most} connections are busy with a request"),
            )
            .fix("Try again shortly, reuse connections, or raise server.max_connections."),
            Self::Address { most } => ApiError::new(
                StatusCode::TOO_MANY_REQUESTS,
                "too_many_connections_from_address",
                "Too many connections from this address",
                format!("this address already has {most} connections, each busy with a request"),
            )
            .fix("Try again shortly, reuse connections, or raise server.max_connections_per_address."),
        };

        problem.header(header::RETRY_AFTER, HeaderValue::from_static("2"))
    }
}

/// Lets only probes pass on a connection of the reserve, and closes it after the answer.
pub async fn admit(request: Request, next: Next) -> Response {
    let Some(refusal) = refusal(&request) else {
        return next.run(request).await;
    };
    let mut response = if request.uri().path().starts_with("/health/") {
        next.run(request).await
    } else {
        refusal.problem().into_response()
    };

    response
        .headers_mut()
        .insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Why this request's connection has no place, if it has none.
pub fn refusal(request: &Request) -> Option<Refusal> {
    match request.extensions().get::<Admission>() {
        Some(Admission::ProbesOnly(refusal)) => Some(*refusal),
        Some(Admission::All) | None => None,
    }
}
