//! The budget: the tokens of a prompt, counted part by part, and what to do if they are too many.
//!
//! `draft` is the prompt, `counting` counts its parts, `fit` reports what is done about them: either
//! `prune` (`fill` with `auto`) or `summarize`, never both. These are pure.

mod counting;
pub mod draft;
mod fill;
mod fit;
pub mod keywords;
mod prune;
mod summarize;

use serde::{Deserialize, Serialize};

use memoir_text::text::char_count;
use memoir_text::tokens::TokenCounter;

pub use counting::count_prompt;
pub use fit::fit;

/// Tokens and characters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    pub tokens: i64,
    pub chars: i64,
}

impl Size {
    pub fn of(counter: TokenCounter, text: &str) -> Self {
        let whole = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        Self {
            tokens: whole(counter.count(text)),
            chars: whole(char_count(text)),
        }
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens + other.tokens,
            chars: self.chars + other.chars,
        }
    }
}

/// Tokens that the output mode adds to a prompt, in its longest form: a schema or tool beside the
/// messages, or a schema in the instruction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModeTokens {
    pub answer: i64,
    pub summarize: i64,
}

/// The tokens of each part of the prompt.
#[derive(Debug, Clone)]
pub struct PromptTokens {
    /// Instruction, what the output mode adds to it, and query.
    pub base: Size,
    pub query: Size,
    pub mode: ModeTokens,
    /// The line used if no source has a helper.
    no_helper: Size,
    /// By source: its helper, if any.
    helpers: Vec<Option<Size>>,
    pub items: Vec<ChunkTokens>,
}

/// The tokens of a chunk.
#[derive(Debug, Clone, Copy)]
pub struct ChunkTokens {
    pub path: usize,
    pub source: usize,
    /// The delimiters around it.
    pub frame: Size,
    pub text: Size,
    /// Tokens of the text as sent, with its own `"""` escaped.
    pub sent: i64,
}

impl PromptTokens {
    /// Everything except the chunks themselves, for the kept chunks.
    pub fn fixed(&self, kept: &[bool]) -> Size {
        let mut used = vec![false; self.helpers.len()];
        let mut size = self.base;
        for (item, _) in self.items.iter().zip(kept).filter(|(_, kept)| **kept) {
            size = size.plus(item.frame);
            used[item.source] = true;
        }
        let lines: Vec<Size> = self
            .helpers
            .iter()
            .zip(&used)
            .filter(|(_, used)| **used)
            .filter_map(|(line, _)| *line)
            .collect();
        if lines.is_empty() {
            size.plus(self.no_helper)
        } else {
            lines.into_iter().fold(size, Size::plus)
        }
    }

    /// The kept chunks.
    pub fn content(&self, kept: &[bool]) -> Size {
        let kept = self.items.iter().zip(kept).filter(|(_, kept)| **kept);
        kept.fold(Size::default(), |sum, (item, _)| sum.plus(item.text))
    }

    /// Tokens of the kept chunks, as sent.
    pub fn sent(&self, kept: &[bool]) -> i64 {
        self.items
            .iter()
            .zip(kept)
            .filter(|(_, kept)| **kept)
            .map(|(item, _)| item.sent)
            .sum()
    }

    /// Tokens of a prompt with the kept chunks, as sent.
    pub fn tokens(&self, kept: &[bool]) -> i64 {
        self.fixed(kept).tokens + self.sent(kept)
    }
}
