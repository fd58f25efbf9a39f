//! The estimate of a prompt, and the ceilings above which it is rejected.

use serde::Serialize;
use utoipa::ToSchema;

use super::WorkbenchError;
use super::workspace::Ceilings;
use crate::llm::Llm;

/// The stage whose model answers a prompt.
pub const SEND: &str = "send";

/// The token count and the maximum cost of a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = PromptEstimateResponse)]
pub struct PromptEstimate {
    /// The model that the prompt is for.
    pub model: String,
    /// Tokens of the prompt.
    pub tokens: usize,
    /// Whether the tokens were counted with the model's own encoding.
    pub exact: bool,
    /// Maximum cost in US dollars, for an answer of maximum length; null if the price is unknown.
    pub cost_usd: Option<f64>,
    /// The ceiling in force for the tokens.
    pub ceiling_tokens: u64,
    /// The ceiling in force for the cost, in US dollars.
    pub ceiling_cost_usd: f64,
    /// Whether the prompt is within both ceilings.
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

    /// Rejects a prompt above a ceiling.
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
