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
fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
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
mod tests {
    use std::time::Duration;

    use strum::VariantArray as _;

    use super::*;

    fn redacted(built_in: &[BuiltIn], custom: &[&str], text: &str) -> String {
        let custom: Vec<String> = custom.iter().map(|&source| source.to_owned()).collect();
        let patterns = compile(&custom, built_in).expect("compiles");
        let limit = TimeLimit::of(Duration::from_mins(10));
        let redacted = patterns.redact(text, "[REDACTED]", limit);
        let redacted = redacted.expect("is in time");
        redacted.map_or_else(|| text.to_owned(), |redacted| redacted.text)
    }

    #[test]
    fn every_built_in_pattern_compiles() {
        compile(&[], BuiltIn::VARIANTS).expect("compiles");
    }

    #[test]
    fn the_standard_patterns_replace_their_samples_and_no_near_misses() {
        for (text, expected) in [
            ("SSN 123-45-6789.", "SSN [REDACTED]."),
            ("card 4111111111111111!", "card [REDACTED]!"),
            ("Ann@Example.org wrote", "[REDACTED] wrote"),
            ("12-345-6789", "12-345-6789"),
            ("411111111111111", "411111111111111"),
            ("41111111111111111", "41111111111111111"),
            ("ann at example.org", "ann at example.org"),
            (
                "_123-45-6789_ **4111111111111111**",
                "_[REDACTED]_ **[REDACTED]**",
            ),
            ("_4111111111111111_", "_[REDACTED]_"),
            ("_ann@example.org_", "_[REDACTED]_"),
            ("**ann_b@example.org**,x", "**[REDACTED]**,x"),
            (
                "Jörg: jörg.groß@müller.de, иван@почта.рф",
                "Jörg: [REDACTED], [REDACTED]",
            ),
            ("请写信给ann@example.org谢谢", "请写信给[REDACTED]谢谢"),
            ("é@x, ü@ö.d and @müller.de", "é@x, ü@ö.d and @müller.de"),
            (
                "v1234567890123456 0123-45-6789",
                "v1234567890123456 0123-45-6789",
            ),
        ] {
            assert_eq!(redacted(&[], &[], text), expected);
        }
    }

    #[test]
    fn built_in_patterns_check_what_they_find() {
        for (own, text, expected) in [
            (
                BuiltIn::Iban,
                "to DE89 3704 0044 0532 0130 00 please",
                "to [REDACTED] please",
            ),
            (BuiltIn::Iban, "GB82WEST12345698765432", "[REDACTED]"),
            (
                BuiltIn::Iban,
                "DE88370400440532013000",
                "DE88370400440532013000",
            ),
            (BuiltIn::Card, "5500 0055 5555 5559", "[REDACTED]"),
            (
                BuiltIn::Card,
                "5500 0055 5555 5559 12 months",
                "[REDACTED] 12 months",
            ),
            (BuiltIn::Card, "378282246310005", "[REDACTED]"),
            (BuiltIn::Card, "5500 0055 5555 5550", "5500 0055 5555 5550"),
            (
                BuiltIn::Phone,
                "call +49 (0)30 1234567 now",
                "call [REDACTED] now",
            ),
            (BuiltIn::Phone, "call 555-123-4567", "call [REDACTED]"),
            (BuiltIn::Phone, "call 0170/1234567", "call [REDACTED]"),
            (BuiltIn::Phone, "on 03-10-2026 18:02", "on 03-10-2026 18:02"),
            (BuiltIn::Phone, "call (0170) 1234567", "call [REDACTED]"),
            (BuiltIn::Phone, "1.050 123456", "1.050 123456"),
            (
                BuiltIn::Phone,
                "in 2026, 1500 people",
                "in 2026, 1500 people",
            ),
            (
                BuiltIn::IpAddress,
                "from 192.168.0.1 to",
                "from [REDACTED] to",
            ),
            (
                BuiltIn::IpAddress,
                "from 2001:db8::1 to",
                "from [REDACTED] to",
            ),
            (
                BuiltIn::IpAddress,
                "version 300.1.2.3 at 10:30",
                "version 300.1.2.3 at 10:30",
            ),
            (
                BuiltIn::ApiKey,
                "key hf_abcdefghijklmnopqrstuvwx",
                "key [REDACTED]",
            ),
            (BuiltIn::ApiKey, "AKIAIOSFODNN7EXAMPLE", "[REDACTED]"),
            (
                BuiltIn::ApiKey,
                "sk-short and task-force-number",
                "sk-short and task-force-number",
            ),
            (
                BuiltIn::BearerToken,
                "Authorization: Bearer abcdef123456789",
                "Authorization: [REDACTED]",
            ),
            (
                BuiltIn::BearerToken,
                "the bearer of news",
                "the bearer of news",
            ),
            (
                BuiltIn::ApiKey,
                "_sk-abcdefghijklmnop123_ and __AKIAIOSFODNN7EXAMPLE__",
                "_[REDACTED] and __[REDACTED]__",
            ),
            (
                BuiltIn::ApiKey,
                "tokenghp_abcdefghijklmnopqrstuvwxyz012345",
                "token[REDACTED]",
            ),
            (
                BuiltIn::ApiKey,
                "task-management-system-2000, task_test_somethinglong",
                "task-management-system-2000, task_test_somethinglong",
            ),
            (
                BuiltIn::BearerToken,
                "_Bearer abcdef123456789_ and **Bearer** `abcdef123456789`",
                "_[REDACTED] and **[REDACTED]`",
            ),
            (
                BuiltIn::BearerToken,
                "tokeneyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln, keyJobRunner1.something.else",
                "token[REDACTED], keyJobRunner1.something.else",
            ),
            (
                BuiltIn::Phone,
                "_+49 30 1234567_ or __0170/1234567__",
                "_[REDACTED]_ or __[REDACTED]__",
            ),
            (
                BuiltIn::Phone,
                "Ann,12,030 1234567,Berlin\n7,+49 30 1234567\nBob,\"8\",555-123-4567",
                "Ann,12,[REDACTED],Berlin\n7,[REDACTED]\nBob,\"8\",[REDACTED]",
            ),
            (
                BuiltIn::Phone,
                "rose from 1,050 123456 to img_0123_456789, 2024_10_030",
                "rose from 1,050 123456 to img_0123_456789, 2024_10_030",
            ),
            (
                BuiltIn::IpAddress,
                "_192.168.0.1_ and v_300.1.2.3",
                "_[REDACTED]_ and v_300.1.2.3",
            ),
        ] {
            assert_eq!(redacted(&[own], &[], text), expected, "{own:?}");
        }

        let key = "a -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- b";
        assert_eq!(redacted(&[BuiltIn::PrivateKey], &[], key), "a [REDACTED] b");
    }

