//! One attempt to ask a model: what came back, how long it took, what it cost. Never the prompt.

use serde_json::Value;

use crate::base::clock::Timestamp;

#[derive(Debug, Clone, PartialEq)]
pub struct LlmCall {
    pub stage: String,
    pub level: Option<i64>,
    pub attempt: i64,
    pub outcome: String,
    pub llm_output: Option<Value>,
    pub timestamp: Timestamp,
    pub latency_ms: f64,
    pub provider: String,
    pub model: String,
    pub tokens_prompt: i64,
    pub tokens_completion: i64,
    pub cost_usd: Option<f64>,
    pub provider_params: Value,
}
