//! What redaction replaces: three standard patterns, built-in ones by name, and custom ones.
//!
//! Every regular expression runs in linear time, even custom ones.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::sync::Arc;

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::check_digits::{is_card, is_iban};
use super::settings::{LONGEST_PATTERN, MOST_PATTERNS};
use crate::base::field_error::FieldError;
use crate::base::text::char_count;

/// The most memory that one compiled pattern may take.
const PATTERN_BYTES: usize = 1 << 20;

/// Always used when redaction is on.
const STANDARD: [(&str, &str); 3] = [
    ("ssn", r"\b[0-9]{3}-[0-9]{2}-[0-9]{4}\b"),
    ("card_16_digits", r"\b[0-9]{16}\b"),
    ("email", r"(?i)\b[A-Z0-9._%+-]+@[A-Z0-9.-]+\.[A-Z]{2,}\b"),
];

/// A built-in pattern. `iban`: an IBAN whose check digits are right; `card`: a card number of 13 to
/// 19 digits whose check digit is right; `phone`: a phone number with a country code or with
/// separators; `ip_address`: an IPv4 or IPv6 address; `api_key`: a key of a well-known provider,
/// recognised by its prefix; `bearer_token`: the token after `Bearer`, and any JSON web token;
/// `private_key`: a private key in PEM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = BuiltInPattern)]
pub enum BuiltIn {
    /// An IBAN whose check digits are right.
    Iban,
    /// A card number of 13 to 19 digits, spaced or not, whose check digit is right.
    Card,
    /// A phone number with a country code or with separators.
    Phone,
    /// An IPv4 or IPv6 address.
    IpAddress,
    /// A key of a well-known provider, recognised by its prefix.
    ApiKey,
    /// The token after `Bearer`, and any JSON web token.
    BearerToken,
    /// A private key in PEM.
    PrivateKey,
}

impl BuiltIn {
    pub const ALL: [Self; 7] = [
        Self::Iban,
        Self::Card,
        Self::Phone,
        Self::IpAddress,
        Self::ApiKey,
        Self::BearerToken,
        Self::PrivateKey,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Iban => "iban",
            Self::Card => "card",
            Self::Phone => "phone",
            Self::IpAddress => "ip_address",
            Self::ApiKey => "api_key",
            Self::BearerToken => "bearer_token",
            Self::PrivateKey => "private_key",
        }
    }

    fn regex(self) -> &'static str {
        match self {
            Self::Iban => r"(?i)\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]){11,30}\b",
            Self::Card => r"\b[0-9](?:[ -]?[0-9]){12,18}\b",
            Self::Phone => {
                concat!(
                    r"\+[0-9](?:[ ().-]{0,2}[0-9]){6,14}\b|\(?\b[0-9]{3}\)?[ .-][0-9]{3}[ .-][0-9]{4}\b",
                    // An area code with a leading zero has three digits or more: two could be a day.
                    r"|\(?\b0[0-9]{2,5}\)?[ /-]{1,3}[0-9](?:[ -]?[0-9]){4,8}\b",
                )
            }
            Self::IpAddress => r"\b[0-9]{1,3}(?:\.[0-9]{1,3}){3}\b|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]+",
            Self::ApiKey => concat!(
                r"\b(?:sk-(?:ant-|proj-|or-)?[A-Za-z0-9_-]{16,}|(?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{10,}",
                r"|AIza[A-Za-z0-9_-]{30,}|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}",
                r"|glpat-[A-Za-z0-9_-]{16,}|xox[abeoprs]-[A-Za-z0-9-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}",
                r"|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}|gsk_[A-Za-z0-9]{20,}|r8_[A-Za-z0-9]{20,})",
            ),
            Self::BearerToken => concat!(
                r"(?i:\bbearer\s+)[A-Za-z0-9._~+/-]{12,}=*",
                r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*",
            ),
            Self::PrivateKey => concat!(
                r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?",
                r"(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
            ),
        }
    }

    /// Checks what a regular expression cannot, such as check digits, and returns how much of a
    /// match is valid. A number can be followed by words or digits that look like its next group,
    /// so shorter parts are tried too.
    fn confirmed(self, found: &str) -> Option<usize> {
        match self {
            Self::Iban => group_ends(found).find(|&end| is_iban(&found[..end])),
            Self::Card => group_ends(found).find(|&end| is_card(&found[..end])),
            Self::IpAddress => {
                let is_address = found.parse::<Ipv4Addr>().is_ok()
                    || (found.matches(':').count() >= 2 && found.parse::<Ipv6Addr>().is_ok());
                is_address.then_some(found.len())
            }
            _ => Some(found.len()),
        }
    }
}

/// The end of a match, then the ends of its groups, last first.
fn group_ends(found: &str) -> impl Iterator<Item = usize> {
    let separators = found.rmatch_indices([' ', '-']).map(|(at, _)| at);
    std::iter::once(found.len()).chain(separators)
}

/// All patterns of a policy, compiled once and shared.
#[derive(Debug, Clone)]
pub struct CompiledPatterns(Arc<[Pattern]>);

#[derive(Debug)]
struct Pattern {
    name: String,
    regex: Regex,
    built_in: Option<BuiltIn>,
}

impl Pattern {
    /// The zero of "1.050" begins no phone number.
    fn is_decimal(&self, text: &str, found: &regex::Match<'_>) -> bool {
        let before = text[..found.start()].strip_suffix(['.', ',']);
        self.built_in == Some(BuiltIn::Phone)
            && before.is_some_and(|before| before.ends_with(|c: char| c.is_ascii_digit()))
    }

