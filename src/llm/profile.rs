//! A provider with its client, gate, breaker, pauses and prices, and what memoir has learnt about
//! its models.

use std::collections::{BTreeSet, HashMap};
use std::sync::{OnceLock, PoisonError, RwLock};
use std::time::Duration;

use super::breaker::Breaker;
use super::gate::Gate;
use super::pause::Pauses;
use super::provider::{Capabilities, Mode, Provider, Usage};
use super::provider_error::ProviderError;
use super::providers;
use super::small_models::is_small;
use crate::config;
use crate::config::Secret;
use crate::config::llm::{Kind, StructuredOutput, Supports};

/// One provider, ready for calls.
pub struct Profile {
    pub settings: config::llm::Provider,
    pub capabilities: Capabilities,
    client: OnceLock<Box<dyn Provider>>,
    transport: config::llm::Transport,
    pub gate: Gate,
    pub breaker: Breaker,
    pub pauses: Pauses,
    learnt: RwLock<HashMap<String, Learnt>>,
}

/// What memoir has learnt from a model's responses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Learnt {
    /// The mode that works after a better one was rejected.
    pub mode: Option<Mode>,
    /// The model rejects a closed choice or limits in the schema.
    pub plain_schema: bool,
    /// The model writes endlessly or omits items unless the schema limits lists and texts.
    pub bounded: bool,
    pub refused: BTreeSet<Parameter>,
}

/// A parameter that a model may reject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Parameter {
    Temperature,
    Seed,
    /// `max_tokens`, the old name.
    MaxTokens,
    /// `max_completion_tokens`, the new name.
    MaxCompletionTokens,
    /// `stream_options`, with which a stream reports its tokens.
    StreamOptions,
}

impl Profile {
    pub fn new(settings: config::llm::Provider, transport: &config::llm::Transport) -> Self {
        Self {
            capabilities: providers::capabilities(settings.kind),
            client: OnceLock::new(),
            transport: transport.clone(),
            gate: Gate::new(
                settings.max_concurrency,
                settings.requests_per_minute,
                settings.tokens_per_minute,
            ),
            pauses: Pauses::new(&settings.name),
            breaker: Breaker::new(
                transport.breaker_failures,
                Duration::from_secs(transport.breaker_cooldown),
            ),
            learnt: RwLock::default(),
            settings,
        }
    }

    /// Its client, created on first use, because reading the certificates of this machine takes a
    /// while and most providers are never called.
    pub fn client(&self) -> &dyn Provider {
        &**self
            .client
            .get_or_init(|| providers::connect(&self.settings, &self.transport))
    }

    /// A text without our secrets.
    pub fn without_secrets(&self, text: String) -> String {
        let secrets = std::iter::once(&self.settings.api_key).chain(self.settings.headers.values());
        let secrets = secrets.map(Secret::expose);
        secrets
            .filter(|secret| secret.len() >= 4)
            .fold(text, |text, secret| text.replace(secret, "***"))
    }

    /// An error without our secrets, which some providers and gateways quote.
    pub fn redacted(&self, error: ProviderError) -> ProviderError {
        let clean = |text| self.without_secrets(text);
        match error {
            ProviderError::Status {
                status,
                message,
                codes,
                retry_after,
                should_retry,
            } => ProviderError::Status {
                status,
                message: clean(message),
                codes,
                retry_after,
                should_retry,
            },
            ProviderError::Broken(reason) => ProviderError::Broken(clean(reason)),
            other => other,
        }
    }

    /// What is known about a model, from its name and from its responses.
    pub fn learnt(&self, model: &str) -> Learnt {
        let known = self
            .learnt
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(model)
            .cloned();
        known.unwrap_or_else(|| self.guess(model))
    }

