//! The errors of providers, as callers of models see them.

use std::time::Duration;

use super::LlmError;
use super::provider_error::ProviderError;
use super::send::Target;

/// What a provider's error means to whoever asked.
pub fn explain(target: &Target, error: &ProviderError) -> LlmError {
    let model = target.name();
    let ProviderError::Status {
        status,
        message,
        retry_after,
        ..
    } = error
    else {
        return LlmError::Unavailable {
            model,
            reason: error.to_string(),
            wait: None,
            timed_out: matches!(error, ProviderError::TimedOut),
        };
    };

    let reason = format!("status {status}: {message}");
    if let Some((refusal, concerns_one_model)) = error.refusal() {
        // A pause that another call has ended meanwhile: the next try will tell.
        let at_once = (!concerns_one_model).then_some(Duration::from_secs(1));
        let next_probe_in = target
            .profile
            .pauses
            .next_probe_in(&target.model)
            .or(at_once);

        return refusal.error(
            &target.profile.settings.name,
            &target.model,
            reason,
            next_probe_in,
        );
    }

    match status {
        300..=399 => {
            let reason =
                format!("it redirects (status {status}); set base_url to the final address");
            LlmError::Rejected { model, reason }
        }
        408 | 409 | 429 | 500..=599 => LlmError::Unavailable {
            model,
            reason,
            wait: *retry_after,
            timed_out: false,
        },
        _ => LlmError::Rejected { model, reason },
    }
}
