//! The available models: the providers with their modes and prices, and a tiny call that probes
//! one.

use std::collections::BTreeMap;

use super::pause::Paused;
use super::tasks::probe::Probe;
use super::{Llm, LlmError, Session};
use crate::base::clock::Timestamp;
use crate::config::llm::Price;
use crate::model::llm_call::LlmCall;

/// The providers and the model of each stage.
#[derive(Debug, Clone)]
pub struct ModelsView {
    /// `provider:model` for every stage without its own model.
    pub default: String,
    pub fallback: Option<String>,
    /// By stage.
    pub stages: BTreeMap<String, String>,
    pub providers: Vec<ProviderView>,
}

/// One provider as shown to users, without its key and address.
#[derive(Debug, Clone)]
pub struct ProviderView {
    pub name: String,
    pub kind: &'static str,
    pub model: Option<String>,
    pub configured: bool,
    /// Temporarily avoided after too many consecutive failures.
    pub resting: bool,
    /// Pauses after a rejected key, account or model: no calls except a probe at intervals.
    pub pauses: Vec<PauseView>,
    pub structured_output: &'static str,
    pub max_concurrency: u64,
    pub requests_per_minute: u64,
    pub tokens_per_minute: u64,
    pub prices: BTreeMap<String, Price>,
}

/// A pause as shown to users.
#[derive(Debug, Clone)]
pub struct PauseView {
    /// `None`: all models of the provider.
    pub model: Option<String>,
    /// The problem code that calls receive.
    pub code: &'static str,
    pub detail: String,
    pub remediation: String,
    pub since: Timestamp,
    pub next_probe_at: Timestamp,
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
                prices: provider.prices.clone(),
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
