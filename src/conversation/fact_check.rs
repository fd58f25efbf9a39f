//! Checks whether a quote supports a fact. Pure. This compares words, not meaning: it rejects facts
//! with names, numbers or negations that the quote does not have, and facts that share too few
//! words with it.

use std::collections::HashSet;

/// The share of a fact's words that its quote must contain.
const MIN_SHARE: f64 = 0.6;
/// Words with this many equal first letters count as the same: "live", "lives", "lived".
const STEM: usize = 4;
const DENIALS: [&str; 9] = [
    "not", "no", "never", "without", "neither", "nor", "cannot", "none", "nicht",
];
/// Words that carry no meaning of their own.
const EMPTY: [&str; 46] = [
    "a", "an", "the", "is", "are", "was", "were", "am", "be", "been", "has", "have", "had", "and",
    "or", "of", "to", "in", "on", "at", "for", "with", "by", "from", "as", "it", "its", "that",
    "this", "i", "my", "me", "their", "his", "her", "they", "he", "she", "user", "users", "person",
    "s", "does", "do", "who", "named",
];

/// The characters of a message that a quote covers: start and end, exclusive.
pub fn range(message: &str, quote: &str) -> Option<(usize, usize)> {
    let quote = quote.trim();
    let at = message.find(quote).filter(|_| !quote.is_empty())?;
    let start = message[..at].chars().count();
    Some((start, start + quote.chars().count()))
}

/// Whether a quote supports a fact.
pub fn carries(quote: &str, fact: &str) -> bool {
    if quote.trim_end().ends_with(['?', '？']) || denies(quote) != denies(fact) {
        return false;
    }

    let said = words(quote);
    let has = |word: &str| said.iter().any(|other| same(other, word));
    let names = names(fact);
    if !names.iter().all(|name| has(name)) {
        return false;
    }

    let wanted: Vec<String> = words(fact)
        .into_iter()
        .filter(|word| !EMPTY.contains(&word.as_str()))
        .collect();
    let found = wanted.iter().filter(|word| has(word)).count();
    #[expect(clippy::cast_precision_loss, reason = "a few words")]
    let share = found as f64 / wanted.len().max(1) as f64;
    !wanted.is_empty() && share >= MIN_SHARE
}

/// Whether a text says that something is not so.
pub fn denies(text: &str) -> bool {
    let text = text.to_lowercase().replace('’', "'");
    text.contains("n't")
        || words(&text)
            .iter()
            .any(|word| DENIALS.contains(&word.as_str()))
}

/// Words in lower case. Text without spaces between words gives its characters.
fn words(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    for word in text.to_lowercase().split(|c: char| !c.is_alphanumeric()) {
        if word.chars().any(|c| c >= '\u{2E80}') {
            all.extend(word.chars().map(String::from));
        } else if !word.is_empty() {
            all.push(word.to_owned());
        }
    }

    all
}

/// Numbers, and words with a capital letter inside the sentence.
fn names(fact: &str) -> HashSet<String> {
    let mut found = HashSet::new();
    let each = fact.split(|c: char| !c.is_alphanumeric());
    for (place, word) in each.filter(|word| !word.is_empty()).enumerate() {
        let is_number = word.chars().any(|c| c.is_ascii_digit());
        let is_name = place > 0 && word.chars().next().is_some_and(char::is_uppercase);
        let lower = word.to_lowercase();
        if (is_number || is_name) && !EMPTY.contains(&lower.as_str()) {
            found.insert(lower);
        }
    }

    found
}

fn same(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }

    let is_number = |word: &str| word.chars().any(|c| c.is_ascii_digit());
    let shared = one.chars().zip(other.chars()).take_while(|(a, b)| a == b);
    !is_number(one) && !is_number(other) && shared.count() >= STEM
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_needs_the_names_numbers_and_denials_of_its_quote() {
        for (quote, fact, wanted) in [
            ("I live in Bonn", "The user lives in Bonn", true),
            ("I live in Bonn", "The user lives in Rome", false),
            ("I live in Bonn", "Works as a baker in Bonn", false),
            ("I have 2 cats", "Has 2 cats", true),
            ("I have 2 cats", "Has 3 cats", false),
            ("I am not vegetarian", "The user is vegetarian", false),
            ("I don't eat meat", "Does not eat meat", true),
            ("Should I move to Rome?", "The user moves to Rome", false),
            ("我住在北京", "用户住在北京", true),
            ("我住在北京", "用户喜欢足球", false),
            ("ok", "", false),
        ] {
            assert_eq!(carries(quote, fact), wanted, "{quote} / {fact}");
        }

        assert_eq!(range("Grüße, ich bin da", "ich bin"), Some((7, 14)));
        assert_eq!(range("one", "two"), None);
    }
}
