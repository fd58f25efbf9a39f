//! `[llm]`: the model of each stage, how to reach providers, and what may be spent.
//!
//! A provider entry contains only what differs from `llm.provider_defaults`. Keys are read here,
//! once, so that nothing else reads the environment.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Openai,
    Anthropic,
    Gemini,
    Local,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Local => "local",
        }
    }
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

/// Whether models accept a parameter.
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

    fn validate(&self, violations: &mut Violations) {
        self.check_model("llm.model", &self.model, violations);
        self.check_model("llm.fallback_model", &self.fallback_model, violations);
        for (stage, model) in &self.models {
            self.check_model(&format!("llm.models.{stage}"), model, violations);
        }

        check_amount("llm.temperature", self.temperature, 2.0, violations);
        violations.check_range(
            "llm.max_output_tokens",
            self.max_output_tokens,
            16..=1_000_000,
            4096,
        );

        violations.check_range("llm.validation_retries", self.validation_retries, 0..=10, 1);
        violations.check_range("llm.max_concurrency", self.max_concurrency, 1..=1000, 4);
        let transport = &self.transport;
        violations.check_range("llm.transport.tries", transport.tries, 1..=20, 3);
        violations.check_range(
            "llm.transport.backoff_ms",
            transport.backoff_ms,
            1..=600_000,
            500,
        );

        violations.check_range(
            "llm.transport.backoff_cap_ms",
            transport.backoff_cap_ms,
            1..=600_000,
            8000,
        );

        violations.check_range(
            "llm.transport.retry_after_cap",
            transport.retry_after_cap,
            1..=3600,
            60,
        );

        violations.check_range(
            "llm.transport.connect_timeout",
            transport.connect_timeout,
            1..=300,
            10,
        );

        violations.check_range(
            "llm.transport.read_timeout",
            transport.read_timeout,
            1..=3600,
            120,
        );

        violations.check_range(
            "llm.transport.total_timeout",
            transport.total_timeout,
            1..=86_400,
            300,
        );

        violations.check_range(
            "llm.transport.breaker_failures",
            transport.breaker_failures,
            1..=1000,
            10,
        );

        violations.check_range(
            "llm.transport.breaker_cooldown",
            transport.breaker_cooldown,
            1..=3600,
            30,
        );

        for (name, caps) in [
            ("job", &self.caps.job),
            ("query", &self.caps.query),
            ("space_day", &self.caps.space_day),
        ] {
            check_amount(&format!("llm.caps.{name}.usd"), caps.usd, 1e9, violations);
        }

        for provider in &self.providers {
            provider.validate(violations);
        }

        self.check_prices(violations);
    }

    /// A cap in dollars has no effect if a price is unknown.
    fn check_prices(&self, violations: &mut Violations) {
        let caps = [
            ("job", self.caps.job),
            ("query", self.caps.query),
            ("space_day", self.caps.space_day),
        ];

        let Some((cap, _)) = caps.iter().find(|(_, caps)| caps.usd > 0.0) else {
            return;
        };
        let models = self
            .models
            .values()
            .chain([&self.model, &self.fallback_model])
            .filter(|model| !model.is_empty());

        for given in models.collect::<std::collections::BTreeSet<_>>() {
            let (name, model) = given.split_once(':').unwrap_or((given, ""));
            let provider = self
                .providers
                .iter()
                .find(|provider| provider.name == name && provider.kind != Kind::Local);

            let Some(provider) = provider else { continue };
            let model = if model.is_empty() {
                &provider.model
            } else {
                model
            };

            if provider.price(model).is_none() {
                violations.add(
                    Violation::new(&format!("llm.providers.{name}.prices"), "(none)")
                        .allowed(&format!(
                            "a price for {model}, because llm.caps.{cap}.usd is set"
                        ))
                        .example(example_of(".prices")),
                );
            }
        }
    }

    /// A model must name an existing provider that can be used.
    fn check_model(&self, key: &str, given: &str, violations: &mut Violations) {
        if given.is_empty() {
            return;
        }

        let (name, model) = given.split_once(':').unwrap_or((given, ""));
        let example = format!(
            "{} = \"openai:gpt-4o-mini\"",
            key.rsplit('.').next().unwrap_or(key)
        );

        let wrong = |allowed: String| {
            Violation::new(key, format!("{given:?}"))
                .allowed(&allowed)
                .example(&example)
        };

        // An error of the provider itself is already reported.
        if violations.concern(&format!("llm.providers.{name}.")) {
            return;
        }

        let Some(provider) = self.providers.iter().find(|provider| provider.name == name) else {
            let known: Vec<&str> = self
                .providers
                .iter()
                .map(|provider| provider.name.as_str())
                .collect();

            violations.add(wrong(format!(
                "provider:model with one of these providers: {}",
                known.join(", ")
            )));

            return;
        };

        if model.is_empty() && provider.model.is_empty() {
            violations.add(wrong(format!(
                "provider:model; {name} has no default model"
            )));
        } else if provider.kind != Kind::Local && provider.base_url.is_empty() {
            violations.add(wrong(format!(
                "a provider with an address: set llm.providers.{name}.base_url"
            )));
        } else if provider.lacks_key() {
            violations.add(wrong(format!(
                "a provider with a key: set {} or llm.providers.{name}.api_key_file",
                provider.api_key_env
            )));
        }
    }
}