    fn matches(&self, text: &str) -> impl Iterator<Item = Range<usize>> {
        self.regex
            .find_iter(text)
            .filter(|found| !found.is_empty() && !self.is_decimal(text, found))
            .filter_map(|found| {
                let length = match self.built_in {
                    Some(own) => own.confirmed(found.as_str())?,
                    None => found.len(),
                };
                Some(found.start()..found.start() + length)
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
    let mut faults = Vec::new();
    if custom.len() > MOST_PATTERNS {
        let message = format!(
            "has {} patterns; at most {MOST_PATTERNS} are allowed",
            custom.len()
        );
        return Err(vec![FieldError::new(
            "retrieval.customRedactionPatterns",
            message,
        )]);
    }

    let mut patterns: Vec<Pattern> = STANDARD
        .iter()
        .map(|(name, source)| Pattern {
            name: (*name).to_owned(),
            regex: known(source),
            built_in: None,
        })
        .collect();
    let mut named = built_in.to_vec();
    named.sort_unstable();
    named.dedup();
    patterns.extend(named.into_iter().map(|own| Pattern {
        name: own.as_str().to_owned(),
        regex: known(own.regex()),
        built_in: Some(own),
    }));

    for (index, source) in custom.iter().enumerate() {
        match compile_custom(source) {
            Ok(regex) => patterns.push(Pattern {
                name: format!("custom[{index}]"),
                regex,
                built_in: None,
            }),
            Err(message) => {
                let field = format!("retrieval.customRedactionPatterns[{index}]");
                faults.push(FieldError::new(field, message));
            }
        }
    }

    if faults.is_empty() {
        Ok(CompiledPatterns(patterns.into()))
    } else {
        Err(faults)
    }
}

#[expect(
    clippy::expect_used,
    reason = "a test compiles every pattern of this file"
)]
fn known(source: &str) -> Regex {
    Regex::new(source).expect("the patterns of this file compile")
}

fn compile_custom(source: &str) -> Result<Regex, String> {
    let length = char_count(source);
    if length > LONGEST_PATTERN {
        return Err(format!(
            "has {length} characters; at most {LONGEST_PATTERN} are allowed"
        ));
    }

    let regex = RegexBuilder::new(source)
        .size_limit(PATTERN_BYTES)
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
    /// The text with every match replaced; `None` if nothing matches.
    ///
    /// All patterns look at the text first, and overlapping matches are replaced together, so the
    /// order of the patterns does not matter. The remaining text is searched again: after a
    /// replacement, its neighbours may match.
    pub fn redact(&self, text: &str, replacement: &str) -> Option<Redacted> {
        let mut matches = 0;
        let mut used = vec![false; self.0.len()];
        let mut parts = vec![text.to_owned()];

        loop {
            let mut found_any = false;
            let mut next = Vec::with_capacity(parts.len());
            for part in &parts {
                let ranges = self.ranges(part, &mut used);
                found_any |= !ranges.is_empty();
                matches += ranges.len();

                let mut rest = 0;
                for range in ranges {
                    next.push(part[rest..range.start].to_owned());
                    rest = range.end;
                }
                next.push(part[rest..].to_owned());
            }
            parts = next;
            if !found_any {
                break;
            }
        }

        let names = self.0.iter().zip(&used).filter(|(_, used)| **used);
        (matches > 0).then(|| Redacted {
            text: parts.join(replacement),
            matches,
            patterns: names.map(|(pattern, _)| pattern.name.clone()).collect(),
        })
    }

    /// The ranges that match any pattern; overlapping and touching matches are one range.
    fn ranges(&self, text: &str, used: &mut [bool]) -> Vec<Range<usize>> {
        let mut all: Vec<Range<usize>> = Vec::new();
        for (pattern, used) in self.0.iter().zip(used) {
            let before = all.len();
            all.extend(pattern.matches(text));
            *used |= all.len() > before;
        }
        all.sort_unstable_by_key(|range| (range.start, range.end));

        let mut merged: Vec<Range<usize>> = Vec::with_capacity(all.len());
        for range in all {
            match merged.last_mut() {
                Some(last) if range.start < last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(built_in: &[BuiltIn], custom: &[&str], text: &str) -> String {
        let custom: Vec<String> = custom.iter().map(|&source| source.to_owned()).collect();
        let patterns = compile(&custom, built_in).expect("compiles");
        patterns
            .redact(text, "[REDACTED]")
            .map_or_else(|| text.to_owned(), |redacted| redacted.text)
    }

    #[test]
    fn every_built_in_pattern_compiles() {
        compile(&[], &BuiltIn::ALL).expect("compiles");
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
        ] {
            assert_eq!(redacted(&[own], &[], text), expected, "{own:?}");
        }

        let key = "a -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- b";
        assert_eq!(redacted(&[BuiltIn::PrivateKey], &[], key), "a [REDACTED] b");
    }

    #[test]
    fn what_a_replaced_neighbour_sets_free_is_replaced_too() {
        assert_eq!(
            redacted(&[], &["abc"], "abc1234567890123456"),
            "[REDACTED][REDACTED]"
        );
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
            (r"\w{1000}{1000}", "is not a valid regular expression"),
        ] {
            let faults = compile(&[source.to_owned()], &[]).expect_err("is rejected");
            assert_eq!(faults[0].field, "retrieval.customRedactionPatterns[0]");
            assert!(
                faults[0].message.starts_with(reason),
                "{}",
                faults[0].message
            );
        }
        assert!(compile(&vec!["a".to_owned(); MOST_PATTERNS + 1], &[]).is_err());
    }
}