    #[test]
    fn patterns_match_the_original_text_only() {
        for (custom, text, expected) in [
            // What follows a match begins neither a text nor a word.
            ("^a", "aaa", "[REDACTED]aa"),
            ("abc", "abc1234567890123456", "[REDACTED]1234567890123456"),
            ("abc", "abc 1234567890123456", "[REDACTED] [REDACTED]"),
            ("^a", "123-45-6789 a", "[REDACTED] a"),
        ] {
            assert_eq!(redacted(&[], &[custom], text), expected);
        }
    }

    #[test]
    fn a_phone_number_may_follow_the_full_stop_of_another() {
        let text = "call 030 1234567.030 1234568.0170 1234569, not 1.050 123456";
        assert_eq!(
            redacted(&[BuiltIn::Phone], &[], text),
            "call [REDACTED].[REDACTED].[REDACTED], not 1.050 123456"
        );
    }

    #[test]
    fn numbers_are_found_beside_other_numbers_and_words() {
        for (own, text, expected) in [
            (
                BuiltIn::Card,
                "Order 12 4111 1111 1111 1111",
                "Order 12 [REDACTED]",
            ),
            (
                BuiltIn::Iban,
                "Room AB12 DE89 3704 0044 0532 0130 00",
                "Room AB12 [REDACTED]",
            ),
            (
                BuiltIn::IpAddress,
                "from:2001:db8::1. To 10.0.0.1.",
                "from:[REDACTED]. To [REDACTED].",
            ),
            (
                BuiltIn::IpAddress,
                "on ::1: refused",
                "on [REDACTED]: refused",
            ),
        ] {
            assert_eq!(redacted(&[own], &[], text), expected);
        }
    }

    #[test]
    fn a_pattern_that_takes_too_long_is_named() {
        let patterns = compile(&["x|x.*y".to_owned()], &[]).expect("compiles");
        let over = TimeLimit::of(Duration::ZERO);
        let slow = patterns.redact("xx", "***", over).expect_err("is over");
        assert_eq!(slow.pattern, "ssn");

        // Every match is one letter, and looks for the end of the text first.
        let text = "x".repeat(1_000_000);
        let patterns = compile(&["x.*y|x".to_owned()], &[]).expect("compiles");
        let limit = TimeLimit::of(Duration::from_millis(200));
        let slow = patterns.redact(&text, "***", limit).expect_err("is over");
        assert_eq!(slow.pattern, "custom[0]");
    }

    #[test]
    fn overlapping_matches_are_replaced_together() {
        assert_eq!(redacted(&[], &["bcd", "abc"], "xabcdx"), "x[REDACTED]x");
    }

    #[test]
    fn a_pattern_that_cannot_be_used_says_why() {
        let long = "a".repeat(LONGEST_PATTERN + 1);
        for (source, reason) in [
            ("(", "is not a valid regular expression"),
            ("a*", "matches empty text"),
            (long.as_str(), "has 501 characters"),
            (r"\w{1000}{1000}", "has a size of 1000000"),
            (
                r"\w{40}",
                "is not a valid regular expression: Compiled regex exceeds size limit",
            ),
        ] {
            let faults = compile(&[source.to_owned()], &[]).expect_err("is rejected");
            assert_eq!(faults[0].field, "retrieval.customRedactionPatterns[0]");
            assert!(
                faults[0].message.starts_with(reason),
                "{}",
                faults[0].message
            );
        }
        assert!(compile(&vec!["a".to_owned(); MAX_PATTERNS + 1], &[]).is_err());
        let faults = compile(&vec!["[a-z]{100}".to_owned(); 21], &[]).expect_err("is rejected");
        assert_eq!(faults[0].field, "retrieval.customRedactionPatterns");
    }
}
