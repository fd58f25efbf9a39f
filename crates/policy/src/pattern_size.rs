//! How large the custom patterns of a policy are, before any of them is compiled.
//!
//! Two numbers matter. `positions` bounds the time of a search: where the fast engine cannot be
//! used, every character of a text is compared with as many. `ranges` bounds the time to compile
//! and the memory: `\w` alone has more than 700 ranges of letters, for each time that it occurs.

use std::ops::AddAssign;

use memoir_text::field_error::FieldError;
use regex_syntax::hir::{Class, Hir, HirKind};

/// Maximum positions of one pattern, and of all together.
const MAX_POSITIONS: usize = 250;
const MAX_POSITIONS_TOGETHER: usize = 2_000;
/// Maximum ranges of all patterns together.
const MAX_RANGES_TOGETHER: usize = 100_000;

/// The size of a pattern.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PatternSize {
    /// Characters that the pattern spells out, in all its repetitions and alternatives.
    positions: usize,
    ranges: usize,
}

impl PatternSize {
    /// The size of a regular expression; `None` if it is not valid.
    pub fn of(source: &str) -> Option<Self> {
        regex_syntax::parse(source).ok().map(|hir| measured(&hir))
    }

    /// Why the pattern is too large by itself.
    pub fn fault(self) -> Option<String> {
        (self.positions > MAX_POSITIONS).then(|| {
            let positions = self.positions;
            format!(
                "has a size of {positions}; at most {MAX_POSITIONS} is allowed: use smaller numbers in {{…}}, or + and *"
            )
        })
    }

    /// Why patterns of this size are too large together.
    pub fn fault_together(self) -> Option<FieldError> {
        let Self { positions, ranges } = self;
        let message = if positions > MAX_POSITIONS_TOGETHER {
            format!(
                "have a size of {positions} together; at most {MAX_POSITIONS_TOGETHER} is allowed: use fewer patterns, or smaller numbers in {{…}}"
            )
        } else if ranges > MAX_RANGES_TOGETHER {
            format!(
                "have {ranges} ranges of characters together; at most {MAX_RANGES_TOGETHER} are allowed: use [A-Za-z0-9_] in place of \\w, and [0-9] in place of \\d"
            )
        } else {
            return None;
        };

        Some(FieldError::new(
            "retrieval.customRedactionPatterns",
            message,
        ))
    }

    fn times(self, count: u32) -> Self {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        Self {
            positions: self.positions.saturating_mul(count),
            ranges: self.ranges.saturating_mul(count),
        }
    }
}

impl AddAssign for PatternSize {
    fn add_assign(&mut self, other: Self) {
        self.positions = self.positions.saturating_add(other.positions);
        self.ranges = self.ranges.saturating_add(other.ranges);
    }
}

/// The parser limits how deeply expressions are nested.
fn measured(hir: &Hir) -> PatternSize {
    let one = |ranges| PatternSize {
        positions: 1,
        ranges,
    };
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => one(0),
        // Few places of a word are reached at the same time, so that it counts half.
        HirKind::Literal(literal) => PatternSize {
            positions: literal.0.len().div_ceil(2),
            ranges: literal.0.len(),
        },
        HirKind::Class(Class::Unicode(class)) => one(class.ranges().len()),
        HirKind::Class(Class::Bytes(class)) => one(class.ranges().len()),
        HirKind::Repetition(repetition) => {
            // Without a maximum, the last one is repeated.
            let count = repetition.max.unwrap_or(repetition.min).max(1);
            measured(&repetition.sub).times(count)
        }
        HirKind::Capture(capture) => measured(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            let mut all = PatternSize::default();
            for part in parts {
                all += measured(part);
            }

            all
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_and_alternatives_count_in_full() {
        for (source, positions) in [
            ("[a-c][x-z]+", 2),
            ("abcd", 2),
            ("[a-z]{2,5}b+", 6),
            ("(?:[0-9]{3}|xy){4}", 16),
            (r"\bID-[0-9]{4,}\b", 8),
        ] {
            let size = PatternSize::of(source).expect("is valid");
            assert_eq!(size.positions, positions, "{source}");
        }

        let words = PatternSize::of(r"\w{10}").expect("is valid");
        assert!(words.ranges > 7_000, "{words:?}");
        assert_eq!(PatternSize::of("("), None);
    }

    #[test]
    fn a_fault_says_what_to_change() {
        let size = |source: &str| PatternSize::of(source).expect("is valid");
        assert_eq!(size("[a-z]{250}").fault(), None);
        let long = size(".{0,251}").fault().expect("is too large");
        assert!(long.contains("smaller numbers"), "{long}");

        let together = |source: &str, count| size(source).times(count).fault_together();
        assert_eq!(together(r"\bID-\d{4,20}\b", 50), None);
        let many = together("[a-z]{100}", 21).expect("are too large");
        assert!(many.message.starts_with("have a size of 2100"), "{many:?}");
        let wide = together(r"\w{20}", 10).expect("are too large");
        assert!(wide.message.contains(r"in place of \w"), "{wide:?}");
    }
}
