//! Prometheus counters of model calls. Models are not labels, because a request may name any model.

use crate::base::metrics as names;
use crate::model::llm_call::LlmCall;

/// Counts a finished attempt.
pub fn count(call: &LlmCall) {
    let (provider, stage) = (call.provider.clone(), call.stage.clone());
    metrics::counter!(
        names::LLM_CALLS_TOTAL,
        "provider" => provider.clone(), "stage" => stage.clone(), "outcome" => call.outcome.clone()
    )
    .increment(1);

    metrics::histogram!(names::LLM_REQUEST_DURATION_SECONDS, "provider" => provider.clone(), "stage" => stage.clone())
        .record(call.latency_ms / 1000.0);
    for (direction, tokens) in [
        ("sent", call.tokens_prompt),
        ("received", call.tokens_completion),
        ("cached", call.tokens_cached),
    ] {
        let labels = [
            ("provider", provider.clone()),
            ("stage", stage.clone()),
            ("direction", direction.to_owned()),
        ];
        metrics::counter!(names::LLM_TOKENS_TOTAL, &labels)
            .increment(u64::try_from(tokens).unwrap_or(0));
    }
}

/// Counts a retried request.
pub fn retried(provider: &str, reason: &'static str) {
    metrics::counter!(names::LLM_RETRIES_TOTAL, "provider" => provider.to_owned(), "reason" => reason).increment(1);
}

/// Counts a call to the fallback model.
pub fn fell_back(stage: &'static str) {
    metrics::counter!(names::LLM_FALLBACKS_TOTAL, "stage" => stage).increment(1);
}
