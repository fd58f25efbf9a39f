//! Which models can be asked here, and a tiny call that tries one.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::JsonBody;
use crate::http::trace::RequestIdentity;
use crate::llm::{Llm, ModelsView, PauseView, ProviderView, Session};

/// The models of this installation.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ModelListResponse {
    /// The model for everything that has none of its own, as `provider:model`.
    #[schema(example = "local:embedded")]
    pub default: String,
    /// Asked once when another is away or gives no usable answer.
    pub fallback: Option<String>,
    /// The model of each stage.
    pub stages: BTreeMap<String, String>,
    pub items: Vec<ProviderResponse>,
}

/// A provider.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ProviderResponse {
    /// The part before the colon of `provider:model`.
    #[schema(example = "openai")]
    pub name: String,
    /// The protocol it speaks: `openai`, `anthropic`, `gemini` or `local`.
    pub kind: String,
    /// Its own model, when only the provider is named.
    pub model: Option<String>,
    /// Whether it can be asked: it has an address, and a key where it needs one.
    pub configured: bool,
    /// Whether it is left alone for a while, as it failed too often in a row.
    pub resting: bool,
    /// Where it refuses its key, its account or the name of a model. Jobs that need it wait,
    /// queries are answered 502, and one call now and then tries whether it answers again. Empty:
    /// it is not paused.
    pub pauses: Vec<PauseResponse>,
    /// How its own model's answers are made to keep their schema: `native`, `tool`, `prompted` or
    /// `embedded`.
    pub structured_output: String,
    /// Requests at once.
    pub max_concurrency: u64,
    /// Requests a minute; 0 is no limit.
    pub requests_per_minute: u64,
    /// Tokens a minute; 0 is no limit.
    pub tokens_per_minute: u64,
    /// By model; `*` is any other.
    pub prices: BTreeMap<String, PriceResponse>,
}

/// A pause of a provider.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct PauseResponse {
    /// The model that is paused; null if the whole provider is.
    pub model: Option<String>,
    /// The code of the problem that calls are answered with: `provider_auth`, `provider_quota` or
    /// `model_not_found`.
    #[schema(example = "provider_auth")]
    pub code: String,
    /// What the provider said.
    pub detail: String,
    /// What to do about it.
    pub remediation: String,
    #[schema(format = DateTime)]
    pub since: String,
    /// When one call is let through to see whether the provider answers again. `POST
    /// /v1/models/probe` does not wait for it, and ends the pause if it succeeds.
    #[schema(format = DateTime)]
    pub next_probe_at: String,
}

/// US dollars for a million tokens.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct PriceResponse {
    pub input: f64,
    pub output: f64,
    /// Of what the provider had in its cache.
    pub cached: Option<f64>,
}

/// What to try.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"model": "openai:gpt-4o-mini"}))]
pub struct ProbeModelRequest {
    /// `provider:model`, or a provider alone for its own model; the default model if left out.
    #[serde(default)]
    pub model: Option<String>,
}

/// How it went.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ProbeModelResponse {
    /// Whether the model answered, and kept its schema.
    pub ok: bool,
    /// `provider:model`.
    pub model: String,
    /// The mode of the last attempt.
    pub mode: Option<String>,
    /// How often it was asked.
    pub attempts: u64,
    /// Of the last attempt.
    pub latency_ms: Option<f64>,
    /// Tokens sent, all attempts together.
    pub tokens_prompt: i64,
    /// Tokens received, all attempts together.
    pub tokens_completion: i64,
    /// Of all attempts together; null if the price is not known.
    pub cost_usd: Option<f64>,
    /// What went wrong, and what to do about it.
    pub error: Option<Problem>,
}

/// List the models
///
/// Every provider that is configured or built in, with its output mode and prices; who does what.
#[utoipa::path(
    get, path = "/v1/models", tag = "models", operation_id = "list_models",
    responses((status = 200, description = "The models.", body = ModelListResponse))
)]
pub async fn list_models(_: Caller, State(llm): State<Llm>) -> Json<ModelListResponse> {
    Json(llm.models().into())
}

/// Try a model
///
/// Asks one tiny query, which may cost a few tokens and counts towards the caps. No other model
/// answers in its place, and a provider that is left alone for a while or paused is asked all the
/// same; a success ends that at once. A model that cannot be asked is no error of this request:
/// `ok` is false, and `error` says why. A spend cap that is reached is 429.
#[utoipa::path(
    post, path = "/v1/models/probe", tag = "models", operation_id = "probe_model", request_body = ProbeModelRequest,
    responses(
        (status = 200, description = "How it went.", body = ProbeModelResponse),
        (status = 429, response = crate::http::openapi::ProblemResponse)
    )
)]
pub async fn probe_model(
    caller: Caller,
    State(llm): State<Llm>,
    Extension(identity): Extension<RequestIdentity>,
    JsonBody { value: request, .. }: JsonBody<ProbeModelRequest>,
) -> Result<Json<ProbeModelResponse>, ApiError> {
    caller.check_model(&llm, "model", request.model.as_deref())?;
    let budget = caller.budget();
    let session = Session::of_caller(caller.space)
        .with_model(request.model)
        .traced_by(Some(identity.traceparent()));
    let session = session.within(budget);
    let probed = llm.probe(session).await?;
    let error = probed
        .error
        .map(|error| ApiError::from(error).problem(&identity.request_id));
    let last = probed.calls.last();

    Ok(Json(ProbeModelResponse {
        ok: error.is_none(),
        model: probed.model,
        mode: last.map(|call| call.mode.clone()),
        attempts: probed.calls.len() as u64,
        latency_ms: last.map(|call| call.latency_ms),
        tokens_prompt: probed.calls.iter().map(|call| call.tokens_prompt).sum(),
        tokens_completion: probed.calls.iter().map(|call| call.tokens_completion).sum(),
        cost_usd: probed.calls.iter().map(|call| call.cost_usd).sum(),
        error,
    }))
}

impl From<ModelsView> for ModelListResponse {
    fn from(view: ModelsView) -> Self {
        let items = view
            .providers
            .into_iter()
            .map(ProviderResponse::from)
            .collect();
        Self {
            default: view.default,
            fallback: view.fallback,
            stages: view.stages,
            items,
        }
    }
}

impl From<PauseView> for PauseResponse {
    fn from(view: PauseView) -> Self {
        Self {
            model: view.model,
            code: view.code.to_owned(),
            detail: view.detail,
            remediation: view.remediation,
            since: view.since.to_string(),
            next_probe_at: view.next_probe_at.to_string(),
        }
    }
}

impl From<ProviderView> for ProviderResponse {
    fn from(view: ProviderView) -> Self {
        let prices = view.prices.into_iter().map(|(model, price)| {
            (
                model,
                PriceResponse {
                    input: price.input,
                    output: price.output,
                    cached: price.cached,
                },
            )
        });
        Self {
            name: view.name,
            kind: view.kind.to_owned(),
            model: view.model,
            configured: view.configured,
            resting: view.resting,
            pauses: view.pauses.into_iter().map(PauseResponse::from).collect(),
            structured_output: view.structured_output.to_owned(),
            max_concurrency: view.max_concurrency,
            requests_per_minute: view.requests_per_minute,
            tokens_per_minute: view.tokens_per_minute,
            prices: prices.collect(),
        }
    }
}
