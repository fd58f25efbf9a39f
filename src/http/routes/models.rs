//! The available models, and a probe call that tests one.

use axum::extract::State;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::JsonBody;
use crate::http::trace::RequestIdentity;
use crate::llm::{Llm, ModelsView, Session};

/// The model to probe.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"model": "openai:gpt-4o-mini"}))]
pub struct ProbeModelRequest {
    /// `provider:model`, or just a provider for its default model; the default model of the
    /// installation if omitted.
    pub model: Option<String>,
}

/// The result of a probe.
#[derive(Debug, Serialize, ToSchema)]
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
    responses((status = 200, description = "The models.", body = ModelsView))
)]
pub async fn list_models(_: Caller, State(llm): State<Llm>) -> Json<ModelsView> {
    Json(llm.models())
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
    let session = Session::of_caller(caller.call).with_model(request.model);
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
