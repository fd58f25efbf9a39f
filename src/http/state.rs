//! Shared state of the handlers: the areas, the clock, and the HTTP settings.

use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::FromRef;
use axum::http::{HeaderName, HeaderValue, Method, header};
use tokio_util::sync::CancellationToken;
use tower_http::cors::CorsLayer;

use super::body_budget::BodyBudget;
use super::idempotency::Runs;
use crate::base::clock::Clock;
use crate::categories::Categories;
use crate::connect::openai::OpenAi;
use crate::contextual_helpers::ContextualHelpers;
use crate::conversation::Conversation;
use crate::erasure::Erasures;
use crate::ingestion::Ingestion;
use crate::jobs::Jobs;
use crate::keys::Keys;
use crate::llm::Llm;
use crate::memory_retrieval::{MemoryPolicies, MemoryRetrieval};
use crate::queries::Queries;
use crate::retrieval::Retrieval;
use crate::search::Search;
use crate::sources::Sources;
use crate::sources::retrieval::DocumentRetrieval;
use crate::spaces::Spaces;
use crate::store::Store;
use crate::workbench::Workbench;

/// Passed to every handler; cheap to clone.
#[derive(Clone)]
pub struct AppState {
    pub store: Store,
    pub keys: Keys,
    pub spaces: Spaces,
    pub sources: Sources,
    pub documents: DocumentRetrieval,
    pub jobs: Jobs,
    pub ingestion: Ingestion,
    pub categories: Categories,
    pub helpers: ContextualHelpers,
    pub llm: Llm,
    pub queries: Queries,
    pub search: Search,
    pub retrieval: Retrieval,
    pub policies: MemoryPolicies,
    pub memory: MemoryRetrieval,
    pub conversation: Conversation,
    pub openai: OpenAi,
    pub erasures: Erasures,
    pub workbench: Workbench,
    pub clock: Arc<dyn Clock>,
    pub settings: Arc<HttpSettings>,
    /// The memory that all request bodies may use together.
    pub body_budget: BodyBudget,
    /// Requests with a key that run outside of a transaction.
    pub runs: Runs,
    /// Requests in progress.
    pub in_flight: Arc<AtomicUsize>,
    /// Set on shutdown; from then on the service is not ready.
    pub stop: CancellationToken,
}

/// The HTTP settings.
pub struct HttpSettings {
    pub max_body_bytes: usize,
    /// The folder whose files can be ingested by path.
    pub ingestion_root: Option<PathBuf>,
    pub body_timeout: Duration,
    pub cors_origins: Vec<String>,
    /// What agents are offered over `/mcp`.
    pub mcp: crate::config::Mcp,
    /// Whether requests may set the current time, and whether probe jobs may be queued.
    #[cfg(feature = "testing")]
    pub testing: crate::config::Testing,
    /// The response of `GET /v1/info`: without and with required keys.
    pub info_json: [Bytes; 2],
    /// The response of `GET /v1/info` once models were noticed on this machine.
    pub info_with_local_models: OnceLock<[Bytes; 2]>,
    /// Renders the metrics of this process.
    pub render_metrics: Box<dyn Fn() -> String + Send + Sync>,
}

impl AppState {
    /// The rules for cross-origin requests; none unless configured.
    pub fn cors(&self) -> Option<CorsLayer> {
        let origins: Vec<HeaderValue> = self
            .settings
            .cors_origins
            .iter()
            .filter_map(|origin| HeaderValue::from_str(origin).ok())
            .collect();

        if origins.is_empty() {
            return None;
        }

        let asked = [
            "x-memoir-space",
            "x-memoir-redact",
            "x-memoir-thread",
            "x-memoir-user",
            "x-memoir-context",
            "idempotency-key",
            "x-request-id",
            "traceparent",
            "last-event-id",
        ];

        let asked = asked.map(HeaderName::from_static);
        let standard = [
            header::AUTHORIZATION,
            header::CONTENT_TYPE,
            header::IF_MATCH,
            header::IF_NONE_MATCH,
        ];

        let told = [
            header::ETAG,
            header::LOCATION,
            header::RETRY_AFTER,
            HeaderName::from_static("x-request-id"),
            HeaderName::from_static("x-memoir-thread-id"),
            HeaderName::from_static("x-memoir-context-tokens"),
            HeaderName::from_static("x-memoir-memories"),
        ];

        Some(
            CorsLayer::new()
                .allow_origin(origins)
                .allow_methods([
                    Method::GET,
                    Method::POST,
                    Method::PUT,
                    Method::PATCH,
                    Method::DELETE,
                ])
                .allow_headers(asked.into_iter().chain(standard).collect::<Vec<_>>())
                .expose_headers(told)
                .max_age(Duration::from_hours(1)),
        )
    }
}

/// Lets a handler take one area of the state.
macro_rules! areas {
    ($($area:ty: $field:ident,)*) => {$(
        impl FromRef<AppState> for $area {
            fn from_ref(state: &AppState) -> Self {
                state.$field.clone()
            }
        }
    )*};
}

areas! {
    Erasures: erasures,
    Jobs: jobs,
    DocumentRetrieval: documents,
    Categories: categories,
    Llm: llm,
    Queries: queries,
    Sources: sources,
    Retrieval: retrieval,
    Conversation: conversation,
    MemoryRetrieval: memory,
    MemoryPolicies: policies,
    Keys: keys,
    Spaces: spaces,
    Workbench: workbench,
}
