//! What a step did, so that a reader can see why a memory is in the payload, or why not.

use serde::Serialize;

/// One step: how many entries came in, how many left, and what happened to which.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub name: &'static str,
    /// Entries before the step.
    pub before: usize,
    /// Entries after it.
    pub after: usize,
    /// The entries that it dropped or changed; the others passed unchanged.
    pub effects: Vec<Effect>,
}

/// What a step did to one entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    pub id: String,
    pub reason: Reason,
}

impl Effect {
    pub fn new(id: &str, reason: Reason) -> Self {
        Self {
            id: id.to_owned(),
            reason,
        }
    }

    pub fn is_drop(&self) -> bool {
        self.reason.is_drop()
    }
}

/// Why an entry was dropped or changed, with the numbers that decided it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(
    tag = "reason",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
pub enum Reason {
    /// Dropped: its score is below the minimum.
    BelowMinScore { score: f64, min_score: f64 },
    /// Dropped: another entry says the same.
    Duplicate { duplicate_of: String, key: String },
    /// Dropped: `topK` better entries came first.
    BeyondTopK { position: usize, top_k: usize },
    /// Moved to another position.
    Moved { from: usize, to: usize },
    /// Changed: patterns matched.
    Redacted {
        matches: usize,
        patterns: Vec<String>,
    },
    /// Dropped: this pattern took too long on it, so what it hides is not known.
    RedactionTooSlow { pattern: String },
    /// Changed: only its first sentences were kept.
    Clipped { sentences: usize, kept: usize },
    /// Changed: cut to the tokens that were left.
    CutToBudget { tokens: usize, tokens_left: usize },
    /// Dropped: no tokens were left.
    BeyondBudget { tokens: usize, tokens_left: usize },
}

impl Reason {
    pub fn is_drop(&self) -> bool {
        matches!(
            self,
            Self::BelowMinScore { .. }
                | Self::Duplicate { .. }
                | Self::BeyondTopK { .. }
                | Self::RedactionTooSlow { .. }
                | Self::BeyondBudget { .. }
        )
    }
}
