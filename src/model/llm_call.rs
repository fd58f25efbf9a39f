//! One model call: its answer, duration and cost. Never the prompt.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::IntoStaticStr;
use utoipa::ToSchema;

use crate::base::clock::Timestamp;
use crate::base::ids::JobId;

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum CallOutcome {
    Ok,
    /// The answer violated the schema or a rule.
    Invalid,
    /// The answer was truncated.
    Truncated,
    /// The model declined.
    Refused,
    /// No answer: a status, a broken connection, a timeout.
    TransportError,
    /// The caller was dropped.
    Cancelled,
}

/// On whose behalf a model was called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payer {
    Job(JobId),
    /// A query, by its id.
    Query(String),
    /// An assembled context, by its id.
    Context(String),
    /// A run of a prompt, by its id.
    PromptRun(String),
    /// A request without its own record.
    Request,
}

impl Payer {
    /// Its name in the ledger and in messages about caps.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Job(_) => "job",
            Self::Query(_) => "query",
            Self::Context(_) => "context",
            Self::PromptRun(_) => "prompt_run",
            Self::Request => "request",
        }
    }

    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Job(id) => Some(id.as_str()),
            Self::Query(id) | Self::Context(id) | Self::PromptRun(id) => Some(id),
            Self::Request => None,
        }
    }
}

/// The API key whose daily caps apply to a call, and its caps per UTC day; 0 means no cap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeyBudget {
    pub key_id: String,
    pub calls: u64,
    pub tokens: u64,
    pub usd: f64,
}

/// One attempt of a model call.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = LlmCallResponse)]
pub struct LlmCall {
    /// Identifies the call, however often it is written.
    #[serde(skip)]
    pub call_id: String,
    /// Its number among the calls of its owner.
    #[serde(skip)]
    pub seq: i64,
    /// The stage of the call.
    pub stage: String,
    /// The level of the hierarchy, for calls that choose categories; otherwise null.
    pub level: Option<i64>,
    pub attempt: i64,
    /// `ok`, `invalid`, `truncated`, `refused`, `transport_error` or `cancelled`.
    pub outcome: String,
    /// The parsed output of the model.
    #[schema(value_type = Option<std::collections::HashMap<String, Value>>)]
    pub llm_output: Option<Value>,
    #[schema(value_type = String, format = DateTime)]
    pub timestamp: Timestamp,
    pub latency_ms: f64,
    pub provider: String,
    pub model: String,
    /// How the output schema was enforced: `native`, `tool`, `prompted` or `embedded`.
    pub mode: String,
    pub tokens_prompt: i64,
    pub tokens_completion: i64,
    /// The part of `tokens_prompt` that the provider served from its cache.
    pub tokens_cached: i64,
    pub cost_usd: Option<f64>,
    /// The parameters sent to the provider.
    #[schema(value_type = std::collections::HashMap<String, Value>)]
    pub provider_params: Value,
    /// The API key that pays; known only while the call is recorded.
    #[serde(skip)]
    pub key_id: Option<String>,
}

impl LlmCall {
    /// Whether it cost nothing and was answered at the first attempt.
    pub fn is_free(&self) -> bool {
        let answered = self.attempt == 1 && self.outcome == CallOutcome::Ok.into_str();
        answered && self.tokens_cached == 0 && self.cost_usd == Some(0.0)
    }

    /// Whether the same model answered both, with the same parameters.
    pub fn is_like(&self, other: &Self) -> bool {
        let model = |call: &Self| (call.provider.clone(), call.model.clone(), call.mode.clone());
        model(self) == model(other) && self.provider_params == other.provider_params
    }

    pub fn spent(&self) -> Spent {
        let tokens = self.tokens_prompt.saturating_add(self.tokens_completion);
        Spent {
            calls: 1,
            tokens,
            usd: self.cost_usd.unwrap_or(0.0),
        }
    }
}

/// A sum of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spent {
    pub calls: i64,
    pub tokens: i64,
    pub usd: f64,
}

impl Spent {
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            calls: self.calls.saturating_add(other.calls),
            tokens: self.tokens.saturating_add(other.tokens),
            usd: self.usd + other.usd,
        }
    }

    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            calls: self.calls.saturating_sub(other.calls),
            tokens: self.tokens.saturating_sub(other.tokens),
            usd: self.usd - other.usd,
        }
    }
}

/// Usage of one model in one stage on one day.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = UsageResponse, example = json!({
    "day": "2026-11-15", "stage": "classify", "provider": "openai", "model": "gpt-4o-mini", "calls": 12,
    "tokens_prompt": 34000, "tokens_completion": 900, "tokens_cached": 12000, "cost_usd": 0.0048
}))]
pub struct UsageDay {
    /// The day in UTC.
    #[schema(format = Date)]
    pub day: String,
    pub stage: String,
    pub provider: String,
    pub model: String,
    /// Number of attempted calls, including failed ones.
    pub calls: i64,
    pub tokens_prompt: i64,
    pub tokens_completion: i64,
    /// The part of `tokens_prompt` that the provider served from its cache.
    pub tokens_cached: i64,
    /// Cost in US dollars, based on the configured prices; calls without a known price count as 0.
    pub cost_usd: f64,
}
