//! Runs policies over texts, each with a time limit and away from the threads that serve requests.

use std::sync::Arc;
use std::time::Duration;

use memoir_policy::time_limit::TimeLimit;
use memoir_policy::{Candidate, Outcome, Policy, Settings, run, secrets};
use memoir_text::field_error::FieldError;
use memoir_text::text::char_count;

use super::policies::{MemoryPolicies, PolicyError};
use crate::model::call::CallContext;

/// How long the redaction of a payload, or of one text to be stored, may take. Ordinary patterns
/// take a few milliseconds for the longest message.
const MAX_REDACTION: Duration = Duration::from_secs(1);
/// Maximum characters of a text to be stored: those of a message.
const MAX_CHARACTERS: usize = 200_000;

/// A text to be stored, and the field of the request that holds it.
#[derive(Debug, Clone)]
pub struct NewText {
    pub field: String,
    pub text: String,
}

impl MemoryPolicies {
    /// From candidates to a payload.
    ///
    /// # Errors
    /// The chain failed because of an error in this program.
    pub async fn run(
        &self,
        policy: Arc<Policy>,
        candidates: Vec<Candidate>,
        query: String,
    ) -> Result<Outcome, PolicyError> {
        let work = move || run(&policy, candidates, &query, TimeLimit::of(MAX_REDACTION));
        Ok(self.permits.run_stored(work).await?)
    }

    /// Runs a stored policy as a trial.
    ///
    /// # Errors
    /// The chain failed because of an error in this program.
    pub async fn try_stored(
        &self,
        policy: Arc<Policy>,
        candidates: Vec<Candidate>,
        query: String,
    ) -> Result<Outcome, PolicyError> {
        let work = move || run(&policy, candidates, &query, TimeLimit::of(MAX_REDACTION));
        Ok(self.permits.run_trial(work).await?)
    }

    /// Runs settings that are not stored.
    ///
    /// # Errors
    /// The settings are invalid.
    pub async fn try_settings(
        &self,
        settings: Settings,
        candidates: Vec<Candidate>,
        query: String,
    ) -> Result<(Arc<Policy>, Outcome), PolicyError> {
        let work = move || {
            let policy = Policy::new(settings)?;
            let outcome = run(&policy, candidates, &query, TimeLimit::of(MAX_REDACTION));
            Ok((Arc::new(policy), outcome))
        };
        self.permits.run_trial(work).await?
    }

    /// Redacts texts that are about to be stored, if the current policy of the space or the call
    /// wants that: the redacted text of each in which something matched.
    ///
    /// # Errors
    /// A text is too long, or a pattern takes too long on it; or the store's.
    pub async fn redact_for_storage(
        &self,
        call: &CallContext,
        texts: impl Iterator<Item = NewText>,
    ) -> Result<Vec<Option<String>>, PolicyError> {
        let texts: Vec<NewText> = texts.collect();
        if texts.is_empty() {
            return Ok(Vec::new());
        }

        let policy = self.current(call).await?.policy;
        let policy = policy.redacts_before_storing().then_some(policy);
        let finds_secrets = call.redact_secrets;
        if policy.is_none() && !finds_secrets {
            return Ok(vec![None; texts.len()]);
        }

        let work = move || {
            let redact = |new| redacted_twice(policy.as_deref(), finds_secrets, new);
            texts.iter().map(redact).collect()
        };
        self.permits.run_stored(work).await?
    }
}

/// The text as the policy redacts it, and then without secrets.
fn redacted_twice(
    policy: Option<&Policy>,
    finds_secrets: bool,
    new: &NewText,
) -> Result<Option<String>, PolicyError> {
    let by_policy = match policy {
        Some(policy) => redacted(policy, new)?,
        None => None,
    };
    if !finds_secrets {
        return Ok(by_policy);
    }

    let text = by_policy.as_ref().unwrap_or(&new.text);
    Ok(secrets::redact(text).or(by_policy))
}

fn redacted(policy: &Policy, new: &NewText) -> Result<Option<String>, PolicyError> {
    let invalid = |rule| PolicyError::Invalid(vec![FieldError::new(&new.field, rule)]);
    if char_count(&new.text) > MAX_CHARACTERS {
        let rule = format!("must have at most {MAX_CHARACTERS} characters");
        return Err(invalid(rule));
    }

    let redacted = policy.redact(&new.text, TimeLimit::of(MAX_REDACTION));
    redacted.map_err(|slow| {
        let (pattern, seconds) = (slow.pattern, MAX_REDACTION.as_secs());
        invalid(format!(
            "cannot be redacted within {seconds} s, so it was not stored: the redaction pattern {pattern} takes too long; \
             send a shorter text, or simplify the pattern (PUT /v1/admin/memory-settings)"
        ))
    })
}
