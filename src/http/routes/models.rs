//! The available models, and a probe call that tests one.

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
    /// The model for every stage without its own model, as `provider:model`.
    #[schema(example = "local:embedded")]
    pub default: String,
    /// The model that memoir tries once if another one is unavailable or returns no usable output.
    pub fallback: Option<String>,
    /// The model of each stage.
    pub stages: BTreeMap<String, String>,
    pub items: Vec<ProviderResponse>,
}

/// A provider.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ProviderResponse {
    /// The name of the provider, which is the part of `provider:model` before the colon.
    #[schema(example = "openai")]
    pub name: String,
    /// The protocol of the provider: `openai`, `anthropic`, `gemini` or `local`.
    pub kind: String,
    /// The default model of the provider.
    pub model: Option<String>,
    /// Whether the provider can be used: it has an address, and a key if it needs one.
    pub configured: bool,
    /// Whether memoir temporarily avoids the provider after too many consecutive failures.
    pub resting: bool,
    /// Active pauses. A pause begins when the provider rejects the key, the account or the name of
    /// a model. Jobs that need the provider wait, queries return 502, and memoir periodically sends
    /// one call to check whether the provider has recovered. Empty if the provider is not paused.
    pub pauses: Vec<PauseResponse>,
    /// How the output schema of its default model is enforced: `native`, `tool`, `prompted` or
    /// `embedded`.
    pub structured_output: String,
    /// Maximum number of concurrent requests.
    pub max_concurrency: u64,
    /// Maximum requests per minute; 0 means no limit.
    pub requests_per_minute: u64,
    /// Maximum tokens per minute; 0 means no limit.
    pub tokens_per_minute: u64,
    /// Prices by model; `*` applies to all other models.
    pub prices: BTreeMap<String, PriceResponse>,
}

/// A pause of a provider.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct PauseResponse {
    /// The paused model; null if the whole provider is paused.
    pub model: Option<String>,
    /// The problem code that calls receive: `provider_auth`, `provider_quota` or `model_not_found`.
    #[schema(example = "provider_auth")]
    pub code: String,
    /// The error message from the provider.
    pub detail: String,
    /// What to do about it.
    pub remediation: String,
    #[schema(format = DateTime)]
    pub since: String,
    /// When memoir sends the next call to check whether the provider has recovered. `POST
    /// /v1/models/probe` does not wait for it, and ends the pause if it succeeds.
    #[schema(format = DateTime)]
    pub next_probe_at: String,
}

/// US dollars per million tokens.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct PriceResponse {
    pub input: f64,
    pub output: f64,
    /// Price of tokens that the provider served from its cache.
    pub cached: Option<f64>,
}

/// The model to probe.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"model": "openai:gpt-4o-mini"}))]
pub struct ProbeModelRequest {
    /// `provider:model`, or just a provider for its default model; the default model of the
    /// installation if omitted.
    #[serde(default)]
    pub model: Option<String>,
}

/// The result of a probe.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ProbeModelResponse {
    /// Whether the model responded with output that matches the schema.
    pub ok: bool,
    /// `provider:model`.
    pub model: String,
    /// The output mode of the last attempt.
    pub mode: Option<String>,
    /// Number of attempts.
    pub attempts: u64,
    /// Latency of the last attempt.
    pub latency_ms: Option<f64>,
    /// Tokens sent in all attempts.
    pub tokens_prompt: i64,
    /// Tokens received in all attempts.
    pub tokens_completion: i64,
    /// Cost of all attempts; null if the price is unknown.
    pub cost_usd: Option<f64>,
    /// What went wrong and what to do about it.
    pub error: Option<Problem>,
}

/// List models
///
/// Returns every configured or built-in provider with its output mode and prices, and the model of
/// each stage.
#[utoipa::path(
    get, path = "/v1/models", tag = "models", operation_id = "list_models",
    responses((status = 200, description = "The models.", body = ModelListResponse))
)]
pub async fn list_models(_: Caller, State(llm): State<Llm>) -> Json<ModelListResponse> {
    Json(llm.models().into())
}

/// Probe a model
///
/// Sends one tiny request to the model, which may cost a few tokens and counts towards the spending
/// caps. No fallback model is used. The probe also calls a provider that is paused or temporarily
/// avoided, and a success ends that state immediately. If the model fails, the response is still
/// 200: `ok` is false and `error` gives the reason. Returns 429 if a spending cap is reached.
#[utoipa::path(
    post, path = "/v1/models/probe", tag = "models", operation_id = "probe_model", request_body = ProbeModelRequest,
    responses(
        (status = 200, description = "The result of the probe.", body = ProbeModelResponse),
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
        // The sum of nothing is -0.0, which would be written with its sign.
        cost_usd: probed
            .calls
            .iter()
            .map(|call| call.cost_usd)
            .sum::<Option<f64>>()
            .map(|sum| sum + 0.0),
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
