//! Recognises entities by their form: dates, amounts of money, ids, addresses and phone numbers.

use memoir_text::months::MONTHS;

use super::entities::{Kind, Token};

const CURRENCY_SIGNS: [char; 4] = ['$', '€', '£', '¥'];
const CURRENCIES: [&str; 14] = [
    "USD", "EUR", "GBP", "CHF", "JPY", "CAD", "AUD", "SEK", "NOK", "DKK", "PLN", "CZK", "INR",
    "CNY",
];
const CURRENCY_WORDS: [&str; 14] = [
    "euro", "euros", "dollar", "dollars", "cent", "cents", "yen", "francs", "rupees", "kronor",
    "bucks", "quid", "zloty", "pesos",
];
const MAGNITUDES: [&str; 6] = ["k", "thousand", "million", "millions", "billion", "m"];
/// Words before the id of a thing.
const IDENTIFIED: [&str; 16] = [
    "order",
    "ticket",
    "invoice",
    "issue",
    "case",
    "booking",
    "reservation",
    "reference",
    "ref",
    "confirmation",
    "claim",
    "contract",
    "policy",
    "pr",
    "bug",
    "customer",
];
/// Words between such a word and the id.
const NUMBER_WORDS: [&str; 6] = ["number", "no", "nr", "id", "code", "is"];
/// Words that go on after an id; after others, a number counts something ("order 500 lamps").
const AFTER_IDS: [&str; 22] = [
    "is", "was", "has", "hasn't", "isn't", "from", "of", "on", "to", "and", "or", "in", "for",
    "with", "which", "that", "because", "still", "never", "not", "says", "but",
];
/// Technical words that look like an id.
const NOT_IDS: [&str; 12] = [
    "COVID", "SARS", "UTF", "SHA", "AES", "GPT", "MD", "USB", "HTTP", "ASCII", "MP", "CO",
];
/// Groups of digits in a phone number.
const MAX_GROUPS: usize = 8;
/// Words in capitals before a number that is no id.
const NOT_REFERENCES: [&str; 8] = ["AM", "PM", "UTC", "GMT", "CET", "BC", "AD", "WW"];

/// The kind of what begins at a token, and its number of tokens.
pub fn at(tokens: &[Token<'_>], at: usize) -> Option<(Kind, usize)> {
    amount(tokens, at)
        .map(|count| (Kind::Amount, count))
        .or_else(|| date(tokens, at).map(|count| (Kind::Date, count)))
        .or_else(|| address(&tokens[at]).map(|kind| (kind, 1)))
        .or_else(|| phone(tokens, at).map(|count| (Kind::Phone, count)))
        .or_else(|| id(tokens, at))
}

/// The token after one, unless a mark separates them.
fn next<'a, 't>(tokens: &'a [Token<'t>], at: usize) -> Option<&'a Token<'t>> {
    tokens.get(at + 1).filter(|_| !tokens[at].closes)
}

fn digits(text: &str) -> usize {
    text.bytes().filter(u8::is_ascii_digit).count()
}

/// "300", "1,200.50", "20-30".
fn is_number(text: &str) -> bool {
    let first = text.chars().next().is_some_and(|c| c.is_ascii_digit());
    let plain = |c: char| c.is_ascii_digit() || ".,'’-–".contains(c);
    let rest = text.trim_end_matches(['k', 'm']);
    first && rest.len() + 1 >= text.len() && rest.chars().all(plain)
}

