//! What sending a prompt will take, and the ceilings that refuse it.

use serde::Serialize;
use utoipa::ToSchema;

use super::WorkbenchError;
use super::workspace::Ceilings;
use crate::llm::Llm;

/// The stage whose model answers a prompt.
pub const SEND: &str = "send";

/// What sending a prompt will take.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = PromptEstimateResponse)]
pub struct PromptEstimate {
    /// The model that it is sent to.
    pub model: String,
    /// Tokens of the prompt.
    pub tokens: usize,
    /// Whether they are counted by the model's own encoding.
    pub exact: bool,
    /// The most that it can cost in US dollars, with the longest answer; null if the price is
    /// unknown.
    pub cost_usd: Option<f64>,
    pub ceiling_tokens: u64,
    pub ceiling_cost_usd: f64,
    pub within_ceiling: bool,
}

impl PromptEstimate {
    /// Estimates a prompt of so many tokens.
    ///
    /// # Errors
    /// The model is unknown.
    pub fn of(
        llm: &Llm,
        model: Option<&str>,
        (tokens, exact): (usize, bool),
        ceilings: &Ceilings,
    ) -> Result<Self, WorkbenchError> {
        let prompt = i64::try_from(tokens).unwrap_or(i64::MAX);
        let answer = i64::try_from(llm.max_output_tokens()).unwrap_or(i64::MAX);
        let cost_usd = llm.cost_of(SEND, model, prompt, answer)?;
        let fits = u64::try_from(tokens).unwrap_or(u64::MAX) <= ceilings.tokens;
        Ok(Self {
            model: llm.target_name(SEND, model)?,
            tokens,
            exact,
            cost_usd,
            ceiling_tokens: ceilings.tokens,
            ceiling_cost_usd: ceilings.cost_usd,
            within_ceiling: fits && cost_usd.is_none_or(|cost| cost <= ceilings.cost_usd),
        })
    }

    /// Refuses a prompt above a ceiling.
    ///
    /// # Errors
    /// [`WorkbenchError::OverCeiling`].
    pub fn check(self) -> Result<Self, WorkbenchError> {
        if self.within_ceiling {
            Ok(self)
        } else {
            Err(WorkbenchError::OverCeiling(Box::new(self)))
        }
    }
}
