//! What a call would be, before it is made: which model, at what price, within which caps.

use super::provider::Usage;
use super::{Llm, LlmError};
use crate::config::llm::Caps;

impl Llm {
    /// The model that does a stage, as `provider:model`.
    ///
    /// # Errors
    /// The model is not one of this installation's.
    pub fn target_name(&self, stage: &str, wished: Option<&str>) -> Result<String, LlmError> {
        Ok(self
            .target(wished.unwrap_or_else(|| self.settings().model_for(stage)))?
            .name())
    }

    /// US dollars for a call of so many tokens, if the price is known.
    ///
    /// # Errors
    /// The model is not one of this installation's.
    pub fn cost_of(
        &self,
        stage: &str,
        wished: Option<&str>,
        prompt: i64,
        completion: i64,
    ) -> Result<Option<f64>, LlmError> {
        let target = self.target(wished.unwrap_or_else(|| self.settings().model_for(stage)))?;
        Ok(target.profile.cost(
            &target.model,
            Usage {
                prompt,
                completion,
                cached: 0,
            },
        ))
    }

    /// Most tokens of one answer.
    pub fn max_output_tokens(&self) -> u64 {
        self.settings().max_output_tokens
    }

    /// How often an answer that breaks its rules is asked again.
    pub fn validation_retries(&self) -> u64 {
        self.settings().validation_retries
    }

    /// What one question may spend.
    pub fn query_caps(&self) -> Caps {
        self.settings().caps.query
    }
}
