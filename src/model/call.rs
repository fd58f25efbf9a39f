//! The context of a call: where it works, at what time, who pays for it, and whose trace it joins.

use super::llm_call::KeyBudget;
use crate::base::clock::Timestamp;
use crate::base::ids::Space;

/// What every operation above the store is given as `call`.
#[derive(Debug, Clone)]
pub struct CallContext {
    pub space: Space,
    /// When the call began. A step that needs a later time takes the call [`at`](Self::at) it.
    pub now: Timestamp,
    /// The trace that its spans join; `None` begins a new one.
    pub traceparent: Option<String>,
    /// The API key that pays for model calls and whose daily caps apply.
    pub budget: Option<KeyBudget>,
    /// Whether keys and tokens are redacted in what the call stores, in addition to what the policy
    /// of the space redacts.
    pub redact_secrets: bool,
}

impl CallContext {
    /// A call of the service itself: no API key pays for it, and it begins its own trace.
    #[must_use]
    pub fn new(space: Space, now: Timestamp) -> Self {
        Self {
            space,
            now,
            traceparent: None,
            budget: None,
            redact_secrets: false,
        }
    }

    /// The call with another time.
    #[must_use]
    pub fn at(&self, now: Timestamp) -> Self {
        Self {
            now,
            ..self.clone()
        }
    }

    /// For what the service does on its own account: no API key pays, and it begins its own trace.
    #[must_use]
    pub fn unpaid(&self) -> Self {
        Self::new(self.space.clone(), self.now)
    }
}