    /// Remembers what was learnt about a model, together with what other calls have learnt in the
    /// meantime, until the process ends.
    pub fn learn(&self, model: &str, learnt: Learnt) {
        let mut all = self.learnt.write().unwrap_or_else(PoisonError::into_inner);
        let known = all.entry(model.to_owned()).or_default();
        known.mode = known.mode.max(learnt.mode);
        known.plain_schema |= learnt.plain_schema;
        known.bounded |= learnt.bounded;

        known.refused.extend(learnt.refused);
    }

    /// A model that writes text instead of calling a tool does not support tools: from now on it
    /// gets the schema in the prompt.
    pub fn learn_to_prompt(&self, model: &str) {
        self.learn(
            model,
            Learnt {
                mode: Some(Mode::Prompted),
                ..self.learnt(model)
            },
        );
    }

    /// A model on a local server whose output was truncated, or that took too long, may write
    /// endlessly, and one that omits items ends its lists too early: from now on its schema has
    /// limits.
    pub fn learn_to_bound(&self, model: &str) {
        if self.can_be_bounded() {
            self.learn(
                model,
                Learnt {
                    bounded: true,
                    ..self.learnt(model)
                },
            );
        }
    }

    /// Whether its schemas may get limits: models elsewhere do not need them and do not always
    /// support them.
    pub fn can_be_bounded(&self) -> bool {
        self.settings.base_url.starts_with("http://")
    }

    /// The output mode to start with.
    pub fn mode(&self, learnt: &Learnt) -> Mode {
        if self.capabilities.in_process {
            return Mode::Embedded;
        }

        let configured = match self.settings.structured_output {
            StructuredOutput::Native | StructuredOutput::Auto => Mode::Native,
            StructuredOutput::Tool => Mode::Tool,
            StructuredOutput::Prompted => Mode::Prompted,
        };
        configured.max(learnt.mode.unwrap_or(configured))
    }

    /// Cost in US dollars, if the price is known; computation in this process is free.
    pub fn cost(&self, model: &str, usage: Usage) -> Option<f64> {
        if self.capabilities.in_process {
            return Some(0.0);
        }

        let price = self.settings.price(model)?;
        let cached = price.cached.unwrap_or(price.input);
        let sum = precise(usage.prompt - usage.cached) * price.input
            + precise(usage.cached) * cached
            + precise(usage.completion) * price.output;
        Some(sum / 1e6)
    }

    /// Whether a model names categories without a list.
    pub fn names_freely(&self, model: &str) -> bool {
        match self.settings.free_naming {
            Supports::Yes => !self.capabilities.in_process,
            Supports::No => false,
            Supports::Auto => is_small(model),
        }
    }

    /// What the name shows: reasoning models accept no temperature, and Anthropic's protocol has no
    /// seed.
    fn guess(&self, model: &str) -> Learnt {
        let mut learnt = Learnt::default();
        let takes_temperature = match self.settings.supports_temperature {
            Supports::Yes => true,
            Supports::No => false,
            Supports::Auto => !is_reasoning(model),
        };

        if !takes_temperature {
            learnt.refused.insert(Parameter::Temperature);
        }

        if self.settings.kind == Kind::Anthropic {
            learnt.refused.insert(Parameter::Seed);
        }

        if self.settings.base_url.contains("api.openai.com") {
            learnt.refused.insert(Parameter::MaxTokens);
        }

        learnt
    }
}

/// Whether the model is known to reject sampling parameters.
fn is_reasoning(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let chat = name.contains("-chat");
    let openai = ["o1", "o3", "o4", "gpt-5"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
        && !chat;

    let anthropic = [
        "claude-opus-4-7",
        "claude-opus-4-8",
        "claude-opus-5",
        "claude-sonnet-5",
        "claude-fable",
        "claude-mythos",
    ];

    openai || anthropic.iter().any(|prefix| name.starts_with(prefix))
}

#[expect(clippy::cast_precision_loss, reason = "tokens of one call")]
fn precise(tokens: i64) -> f64 {
    tokens as f64
}
