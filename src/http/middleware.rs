//! What happens around every request: identity, problem documents, headers, one log line, metrics.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use axum::body::{Body, HttpBody};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tower_http::compression::predicate::Predicate;

use super::admission;
use super::body::{self, Rest};
use super::error::ApiError;
use super::state::AppState;
use super::trace::RequestIdentity;
use crate::base::metrics as names;
use crate::base::problems;

const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");
/// The route label of requests that match no route.
const UNMATCHED: &str = "(unmatched)";

/// What a client without a key is told before its body is read.
const NEEDS_NO_KEY: [StatusCode; 5] = [
    StatusCode::BAD_REQUEST,
    StatusCode::UNAUTHORIZED,
    StatusCode::FORBIDDEN,
    StatusCode::NOT_FOUND,
    StatusCode::METHOD_NOT_ALLOWED,
];

/// The outermost layer.
pub async fn envelope(State(state): State<AppState>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let _counted = InFlight::count(&state.in_flight);
    let identity = RequestIdentity::of(request.headers());
    request.extensions_mut().insert(identity.clone());
    let method = request.method().clone();

    let is_refused = admission::refusal(&request).is_some();
    let is_openai = request.uri().path().starts_with("/openai/");
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or(UNMATCHED, MatchedPath::as_str);

    let (parts, body) = request.into_parts();
    let (body, rest) = Rest::of(body);
    let mut response = next.run(Request::from_parts(parts, body)).await;
    let drain_time = if is_refused || NEEDS_NO_KEY.contains(&response.status()) {
        body::SHORT_DRAIN_TIME
    } else {
        body::DRAIN_TIME
    };

    let drained = match rest {
        Some(rest) => rest.drain(drain_time).await,
        None => true,
    };

    let error = response.extensions_mut().remove::<ApiError>();
    if let Some(error) = &error {
        if is_openai {
            write_openai_error(&mut response, error, &identity.request_id);
        } else {
            write_problem(&mut response, error, &identity.request_id);
        }
    }

    if !drained {
        response
            .headers_mut()
            .insert(header::CONNECTION, HeaderValue::from_static("close"));
    }

    identity.write(response.headers_mut());
    write_security_headers(response.headers_mut());
    let status = response.status();
    record(&method, route, status, began);
    log(&method, route, status, began, &identity, error.as_ref());

    response
}

/// Counts a request while it is in progress, however it ends.
struct InFlight(Arc<AtomicUsize>);

impl InFlight {
    fn count(counter: &Arc<AtomicUsize>) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(counter))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The response to an unknown path.
pub async fn unknown_route() -> ApiError {
    no_such_path()
}

pub fn no_such_path() -> ApiError {
    ApiError::new(problems::UNKNOWN_ROUTE, "there is no endpoint at this path")
}

/// The response to an unsupported method; the router adds the header `Allow`.
pub async fn wrong_method() -> ApiError {
    ApiError::new(
        problems::METHOD_NOT_ALLOWED,
        "this endpoint does not support the method",
    )
}

/// The response after a panic in a handler. The panic hook has logged the location.
pub fn after_panic(_: Box<dyn Any + Send + 'static>) -> Response {
    metrics::counter!(names::HTTP_PANICS_TOTAL).increment(1);
    ApiError::internal("a handler panicked").into_response()
}

/// Leaves errors uncompressed: their body is written later, outside of the compression layer.
#[derive(Clone, Copy)]
pub struct NotProblem;

impl Predicate for NotProblem {
    fn should_compress<B: HttpBody>(&self, response: &axum::http::Response<B>) -> bool {
        response.extensions().get::<ApiError>().is_none()
    }
}

fn write_problem(response: &mut Response, error: &ApiError, request_id: &str) {
    let body = serde_json::to_vec(&error.problem(request_id)).unwrap_or_default();
    *response.body_mut() = Body::from(body);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, PROBLEM_JSON);
    response.headers_mut().remove(header::CONTENT_LENGTH);
}

/// The error as OpenAI's clients expect it.
fn write_openai_error(response: &mut Response, error: &ApiError, request_id: &str) {
    let kind = match error.kind.status {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    };
    let param = error.errors.first().map(|one| one.field.clone());
    let param = param.map_or_else(
        || error.context.get("param").cloned(),
        |one| Some(one.into()),
    );
    let body = serde_json::json!({"error": {
        "message": format!("{}. {}", error.detail.trim_end_matches('.'), error.remediation),
        "type": kind, "param": param, "code": error.kind.code, "request_id": request_id,
    }});
    *response.body_mut() = Body::from(body.to_string());
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response.headers_mut().remove(header::CONTENT_LENGTH);
}

fn write_security_headers(headers: &mut HeaderMap) {
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; frame-ancestors 'none'",
        ),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
}

fn record(method: &Method, route: &str, status: StatusCode, began: Instant) {
    // Every invented method would create a new label.
    let known = [
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::HEAD,
        Method::OPTIONS,
    ];

    let method = if known.contains(method) {
        method.as_str().to_owned()
    } else {
        "OTHER".to_owned()
    };

    let status = status.as_u16().to_string();
    metrics::histogram!(
        names::HTTP_REQUEST_DURATION_SECONDS, "method" => method, "route" => route.to_owned(), "status" => status
    )
    .record(began.elapsed());
}

/// One line per request. It does not contain the path, which may contain user data.
fn log(
    method: &Method,
    route: &str,
    status: StatusCode,
    began: Instant,
    identity: &RequestIdentity,
    error: Option<&ApiError>,
) {
    let (request_id, trace_id) = (identity.request_id.as_str(), identity.trace_id.as_str());
    // Microsecond precision.
    let (status, ms) = (
        status.as_u16(),
        (began.elapsed().as_secs_f64() * 1e6).round() / 1e3,
    );

    let code = error.map(|error| error.kind.code);
    if let Some(cause) = error.and_then(|error| error.cause.as_deref()) {
        tracing::error!(%method, route, status, ms, request_id, trace_id, code, cause, "request failed");
    } else if route.starts_with("/health") {
        tracing::debug!(%method, route, status, ms, request_id, trace_id, code, "request");
    } else {
        tracing::info!(%method, route, status, ms, request_id, trace_id, code, "request");
    }
}
