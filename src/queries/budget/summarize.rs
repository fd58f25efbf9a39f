//! SUMMARIZE: shortens every chunk by the same ratio, in parts that fit into a call.

use std::sync::Arc;

use memoir_text::tokens::TokenCounter;

use super::{PromptTokens, Size};
use crate::llm::Task;
use crate::llm::tasks::summarize::{INSTRUCTION, Summarize, SummarizeChunk, heading};
use crate::llm::tasks::{CLOSING, OPENING};
use crate::queries::steps::QueryItem;

/// The settings.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    pub budget: i64,
    /// What each call reserves for its instruction and answer.
    pub headroom: i64,
    pub tolerance_percent: i64,
    pub retries: u64,
}

/// The target of each chunk, and the calls.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The budget left for chunks, and their size.
    pub room: i64,
    pub total: Size,
    /// By chunk.
    pub targets: Vec<i64>,
    pub part_cap: i64,
    pub parts: Vec<Part>,
}

/// Chunks of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub from: usize,
    pub to: usize,
    pub input_tokens: i64,
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoPlan {
    /// The fixed part of the prompt alone exceeds the budget.
    NoRoom,
    /// This chunk alone is too large for a call.
    TooLarge { chunk_id: i64, tokens: i64 },
}

impl Plan {
    /// The share of the chunks' tokens that fits.
    #[expect(clippy::cast_precision_loss, reason = "counts of tokens")]
    pub fn ratio(&self) -> f64 {
        self.room as f64 / self.total.tokens.max(1) as f64
    }

    /// Maximum characters of all summaries together.
    pub fn allowed_chars(&self, rules: Rules) -> i64 {
        let wide = i128::from;
        let allowed =
            wide(self.total.chars) * wide(self.room) * wide(100 + rules.tolerance_percent);
        i64::try_from(allowed / (wide(self.total.tokens.max(1)) * 100)).unwrap_or(i64::MAX)
    }

    /// The task of one part.
    pub fn task(&self, part: &Part, chunks: &[QueryItem], rules: Rules) -> Summarize {
        let chunk = |(item, target): (&QueryItem, &i64)| SummarizeChunk {
            chunk_id: item.found.id,
            text: Arc::clone(&item.found.text),
            target_chars: usize::try_from(*target).unwrap_or(1),
        };

        let (texts, targets) = (
            &chunks[part.from..part.to],
            &self.targets[part.from..part.to],
        );

        Summarize {
            chunks: texts.iter().zip(targets).map(chunk).collect(),
            retries: rules.retries,
            note_room: Some(usize::try_from(rules.budget - part.input_tokens).unwrap_or(0)),
        }
    }
}

/// Plans the target of each chunk, which are given by their ids. `None` if everything fits as it is.
pub fn plan(
    counter: TokenCounter,
    prompt: &PromptTokens,
    ids: &[i64],
    rules: Rules,
) -> Result<Option<Plan>, NoPlan> {
    let all = vec![true; prompt.items.len()];
    // The tokens of chunks as sent, but their characters as they are.
    let total = Size {
        tokens: prompt.sent(&all),
        chars: prompt.content(&all).chars,
    };

    let room = rules.budget - (prompt.tokens(&all) - total.tokens);
    if room >= total.tokens {
        return Ok(None);
    }

    if room <= 0 {
        return Err(NoPlan::NoRoom);
    }

    let target = |chars: i64| {
        let share = i128::from(chars) * i128::from(room) / i128::from(total.tokens);
        i64::try_from(share).unwrap_or(i64::MAX).max(1)
    };

    let targets: Vec<i64> = prompt
        .items
        .iter()
        .map(|item| target(item.text.chars))
        .collect();

    let part_cap = rules.budget - rules.headroom;
    let preface = Size::of(counter, Summarize::SYSTEM)
        .plus(Size::of(counter, INSTRUCTION))
        .tokens;
    let preface = preface + prompt.mode.summarize;
    let sizes = ids
        .iter()
        .zip(&prompt.items)
        .zip(&targets)
        .map(|((id, item), target)| {
            let heading = format!("{}{OPENING}", heading(*id, item.text.chars, target));
            Size::of(counter, &heading).tokens + Size::of(counter, CLOSING).tokens + item.sent
        });

    let sizes: Vec<i64> = sizes.collect();
    let parts =
        parts(&sizes, preface, part_cap, rules.budget).map_err(|place| NoPlan::TooLarge {
            chunk_id: ids[place],
            tokens: sizes[place] + preface,
        })?;

    Ok(Some(Plan {
        room,
        total,
        targets,
        part_cap,
        parts,
    }))
}

