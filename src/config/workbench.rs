//! `[workbench]`: how prompts are composed, unless a workspace or a request says otherwise.

use serde::Deserialize;

use super::{Secret, Violation, Violations};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workbench {
    pub prompt_ceiling: u64,
    pub cost_ceiling: f64,
    pub pack_tokens: u64,
    pub top_k: u64,
    pub theta: f64,
    pub retrieval_timeout_ms: u64,
    pub rerank_timeout_ms: u64,
    pub nli_timeout_ms: u64,
    pub condense_timeout_ms: u64,
    pub reranker: Adapter,
    pub reranker_url: String,
    pub reranker_model: String,
    pub reranker_key: Secret,
    pub nli: Adapter,
    pub nli_url: String,
    pub nli_model: String,
    pub nli_key: Secret,
}

/// What scores chunks: rules of this process, the model of the stage, or a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Adapter {
    Lexical,
    Llm,
    Http,
}

impl Workbench {
    pub(super) fn validate(&self, violations: &mut Violations) {
        let millis = |violations: &mut Violations, key: &str, given: u64, usual: u64| {
            violations.check_range(&format!("workbench.{key}"), given, 1..=600_000, usual);
        };
        millis(
            violations,
            "retrieval_timeout_ms",
            self.retrieval_timeout_ms,
            5000,
        );
        millis(
            violations,
            "rerank_timeout_ms",
            self.rerank_timeout_ms,
            10_000,
        );
        millis(violations, "nli_timeout_ms", self.nli_timeout_ms, 20_000);
        millis(
            violations,
            "condense_timeout_ms",
            self.condense_timeout_ms,
            30_000,
        );
        violations.check_range("workbench.top_k", self.top_k, 1..=100, 20);
        violations.check_range(
            "workbench.pack_tokens",
            self.pack_tokens,
            50..=100_000,
            1500,
        );
        violations.check_range(
            "workbench.prompt_ceiling",
            self.prompt_ceiling,
            100..=10_000_000,
            16_000,
        );

        check_share(violations, "workbench.theta", self.theta);
        if !self.cost_ceiling.is_finite() || self.cost_ceiling < 0.0 {
            violations.add(
                Violation::new("workbench.cost_ceiling", self.cost_ceiling.to_string())
                    .allowed("US dollars from 0")
                    .example("cost_ceiling = 0.5"),
            );
        }

        for (name, adapter, url) in [
            ("reranker", self.reranker, &self.reranker_url),
            ("nli", self.nli, &self.nli_url),
        ] {
            let is_address = url.starts_with("http://") || url.starts_with("https://");
            if adapter == Adapter::Http && !is_address {
                violations.add(
                    Violation::new(&format!("workbench.{name}_url"), format!("{url:?}"))
                        .allowed(&format!(
                            "the address of a server, because workbench.{name} is \"http\""
                        ))
                        .example(&format!(r#"{name}_url = "http://localhost:8081/rerank""#)),
                );
            }
        }
    }
}

fn check_share(violations: &mut Violations, key: &str, given: f64) {
    if !(0.0..=1.0).contains(&given) {
        violations.add(
            Violation::new(key, given.to_string())
                .allowed("a number from 0 to 1")
                .example("theta = 0.5"),
        );
    }
}
