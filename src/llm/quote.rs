//! Facts about a call before it is made: the model, its price and its caps.

use super::provider::Usage;
use super::{Llm, LlmError};
use crate::config::llm::Caps;

impl Llm {
    /// The model of a stage, as `provider:model`.
    ///
    /// # Errors
    /// The model is unknown.
    pub fn target_name(&self, stage: &str, wished: Option<&str>) -> Result<String, LlmError> {
        Ok(self
            .target(wished.unwrap_or_else(|| self.settings().model_for(stage)))?
            .name())
    }

    /// The cost in US dollars of a call with this many tokens, if the price is known.
    ///
    /// # Errors
    /// The model is unknown.
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

    /// Maximum tokens of one answer.
    pub fn max_output_tokens(&self) -> u64 {
        self.settings().max_output_tokens
    }

    /// How often an invalid answer is requested again.
    pub fn validation_retries(&self) -> u64 {
        self.settings().validation_retries
    }

    /// What one query may spend.
    pub fn query_caps(&self) -> Caps {
        self.settings().caps.query
    }
}