/// Shorter targets, by the place of the chunk, for summaries that together exceed the budget by some
/// tokens: first for those with the most tokens per character, each at most halved. `None` if that
/// is not enough.
pub fn tighter(summaries: &[Size], excess: i64) -> Option<Vec<(usize, i64)>> {
    let mut places: Vec<usize> = (0..summaries.len()).collect();
    let density = |place: &usize| {
        let Size { tokens, chars } = summaries[*place];
        tokens.saturating_mul(1_000_000) / chars.max(1)
    };
    places.sort_by_key(|place| std::cmp::Reverse(density(place)));

    // A little more than needed, because shorter texts have somewhat more tokens per character.
    let mut left = excess + excess / 10 + 1;
    let mut targets = Vec::new();
    for place in places {
        if left <= 0 {
            break;
        }
        let Size { tokens, chars } = summaries[place];
        let saved = left.min(tokens / 2);
        if saved > 0 {
            targets.push((place, (chars * (tokens - saved) / tokens).max(1)));
            left -= saved;
        }
    }

    (left <= 0).then_some(targets)
}

/// Fills parts in order. A chunk above the cap gets its own call if the budget allows; otherwise
/// its index is reported.
fn parts(sizes: &[i64], preface: i64, cap: i64, budget: i64) -> Result<Vec<Part>, usize> {
    let mut parts: Vec<Part> = Vec::new();
    for (place, size) in sizes.iter().enumerate() {
        match parts.last_mut() {
            Some(part) if part.input_tokens + size <= cap => {
                part.to = place + 1;
                part.input_tokens += size;
            }
            _ if size + preface <= cap.max(budget) => {
                parts.push(Part {
                    from: place,
                    to: place + 1,
                    input_tokens: preface + size,
                });
            }
            _ => return Err(place),
        }
    }

    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_filled_in_order_up_to_the_cap() {
        let shape = |sizes: &[i64], cap, budget| {
            parts(sizes, 10, cap, budget).map(|parts| {
                parts
                    .iter()
                    .map(|part| (part.from, part.to))
                    .collect::<Vec<_>>()
            })
        };

        assert_eq!(
            shape(&[40, 50, 41, 50], 100, 200),
            Ok(vec![(0, 2), (2, 3), (3, 4)])
        );

        assert_eq!(shape(&[40, 50, 40, 50], 100, 200), Ok(vec![(0, 2), (2, 4)]));
        // Larger than the cap, but not than the budget: alone.
        assert_eq!(
            shape(&[10, 150, 10], 100, 200),
            Ok(vec![(0, 1), (1, 2), (2, 3)])
        );

        assert_eq!(shape(&[10, 191], 100, 200), Err(1));
        assert_eq!(shape(&[10, 190], 100, 200), Ok(vec![(0, 1), (1, 2)]));
    }

    #[test]
    fn the_densest_summaries_are_shortened_first_and_at_most_by_half() {
        let size = |tokens, chars| Size { tokens, chars };
        let summaries = [size(50, 200), size(60, 90), size(40, 160)];
        assert_eq!(
            tighter(&summaries, 9),
            Some(vec![(1, 75)]),
            "10 of 60 tokens"
        );
        assert_eq!(
            tighter(&summaries, 40),
            Some(vec![(1, 45), (0, 140)]),
            "30 of 60 tokens, 15 of 50"
        );
        assert_eq!(tighter(&summaries, 80), None);
        assert_eq!(tighter(&[], 1), None);
    }

    fn prompt(fixed: i64, texts: &[(i64, i64)]) -> PromptTokens {
        let size = |tokens, chars| Size { tokens, chars };
        let item = |(tokens, chars): &(i64, i64)| super::super::ChunkTokens {
            path: 0,
            source: 0,
            frame: size(0, 0),
            text: size(*tokens, *chars),
            sent: *tokens,
        };

        PromptTokens {
            base: size(fixed, 0),
            query: size(0, 0),
            mode: super::super::ModeTokens::default(),
            no_helper: size(0, 0),
            helpers: vec![None],
            items: texts.iter().map(item).collect(),
        }
    }

    #[test]
    fn the_ratio_decides_the_target_lengths() {
        let counter = TokenCounter::for_model(None);
        let rules = |budget| Rules {
            budget,
            headroom: 0,
            tolerance_percent: 5,
            retries: 1,
        };

        let prompt = prompt(1000, &[(600, 2400), (400, 3), (800, 4001)]);
        let plan = |budget| plan(counter, &prompt, &[1, 2, 3], rules(budget));
        assert_eq!(
            plan(2800),
            Ok(None),
            "a ratio of one leaves everything as it is"
        );

        assert_eq!(
            plan(1000),
            Err(NoPlan::NoRoom),
            "a ratio of zero leaves nothing"
        );

        assert_eq!(plan(900), Err(NoPlan::NoRoom));
        let half = plan(1900).unwrap().unwrap();
        assert!((half.ratio() - 0.5).abs() < 1e-12);
        assert_eq!(half.targets, [1200, 1, 2000]);
        assert_eq!(
            half.allowed_chars(rules(1900)),
            3362,
            "6404 / 2 and 5 percent, rounded down"
        );

        let tiny = plan(1001).unwrap().unwrap();
        assert_eq!(tiny.targets, [1, 1, 2]);
    }
}
