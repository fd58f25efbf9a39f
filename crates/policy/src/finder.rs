//! How a pattern finds its matches in a text.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use regex::{Match, Regex};

use super::time_limit::{TimeLimit, TimeOver};

/// How a pattern finds its matches.
#[derive(Debug)]
pub enum Finder {
    Regex(Regex),
    /// Whose matches contain no underscore, so that one beside them ends them as a space does: in
    /// Markdown, it emphasises.
    Plain(Regex),
    /// Whose matches may begin with an underscore that does not count.
    Keys(Regex),
    /// E-mail addresses. Few texts contain any, and a search through letters of several scripts takes
    /// longer than one for the sign.
    Emails(Regex),
    Phones(Regex),
    Addresses(Regex),
    /// What a regular expression cannot check, such as check digits.
    Numbers(fn(&str) -> Vec<Range<usize>>),
}

/// Compiles a pattern of this program.
#[expect(
    clippy::expect_used,
    reason = "a test compiles every pattern of this program"
)]
pub fn known(source: &str) -> Regex {
    Regex::new(source).expect("the patterns of this program compile")
}

impl Finder {
    /// Adds the matches in a text, in order.
    pub fn find(
        &self,
        text: &str,
        limit: TimeLimit,
        found: &mut Vec<Range<usize>>,
    ) -> Result<(), TimeOver> {
        let (regex, text) = match self {
            Self::Numbers(numbers) => {
                found.extend(numbers(text));
                return limit.check();
            }
            Self::Emails(_) if !text.contains('@') => return limit.check(),
            Self::Regex(regex) | Self::Emails(regex) | Self::Keys(regex) => {
                (regex, Cow::Borrowed(text))
            }
            Self::Plain(regex) | Self::Phones(regex) | Self::Addresses(regex) => {
                (regex, without_underscores(text))
            }
        };

        let first = found.len();
        let mut matches = regex.find_iter(&text);
        loop {
            limit.check()?;
            let Some(one) = matches.next() else {
                return Ok(());
            };

            let before = found[first..].last().map_or(0, |last| last.end);
            found.extend(self.confirmed(&text, one, before));
        }
    }

    /// The part of a match that counts, if the match before ended there.
    fn confirmed(&self, text: &str, found: Match<'_>, before: usize) -> Option<Range<usize>> {
        match self {
            Self::Phones(_) if is_decimal(text, found.start(), before) => None,
            Self::Addresses(_) => address(found),
            Self::Keys(_) => {
                let begins = found.as_str().trim_start_matches('_').len();
                Some(found.end() - begins..found.end())
            }
            _ => (!found.is_empty()).then(|| found.range()),
        }
    }
}

/// A text with something as long instead of each underscore, which ends a word.
fn without_underscores(text: &str) -> Cow<'_, str> {
    if text.contains('_') {
        text.replace('_', "*").into()
    } else {
        text.into()
    }
}

/// Maximum digits of the cell of a table before a phone number.
const MAX_CELL_DIGITS: usize = 20;

/// Whether digits go on after the point or comma of a number, as the zero of "1.050" does, which
/// begins no phone number. The number before the point may be a phone number itself; the digits
/// before the comma may be a cell of a table.
fn is_decimal(text: &str, start: usize, end_before: usize) -> bool {
    let (before, rest) = text.split_at(start);
    let Some(number) = before.strip_suffix(['.', ',']) else {
        return false;
    };
    let digits = number.bytes().rev().take(MAX_CELL_DIGITS);
    let digits = digits.take_while(u8::is_ascii_digit).count();
    if digits == 0 || number.len() <= end_before || rest.starts_with(['+', '(']) {
        return false;
    }

    let cell = &number[..number.len() - digits];
    !(before.ends_with(',') && cell.ends_with([',', ';', '"', '\t', '\n']))
}

/// An IP address without the marks beside it: the colon of "from:" or the full stop of a sentence.
fn address(found: Match<'_>) -> Option<Range<usize>> {
    let is_address = |text: &str| {
        let colons = text.bytes().filter(|byte| *byte == b':').take(2).count();
        text.parse::<Ipv4Addr>().is_ok() || (colons == 2 && text.parse::<Ipv6Addr>().is_ok())
    };

    let whole = found.as_str();
    let ended = whole.trim_end_matches('.');
    let tried = [
        whole,
        ended,
        ended.strip_suffix(':').unwrap_or(ended),
        ended.strip_prefix(':').unwrap_or(ended),
    ];
    let part = tried.into_iter().find(|part| is_address(part))?;
    let start = found.start() + usize::from(!whole.starts_with(part));
    Some(start..start + part.len())
}
