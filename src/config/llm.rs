//! `[llm]`: the model of each stage, how to reach providers, and what may be spent.
//!
//! A provider entry contains only what differs from `llm.provider_defaults`. Keys are read here,
//! once, so that nothing else reads the environment.

mod validation;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};
use strum::IntoStaticStr;

use super::{Origin, Secret, Violation, Violations};

/// The name of the embedded model's provider.
pub const LOCAL: &str = "local";

/// The name of its one model.
pub const EMBEDDED: &str = "embedded";

/// The settings of models and providers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Llm {
    /// `provider:model`, resolved: never empty.
    pub model: String,
    pub fallback_model: String,
    pub temperature: f64,
    pub max_output_tokens: u64,
    pub validation_retries: u64,
    pub max_concurrency: u64,
    /// Whether to look for model servers on this machine at the start.
    pub notice_local_models: bool,
    /// The model of each stage; empty if the stage uses `model`.
    pub models: BTreeMap<String, String>,
    pub transport: Transport,
    pub caps: CapSettings,
    #[serde(skip)]
    pub providers: Vec<Provider>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transport {
    pub tries: u64,
    pub backoff_ms: u64,
    pub backoff_cap_ms: u64,
    pub retry_after_cap: u64,
    pub connect_timeout: u64,
    pub read_timeout: u64,
    pub total_timeout: u64,
    pub breaker_failures: u64,
    pub breaker_cooldown: u64,
}

impl Transport {
    /// The wait after the given attempt, which starts at 1, before jitter.
    pub fn pause(&self, attempt: u64) -> Duration {
        let doubled = self
            .backoff_ms
            .saturating_mul(1 << attempt.saturating_sub(1).min(20));
        Duration::from_millis(doubled.min(self.backoff_cap_ms))
    }
}

/// The spending caps by scope.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapSettings {
    pub job: Caps,
    pub query: Caps,
    pub space_day: Caps,
}

/// The maximum that may be spent; 0 means no cap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caps {
    pub calls: u64,
    pub tokens: u64,
    pub usd: f64,
}

impl Caps {
    /// Whether there is no cap at all.
    pub fn is_open(&self) -> bool {
        self.calls == 0 && self.tokens == 0 && self.usd <= 0.0
    }
}

/// A provider of models.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    #[serde(skip)]
    pub name: String,
    pub kind: Kind,
    pub base_url: String,
    pub api_key: Secret,
    pub api_key_env: String,
    pub model: String,
    pub structured_output: StructuredOutput,
    pub supports_temperature: Supports,
    pub free_naming: Supports,
    /// Whether it also has `/responses`.
    pub responses: bool,
    pub max_concurrency: u64,
    pub requests_per_minute: u64,
    pub tokens_per_minute: u64,
    pub headers: BTreeMap<String, Secret>,
    pub prices: BTreeMap<String, Price>,
}

impl Provider {
    /// Whether the provider can be used as configured.
    pub fn is_configured(&self) -> bool {
        self.kind == Kind::Local
            || (!self.base_url.is_empty()
                && (self.api_key_env.is_empty() || !self.api_key.expose().is_empty()))
    }

    /// Whether it certainly needs a key but has none; a server on the local machine may not need
    /// one.
    pub fn lacks_key(&self) -> bool {
        !self.is_configured() && self.base_url.starts_with("https://")
    }

    /// The price of a model, if it is known.
    pub fn price(&self, model: &str) -> Option<Price> {
        self.prices
            .get(model)
            .or_else(|| self.prices.get("*"))
            .copied()
    }
}

/// The protocol of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Kind {
    Openai,
    Anthropic,
    Gemini,
    Local,
}

/// How the output schema is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StructuredOutput {
    Auto,
    Native,
    Tool,
    Prompted,
}

/// Whether something holds for models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Supports {
    Auto,
    Yes,
    No,
}

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    pub input: f64,
    pub output: f64,
    /// Price of tokens served from the provider's cache; the normal price unless set.
    #[serde(default)]
    pub cached: Option<f64>,
}

/// Reads the section: merges providers with their defaults and reads their keys.
pub fn resolve(tree: &mut Map<String, Value>, origin: &Origin, violations: &mut Violations) -> Llm {
    let mut taken = |name: &str| match tree
        .get_mut("llm")
        .and_then(|llm| llm.as_object_mut()?.shift_remove(name))
    {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    };

    let (defaults, entries) = (taken("provider_defaults"), taken("providers"));
    let mut llm: Llm = super::section(tree, "llm", violations);
    for (name, entry) in entries {
        if let Some(provider) = read_provider(&name, &defaults, entry, origin, violations) {
            llm.providers.push(provider);
        }
    }

    if llm.model.is_empty() {
        llm.model = choose(&llm.providers);
    }

    llm.validate(violations);
    llm
}

fn read_provider(
    name: &str,
    defaults: &Map<String, Value>,
    entry: Value,
    origin: &Origin,
    violations: &mut Violations,
) -> Option<Provider> {
    let mut fields = defaults.clone();
    if let Value::Object(entry) = entry {
        fields.extend(entry);
    }

    let mut provider: Provider = match serde_path_to_error::deserialize(Value::Object(fields)) {
        Ok(provider) => provider,
        Err(error) => {
            let key = format!("llm.providers.{name}.{}", error.path());
            let secret = ["api_key", "headers"]
                .iter()
                .any(|field| key.contains(field));
            let rule = error.inner().to_string();
            violations.add(
                Violation::new(&key, "(value not shown)")
                    .allowed(if secret { "a string" } else { &rule })
                    .example(example_of(&key)),
            );

            return None;
        }
    };

    name.clone_into(&mut provider.name);
    provider.api_key = Secret::new(provider.api_key.expose().trim());
    let variable = origin
        .environment
        .get(&provider.api_key_env)
        .filter(|key| !key.trim().is_empty());

    if let Some(key) = variable.filter(|_| provider.api_key.expose().is_empty()) {
        provider.api_key = Secret::new(key.trim());
    }

    Some(provider)
}

fn example_of(key: &str) -> &'static str {
    if key.contains(".prices") {
        r#"prices = { "some-model" = { input = 0.15, output = 0.6 } }"#
    } else if key.contains(".headers") {
        r#"headers = { "X-Org" = "acme" }"#
    } else {
        "memoir config print lists every key under llm.provider_defaults"
    }
}

/// The first provider that has a key; the embedded model if there is none.
fn choose(providers: &[Provider]) -> String {
    let keyed = providers.iter().find(|provider| {
        provider.is_configured()
            && !provider.api_key.expose().is_empty()
            && !provider.model.is_empty()
    });
    keyed.map_or_else(
        || format!("{LOCAL}:embedded"),
        |provider| format!("{}:{}", provider.name, provider.model),
    )
}

impl Llm {
    /// The model of a stage, as `provider:model`.
    pub fn model_for(&self, stage: &str) -> &str {
        self.models
            .get(stage)
            .filter(|model| !model.is_empty())
            .unwrap_or(&self.model)
    }
}
