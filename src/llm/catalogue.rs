//! The available models: the providers with their modes and prices, and a tiny call that probes
//! one.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use super::pause::Paused;
use super::tasks::probe::Probe;
use super::{Llm, LlmError, Session};
use crate::base::clock::Timestamp;
use crate::config::llm::Price;
use crate::model::llm_call::LlmCall;

/// The models of this installation.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = ModelListResponse)]
pub struct ModelsView {
    /// The model for every stage without its own model, as `provider:model`.
    #[schema(example = "local:embedded")]
    pub default: String,
    /// The model that memoir tries once if another one is unavailable or returns no usable output.
    pub fallback: Option<String>,
    /// The model of each stage.
    pub stages: BTreeMap<String, String>,
    #[serde(rename = "items")]
    pub providers: Vec<ProviderView>,
}

/// A provider.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = ProviderResponse)]
pub struct ProviderView {
    /// The name of the provider, which is the part of `provider:model` before the colon.
    #[schema(example = "openai")]
    pub name: String,
    /// The protocol of the provider: `openai`, `anthropic`, `gemini` or `local`.
    pub kind: &'static str,
    /// The default model of the provider.
    pub model: Option<String>,
    /// Whether the provider can be used: it has an address, and a key if it needs one.
    pub configured: bool,
    /// Whether memoir temporarily avoids the provider after too many consecutive failures.
    pub resting: bool,
    /// Active pauses. A pause begins when the provider rejects the key, the account or the name of
    /// a model. Jobs that need the provider wait, queries return 502, and memoir periodically sends
    /// one call to check whether the provider has recovered. Empty if the provider is not paused.
    pub pauses: Vec<PauseView>,
    /// How the output schema of its default model is enforced: `native`, `tool`, `prompted` or
    /// `embedded`.
    pub structured_output: &'static str,
    /// Maximum number of concurrent requests.
    pub max_concurrency: u64,
    /// Maximum requests per minute; 0 means no limit.
    pub requests_per_minute: u64,
    /// Maximum tokens per minute; 0 means no limit.
    pub tokens_per_minute: u64,
    /// Prices by model; `*` applies to all other models.
    pub prices: BTreeMap<String, PriceView>,
}

/// A pause of a provider.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = PauseResponse)]
pub struct PauseView {
    /// The paused model; null if the whole provider is paused.
    pub model: Option<String>,
    /// The problem code that calls receive: `provider_auth`, `provider_quota` or `model_not_found`.
    #[schema(example = "provider_auth")]
    pub code: &'static str,
    /// The error message from the provider.
    pub detail: String,
    /// What to do about it.
    pub remediation: String,
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
    /// When memoir sends the next call to check whether the provider has recovered. `POST
    /// /v1/models/probe` does not wait for it, and ends the pause if it succeeds.
    #[schema(value_type = String, format = DateTime)]
    pub next_probe_at: Timestamp,
}

/// US dollars per million tokens.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = PriceResponse)]
pub struct PriceView {
    pub input: f64,
    pub output: f64,
    /// Price of tokens that the provider served from its cache.
    pub cached: Option<f64>,
}

/// The result of a probe.
#[derive(Debug)]
pub struct ProbeResult {
    pub model: String,
    /// Every attempt.
    pub calls: Vec<LlmCall>,
    pub error: Option<LlmError>,
}

impl Llm {
    /// Every configured or built-in provider.
    pub fn models(&self) -> ModelsView {
        let settings = self.settings();
        let providers = settings.providers.iter().filter_map(|provider| {
            let profile = self.inner.profiles.get(&provider.name)?;
            let default = profile.learnt(&provider.model);
            Some(ProviderView {
                name: provider.name.clone(),
                kind: provider.kind.into_str(),
                model: (!provider.model.is_empty()).then(|| provider.model.clone()),
                configured: provider.is_configured(),
                resting: profile.breaker.is_open(),
                pauses: profile
                    .pauses
                    .list()
                    .into_iter()
                    .map(|paused| self.show(paused))
                    .collect(),
                structured_output: profile.mode(&default).into_str(),
                max_concurrency: provider.max_concurrency,
                requests_per_minute: provider.requests_per_minute,
                tokens_per_minute: provider.tokens_per_minute,
                prices: provider.prices.iter().map(shown_price).collect(),
            })
        });

        let stages = settings
            .models
            .keys()
            .map(|stage| (stage.clone(), settings.model_for(stage).to_owned()));

        ModelsView {
            default: settings.model.clone(),
            fallback: (!settings.fallback_model.is_empty())
                .then(|| settings.fallback_model.clone()),
            stages: stages.collect(),
            providers: providers.collect(),
        }
    }

    fn show(&self, paused: Paused) -> PauseView {
        PauseView {
            code: paused.error.code(),
            detail: paused.error.to_string(),
            remediation: paused.error.remediation(),
            model: paused.model,
            since: paused.since,
            next_probe_at: self.now().plus(paused.next_probe_in),
        }
    }

    /// Probes a model with a tiny call; the default model if none is named.
    ///
    /// # Errors
    /// The model is unknown or a cap is reached; nothing was sent.
    pub async fn probe(&self, session: Session) -> Result<ProbeResult, LlmError> {
        let session = session.probing();
        let given = session
            .model
            .clone()
            .unwrap_or_else(|| self.settings().model.clone());

        let model = match self.target(&given) {
            Ok(target) => target.name(),
            Err(error @ LlmError::NoKey { .. }) => {
                return Ok(ProbeResult {
                    model: given,
                    calls: Vec::new(),
                    error: Some(error),
                });
            }
            Err(error) => return Err(error),
        };

        let error = match self.ask(&session, Probe).await {
            Ok(_) => None,
            Err(error @ (LlmError::SpendCapReached { .. } | LlmError::Store(_))) => {
                return Err(error);
            }
            Err(error) => Some(error),
        };

        Ok(ProbeResult {
            model,
            calls: session.calls(),
            error,
        })
    }
}

fn shown_price((model, price): (&String, &Price)) -> (String, PriceView) {
    let shown = PriceView {
        input: price.input,
        output: price.output,
        cached: price.cached,
    };
    (model.clone(), shown)
}
