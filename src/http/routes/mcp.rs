//! `/mcp`: the Model Context Protocol over HTTP, without sessions: each request is complete in itself, so any process
//! can serve it. The tools call the routes of this process as their caller, with the caller's key and space.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::Response;
use axum::routing::post;
use futures_util::future::BoxFuture;
use http_body_util::Full;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::Value;

use crate::connect::mcp::api::{Api, ApiReply, ApiRequest, Unreachable};
use crate::connect::mcp::{McpScope, McpServer};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::state::AppState;
use crate::http::trace::{REQUEST_ID, RequestIdentity, TRACEPARENT};
use crate::http::{body, middleware, openapi};

/// Headers of the request that the calls of its tools get too: who calls, where, and in which trace.
const PASSED_ON: [HeaderName; 4] = [
    header::AUTHORIZATION,
    header::HOST,
    HeaderName::from_static("x-memoir-space"),
    HeaderName::from_static(TRACEPARENT),
];
#[cfg(feature = "testing")]
const NOW: HeaderName = HeaderName::from_static("x-memoir-now");
const REDACT: HeaderName = HeaderName::from_static("x-memoir-redact");

/// The routes of this process.
struct OwnRoutes(TowerToHyperService<Router>);

/// Adds `/mcp` to routes that serve the API.
pub fn add_to(router: Router, state: &AppState) -> Router {
    let document = openapi::to_json(openapi::Version::V3_1);
    let document: Value = serde_json::from_str(&document).unwrap_or_default();
    let api = OwnRoutes(TowerToHyperService::new(router.clone()));
    let server = McpServer::new(api, &state.settings.mcp, &document, McpScope::default());

    // No token ends its streams: a stop waits for a call in progress as for every other request, and no stream outlives
    // its call. Host and origin are checked for every route (`host`, `origin`), and the size of the body where it is read.
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .disable_allowed_hosts()
        .with_max_request_body_bytes(usize::MAX);
    let sessions = Arc::new(NeverSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(server.clone()), sessions, config);

    let (state, own) = (state.clone(), state.clone());
    let serve = move |_: Caller, request: Request| {
        let (state, service) = (own.clone(), service.clone());
        async move {
            let (parts, content) = request.into_parts();
            let (bytes, _reserved) = body::read(content, &state).await?;
            let request = Request::from_parts(parts, Full::new(bytes));
            Ok::<Response, ApiError>(service.handle(request).await.map(Body::new))
        }
    };
    router.merge(
        Router::new()
            .route("/mcp", post(serve))
            .method_not_allowed_fallback(middleware::wrong_method)
            .with_state(state),
    )
}

impl Api for OwnRoutes {
    fn send<'a>(
        &'a self,
        request: ApiRequest,
        headers: &'a HeaderMap,
    ) -> BoxFuture<'a, Result<ApiReply, Unreachable>> {
        Box::pin(async move {
            let mut request =
                request_of(request, headers).map_err(|error| Unreachable(error.to_string()))?;
            let identity = RequestIdentity::of(request.headers());
            request.extensions_mut().insert(identity.clone());
            let Ok(mut response) = self.0.call(request).await;
            // The layers around the routes would write it.
            if let Some(error) = response.extensions_mut().remove::<ApiError>() {
                let text =
                    serde_json::to_string(&error.problem(&identity.request_id)).unwrap_or_default();
                return Ok(ApiReply {
                    status: response.status(),
                    text,
                });
            }

            let status = response.status();
            let bytes = to_bytes(response.into_body(), usize::MAX).await;
            let bytes = bytes.map_err(|error| Unreachable(error.to_string()))?;
            Ok(ApiReply {
                status,
                text: String::from_utf8_lossy(&bytes).into_owned(),
            })
        })
    }
}

fn request_of(request: ApiRequest, headers: &HeaderMap) -> Result<Request, axum::http::Error> {
    let mut built = Request::builder()
        .method(request.method)
        .uri(request.path)
        .header(REDACT, HeaderValue::from_static("secrets"));
    for name in PASSED_ON {
        if let Some(value) = headers.get(&name) {
            built = built.header(name, value);
        }
    }
    if let Some(id) = headers.get(REQUEST_ID) {
        built = built.header(REQUEST_ID, id);
    }
    #[cfg(feature = "testing")]
    if let Some(now) = headers.get(NOW) {
        built = built.header(NOW, now);
    }

    let body = request
        .body
        .map_or_else(Body::empty, |body| Body::from(body.to_string()));
    let json = HeaderValue::from_static("application/json");
    built.header(header::CONTENT_TYPE, json).body(body)
}
