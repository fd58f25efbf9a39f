//! The rules for `[llm]`; all violations are reported together.

use super::{Kind, Llm, Provider, example_of};
use crate::config::mask::{MASK, mask_url};
use crate::config::{Violation, Violations};

impl Llm {
    pub(super) fn validate(&self, violations: &mut Violations) {
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
                Violation::new(&key("base_url"), mask_url(&self.base_url))
                    .allowed("an http or https address")
                    .example("base_url = \"http://127.0.0.1:8000/v1\""),
            );
        }

        if self.base_url.ends_with("/chat/completions") || self.base_url.contains('?') {
            violations.add(
                Violation::new(&key("base_url"), mask_url(&self.base_url))
                    .allowed("an address that ends with the version of the API, such as /v1, and no further path")
                    .example("base_url = \"http://127.0.0.1:8000/v1\""),
            );
        }

        if http::HeaderValue::from_str(self.api_key.expose()).is_err()
            || !self.api_key.expose().is_ascii()
        {
            violations.add(
                Violation::new(&key("api_key"), MASK)
                    .allowed("a key of ASCII characters on one line")
                    .example("api_key_file = \"/run/secrets/key\""),
            );
        }

        for (name, value) in &self.headers {
            let fine = http::HeaderName::from_bytes(name.as_bytes()).is_ok()
                && http::HeaderValue::from_str(value.expose()).is_ok();
            if !fine {
                violations.add(
                    Violation::new(&key(&format!("headers.{name}")), MASK)
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
