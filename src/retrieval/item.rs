//! What a product selects from: a text that was found, its scores, and whether it is kept.

use std::borrow::Cow;

/// A chunk or a memory that was found.
#[derive(Debug, Clone)]
pub struct Item<T, S> {
    /// The text and where it is from: a `SourceChunk` or a `Memory`.
    pub found: T,
    /// The scores of the product that found it.
    pub scores: S,
    pub decision: Decision,
}

/// Whether an item is kept, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub kept: bool,
    /// The step that decided; empty before the first one.
    pub step: &'static str,
    pub reason: Cow<'static, str>,
    /// The id of the item that it repeats, if that is why it was dropped.
    pub repeats: Option<String>,
}

impl Default for Decision {
    fn default() -> Self {
        Self {
            kept: true,
            step: "",
            reason: Cow::Borrowed(""),
            repeats: None,
        }
    }
}

impl Decision {
    /// As it is shown: `kept: strong semantic match`, `dropped: over budget`.
    pub fn text(&self) -> String {
        let verb = if self.kept { "kept" } else { "dropped" };
        format!("{verb}: {}", self.reason)
    }
}

impl<T, S> Item<T, S> {
    #[must_use]
    pub fn new(found: T, scores: S) -> Self {
        Self {
            found,
            scores,
            decision: Decision::default(),
        }
    }

    /// Replaces its scores.
    #[must_use]
    pub fn scored<R>(self, score: impl FnOnce(&T, S) -> R) -> Item<T, R> {
        Item {
            scores: score(&self.found, self.scores),
            found: self.found,
            decision: self.decision,
        }
    }

    pub fn is_kept(&self) -> bool {
        self.decision.kept
    }

    pub fn keep(&mut self, step: &'static str, reason: impl Into<Cow<'static, str>>) {
        self.decide(true, step, reason.into());
    }

    pub fn drop(&mut self, step: &'static str, reason: impl Into<Cow<'static, str>>) {
        self.decide(false, step, reason.into());
    }

    fn decide(&mut self, kept: bool, step: &'static str, reason: Cow<'static, str>) {
        self.decision = Decision {
            kept,
            step,
            reason,
            repeats: None,
        };
    }
}