impl Provider {
    fn validate(&self, violations: &mut Violations) {
        let key = |field: &str| format!("llm.providers.{}.{field}", self.name);
        let well_named = !self.name.is_empty()
            && self
                .name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));

        if !well_named || self.name.len() > 64 {
            violations.add(
                Violation::new("llm.providers", &self.name)
                    .allowed("a name of at most 64 letters, digits, -, _ and .")
                    .example("[llm.providers.mine]"),
            );
        }

        let web = |url: &url::Url| matches!(url.scheme(), "http" | "https") && url.has_host();
        if !self.base_url.is_empty() && !url::Url::parse(&self.base_url).is_ok_and(|url| web(&url))
        {
            violations.add(
                Violation::new(&key("base_url"), super::mask::mask_url(&self.base_url))
                    .allowed("an http or https address")
                    .example("base_url = \"http://127.0.0.1:8000/v1\""),
            );
        }

        if self.base_url.ends_with("/chat/completions") || self.base_url.contains('?') {
            violations.add(
                Violation::new(&key("base_url"), super::mask::mask_url(&self.base_url))
                    .allowed("an address that ends with the version, without a further path")
                    .example("base_url = \"http://127.0.0.1:8000/v1\""),
            );
        }

        if http::HeaderValue::from_str(self.api_key.expose()).is_err()
            || !self.api_key.expose().is_ascii()
        {
            violations.add(
                Violation::new(&key("api_key"), super::mask::MASK)
                    .allowed("a key on one line, without special characters")
                    .example("api_key_file = \"/run/secrets/key\""),
            );
        }

        for (name, value) in &self.headers {
            let fine = http::HeaderName::from_bytes(name.as_bytes()).is_ok()
                && http::HeaderValue::from_str(value.expose()).is_ok();
            if !fine {
                violations.add(
                    Violation::new(&key(&format!("headers.{name}")), super::mask::MASK)
                        .allowed("a header name and a value on one line")
                        .example("headers = { \"X-Org\" = \"acme\" }"),
                );
            }
        }

        violations.check_range(&key("max_concurrency"), self.max_concurrency, 1..=10_000, 8);
        for (model, price) in &self.prices {
            for amount in [price.input, price.output, price.cached.unwrap_or(0.0)] {
                check_amount(&key(&format!("prices.{model}")), amount, 1e6, violations);
            }
        }
    }
}

fn check_amount(key: &str, value: f64, most: f64, violations: &mut Violations) {
    if !(0.0..=most).contains(&value) {
        let name = key.rsplit('.').next().unwrap_or(key);
        violations.add(
            Violation::new(key, value.to_string())
                .allowed(&format!("a number from 0 to {most}"))
                .example(&format!("{name} = 0")),
        );
    }
}