fn amount(tokens: &[Token<'_>], at: usize) -> Option<usize> {
    let text = tokens[at].text;
    let magnitude = |count: usize| {
        let next = next(tokens, at + count - 1);
        count + usize::from(next.is_some_and(|next| MAGNITUDES.contains(&next.lower.as_str())))
    };

    let bare = text.trim_start_matches(CURRENCY_SIGNS);
    if bare.len() < text.len() && is_number(bare) {
        return Some(magnitude(1));
    }

    let goes_before = CURRENCIES.contains(&text) || !text.is_empty() && bare.is_empty();
    if goes_before && next(tokens, at).is_some_and(|next| is_number(next.text)) {
        return Some(magnitude(2));
    }

    let number = text.trim_end_matches(CURRENCY_SIGNS);
    if number.len() < text.len() {
        return is_number(number).then_some(1);
    }

    let count = if is_number(text) {
        magnitude(1)
    } else {
        return None;
    };
    let unit = next(tokens, at + count - 1)?;
    let is_unit = CURRENCIES.contains(&unit.text)
        || CURRENCY_WORDS.contains(&unit.lower.as_str())
        || unit.text.trim_start_matches(CURRENCY_SIGNS).is_empty();
    is_unit.then_some(count + 1)
}

fn date(tokens: &[Token<'_>], at: usize) -> Option<usize> {
    let text = tokens[at].text;
    if is_numeric_date(text) {
        return Some(1);
    }

    let year_after = |count: usize| {
        // A comma may stand before the year.
        let year = tokens
            .get(at + count)
            .is_some_and(|token| is_year(token.text));
        count + usize::from(year)
    };

    if is_month(text) {
        let next = next(tokens, at)?;
        if is_day(&next.lower) {
            return Some(year_after(2));
        }

        return is_year(next.text).then_some(2);
    }

    if is_day(&tokens[at].lower) {
        let of = next(tokens, at).filter(|next| next.lower == "of");
        let count = 1 + usize::from(of.is_some());
        let month = next(tokens, at + count - 1)?;
        return is_month(month.text).then(|| year_after(count + 1));
    }

    None
}

/// 2026-06-09, 9/6/2026, 09.06.2026, 06/09/26.
fn is_numeric_date(text: &str) -> bool {
    let split = |mark: char| -> Option<[u32; 3]> {
        let parts: Vec<&str> = text.split(mark).collect();
        let numbers: Option<Vec<u32>> = parts
            .iter()
            .map(|part| {
                let plain = part.bytes().all(|byte| byte.is_ascii_digit());
                part.parse().ok().filter(|_| plain)
            })
            .collect();
        numbers?.try_into().ok()
    };
    let fits = |day: u32, month: u32| (1..=31).contains(&day) && (1..=12).contains(&month);

    if let Some([year, month, day]) = split('-') {
        return text.len() == 10 && (1000..3000).contains(&year) && fits(day, month);
    }

    let (slashes, dots) = (split('/'), split('.'));
    let short = text.len() >= 6 && slashes.is_some();
    let Some([a, b, year]) = slashes.or(dots) else {
        return false;
    };
    ((1900..2200).contains(&year) || short && year < 100) && (fits(a, b) || fits(b, a))
}

/// The name of a month or its first three letters, as a name.
fn is_month(text: &str) -> bool {
    let lower = text.to_lowercase();
    let is_named = |name: &str| *name == lower || lower.len() == 3 && name.starts_with(&lower);
    text.starts_with(char::is_uppercase) && MONTHS.iter().any(|name| is_named(name))
}

fn is_day(lower: &str) -> bool {
    let number = ["st", "nd", "rd", "th"]
        .iter()
        .find_map(|ending| lower.strip_suffix(ending))
        .unwrap_or(lower);
    number.len() <= 2 && number.parse().is_ok_and(|day: u32| (1..=31).contains(&day))
}

fn is_year(text: &str) -> bool {
    text.len() == 4
        && text
            .parse()
            .is_ok_and(|year: u32| (1900..2200).contains(&year))
}

fn address(token: &Token<'_>) -> Option<Kind> {
    let (name, host) = token.text.split_once('@')?;
    (!name.is_empty() && host.contains('.')).then_some(Kind::Email)
}

/// "+32 9 123 45 67", "+32-9-1234567".
fn phone(tokens: &[Token<'_>], at: usize) -> Option<usize> {
    let dials = |text: &str| {
        let is_part = |c: char| c.is_ascii_digit() || "+-()/".contains(c);
        digits(text) > 0 && text.chars().all(is_part)
    };
    let first = tokens[at].text;
    if !first.starts_with('+') || !dials(first) {
        return None;
    }

    let mut count = 1;
    let mut all = digits(first);
    while count < MAX_GROUPS
        && let Some(next) = next(tokens, at + count - 1)
        && dials(next.text)
        && all + digits(next.text) <= 15
    {
        all += digits(next.text);
        count += 1;
    }

    (all >= 9).then_some(count)
}

fn id(tokens: &[Token<'_>], at: usize) -> Option<(Kind, usize)> {
    let text = tokens[at].text;
    let is_code = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if let Some(rest) = text.strip_prefix('#') {
        return (digits(rest) > 0 && is_code(rest)).then_some((Kind::Id, 1));
    }

    if is_tracked(tokens, at) {
        return Some((Kind::Tracking, 1));
    }

    let letters = text.bytes().take_while(u8::is_ascii_uppercase).count();
    let (prefix, rest) = text.split_at(letters);
    if letters >= 2
        && rest.starts_with(['-', '/'])
        && digits(rest) >= 2
        && rest
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '/')
    {
        return (!NOT_IDS.contains(&prefix)).then_some((Kind::Id, 1));
    }

    // "RFC 9457"
    if (2..=6).contains(&letters)
        && rest.is_empty()
        && !NOT_REFERENCES.contains(&prefix)
        && !NOT_IDS.contains(&prefix)
        && let Some(number) = next(tokens, at)
        && number.text.len() >= 3
        && digits(number.text) == number.text.len()
    {
        return Some((Kind::Id, 2));
    }

    is_introduced(tokens, at).then_some((Kind::Id, 1))
}

/// "tracking number 1Z999AA10123456784".
fn is_tracked(tokens: &[Token<'_>], at: usize) -> bool {
    let text = tokens[at].text;
    let near = tokens[at.saturating_sub(3)..at].iter();
    digits(text) >= 6
        && text.chars().all(|c| c.is_ascii_alphanumeric())
        && near.into_iter().any(|token| token.lower == "tracking")
}

/// "order 5678", "booking number X7PQ42".
fn is_introduced(tokens: &[Token<'_>], at: usize) -> bool {
    let text = tokens[at].text;
    let code = text
        .chars()
        .all(|c| c.is_ascii_digit() || c.is_ascii_uppercase() || c == '-');
    if digits(text) < 3 && (digits(text) < 2 || text.len() < 5) || !code {
        return false;
    }

    let before = tokens[..at].iter().rev();
    let named = before
        .take_while(|token| !token.closes)
        .find(|token| !NUMBER_WORDS.contains(&token.lower.as_str()));
    let goes_on = next(tokens, at).is_none_or(|next| AFTER_IDS.contains(&next.lower.as_str()));
    goes_on && named.is_some_and(|token| IDENTIFIED.contains(&token.lower.as_str()))
}
