//! What redaction replaces: three standard patterns, built-in ones by name, and custom ones.
//!
//! Every pattern searches the original text once, and what the matches cover is replaced. So the
//! order of the patterns does not matter, and no pattern takes the place of a match for the
//! beginning of the text.
//!
//! The standard and the built-in patterns take linear time. A search for a custom pattern does too,
//! but the search for its next match may pass the same text again, so that the whole can become
//! quadratic. Therefore a redaction has a time limit; the size of the patterns bounds a single search.

use std::ops::Range;
use std::sync::Arc;

use memoir_text::field_error::FieldError;
use memoir_text::text::char_count;
use regex::{Regex, RegexBuilder};

use super::built_in::BuiltIn;
use super::finder::{Finder, known};
use super::pattern_size::PatternSize;
use super::settings::{LONGEST_PATTERN, MAX_PATTERNS};
use super::time_limit::{TimeLimit, TimeOver};

/// The most memory that one compiled pattern may take, and the most that its searches keep.
const MAX_PATTERN_BYTES: usize = 1 << 20;
const MAX_SEARCH_BYTES: usize = 1 << 19;

/// Always used when redaction is on. Words are ASCII words: a number may stand beside Chinese
/// letters without a space, and searches for them are faster.
const STANDARD: [(&str, &str); 2] = [
    ("ssn", r"(?-u:\b)[0-9]{3}-[0-9]{2}-[0-9]{4}(?-u:\b)"),
    ("card_16_digits", r"(?-u:\b)[0-9]{16}(?-u:\b)"),
];

/// Always used, too. Letters of scripts that divide words by spaces belong to an address; those of
/// others, such as Chinese, may stand beside one.
const EMAIL: (&str, &str) = (
    "email",
    concat!(
        r"[\p{Latin}\p{Greek}\p{Cyrillic}0-9][\p{Latin}\p{Greek}\p{Cyrillic}\p{Mn}0-9._%+-]*",
        r"@[\p{Latin}\p{Greek}\p{Cyrillic}\p{Mn}0-9.-]+\.[\p{Latin}\p{Greek}\p{Cyrillic}\p{Mn}]{2,}",
    ),
);

/// All patterns of a policy, compiled once and shared.
#[derive(Debug, Clone)]
pub struct CompiledPatterns(Arc<[Pattern]>);

#[derive(Debug)]
struct Pattern {
    name: String,
    finder: Finder,
}

/// A pattern took too long on a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TooSlow {
    /// The name of the pattern.
    pub pattern: String,
}

impl Pattern {
    fn find(
        &self,
        text: &str,
        limit: TimeLimit,
        found: &mut Vec<Range<usize>>,
    ) -> Result<(), TooSlow> {
        let over = self.finder.find(text, limit, found);
        over.map_err(|TimeOver| TooSlow {
            pattern: self.name.clone(),
        })
    }
}

/// A text in which something was replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted {
    pub text: String,
    pub matches: usize,
    /// The names of the patterns that matched, in their order.
    pub patterns: Vec<String>,
}

/// Compiles the standard patterns, the built-in ones that are named, and the custom ones; every
/// custom pattern that cannot be used is reported.
pub fn compile(
    custom: &[String],
    built_in: &[BuiltIn],
) -> Result<CompiledPatterns, Vec<FieldError>> {
    let custom = compile_all(custom)?;
    let standard = STANDARD.iter().map(|(name, source)| Pattern {
        name: (*name).to_owned(),
        finder: Finder::Plain(known(source)),
    });
    let email = Pattern {
        name: EMAIL.0.to_owned(),
        finder: Finder::Emails(known(EMAIL.1)),
    };

    let mut named = built_in.to_vec();
    named.sort_unstable();
    named.dedup();
    let named = named.into_iter().map(|own| Pattern {
        name: own.into_str().to_owned(),
        finder: own.finder(),
    });

    Ok(CompiledPatterns(
        standard.chain([email]).chain(named).chain(custom).collect(),
    ))
}

/// The custom patterns. Their sizes are checked before the first one is compiled.
fn compile_all(custom: &[String]) -> Result<Vec<Pattern>, Vec<FieldError>> {
    if custom.len() > MAX_PATTERNS {
        let message = format!(
            "has {} patterns; at most {MAX_PATTERNS} are allowed",
            custom.len()
        );
        return Err(vec![FieldError::new(
            "retrieval.customRedactionPatterns",
            message,
        )]);
    }

    let mut together = PatternSize::default();
    let mut faults = Vec::new();
    for (index, source) in custom.iter().enumerate() {
        match checked_size(source) {
            Ok(size) => together += size,
            Err(message) => faults.push(fault_of(index, message)),
        }
    }
    faults.extend(together.fault_together());
    if !faults.is_empty() {
        return Err(faults);
    }

    let mut patterns = Vec::with_capacity(custom.len());
    for (index, source) in custom.iter().enumerate() {
        match compile_custom(source) {
            Ok(regex) => patterns.push(Pattern {
                name: format!("custom[{index}]"),
                finder: Finder::Regex(regex),
            }),
            Err(message) => faults.push(fault_of(index, message)),
        }
    }

    if faults.is_empty() {
        Ok(patterns)
    } else {
        Err(faults)
    }
}

fn fault_of(index: usize, message: String) -> FieldError {
    let field = format!("retrieval.customRedactionPatterns[{index}]");
    FieldError::new(field, message)
}

fn checked_size(source: &str) -> Result<PatternSize, String> {
    let length = char_count(source);
    if length > LONGEST_PATTERN {
        return Err(format!(
            "has {length} characters; at most {LONGEST_PATTERN} are allowed"
        ));
    }

    // To compile an expression that is not valid says what is wrong with it.
    let size = PatternSize::of(source).unwrap_or_default();
    size.fault().map_or(Ok(size), Err)
}

fn compile_custom(source: &str) -> Result<Regex, String> {
    let regex = RegexBuilder::new(source)
        .size_limit(MAX_PATTERN_BYTES)
        .dfa_size_limit(MAX_SEARCH_BYTES)
        .build()
        .map_err(|error| {
            let reason = error.to_string();
            let reason = reason
                .lines()
                .last()
                .unwrap_or_default()
                .trim_start_matches("error: ");
            format!("is not a valid regular expression: {reason}")
        })?;
    if regex.is_match("") {
        return Err("matches empty text, so it would redact between all characters".to_owned());
    }

    Ok(regex)
}

impl CompiledPatterns {
    /// The text with every match replaced; `None` if nothing matches. Overlapping matches are
    /// replaced together.
    pub fn redact(
        &self,
        text: &str,
        replacement: &str,
        limit: TimeLimit,
    ) -> Result<Option<Redacted>, TooSlow> {
        let mut found: Vec<Range<usize>> = Vec::new();
        let mut used = Vec::new();
        for pattern in self.0.iter() {
            let before = found.len();
            pattern.find(text, limit, &mut found)?;
            if found.len() > before {
                used.push(pattern.name.clone());
            }
        }
        if found.is_empty() {
            return Ok(None);
        }

        let found = merged(found);
        let mut shown = String::with_capacity(text.len());
        let mut rest = 0;
        for range in &found {
            shown.push_str(&text[rest..range.start]);
            shown.push_str(replacement);
            rest = range.end;
        }
        shown.push_str(&text[rest..]);

        Ok(Some(Redacted {
            text: shown,
            matches: found.len(),
            patterns: used,
        }))
    }
}

/// Ranges in order, with overlapping ones as one.
pub fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests;
