//! The words by which sources are found: folded, without punctuation, without common words.

use std::collections::HashSet;
use std::sync::LazyLock;

use unicode_normalization::UnicodeNormalization as _;

use super::stop_words;
use super::text::name_key;

/// Longer words are serial numbers and the like, which nobody searches for.
const MAX_CHARS: usize = 64;
/// Maximum characters of a name's key.
const MAX_KEY: usize = 256;

/// The groups of words that do not distinguish sources.
const COMMON: [&str; 2] = ["english_common", "number"];

/// Calls back with every word in lower case. Scripts without spaces between words yield pairs of
/// characters.
pub fn each(text: &str, mut take: impl FnMut(&str)) {
    if text.is_ascii() {
        let mut folded = String::new();
        for word in text
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
        {
            folded.clear();
            folded.push_str(word);
            folded.make_ascii_lowercase();
            take(&folded);
        }

        return;
    }

    let folded = text.nfkc().collect::<String>().to_lowercase();
    for word in folded
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
    {
        if !word.chars().any(is_unparted) {
            take(word);
            continue;
        }

        let mut ends = word
            .char_indices()
            .map(|(at, _)| at)
            .chain([word.len()])
            .skip(2);

        let starts = word.char_indices().map(|(at, _)| at);
        let mut paired = false;
        for (start, end) in starts.zip(&mut ends) {
            take(&word[start..end]);
            paired = true;
        }

        if !paired {
            take(word);
        }
    }
}

fn is_unparted(c: char) -> bool {
    matches!(c, '\u{0e00}'..='\u{0eff}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

/// Whether a word distinguishes sources.
fn is_telling(word: &str) -> bool {
    static LIST: LazyLock<HashSet<&str>> =
        LazyLock::new(|| COMMON.into_iter().flat_map(stop_words::group).collect());

    word.len() > 1 && word.chars().nth(MAX_CHARS).is_none() && !LIST.contains(word)
}

/// The distinct characteristic words of a text, in order.
#[must_use]
pub fn telling(text: &str) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    each(text, |word| {
        if is_telling(word) && seen.insert(word.to_owned()) {
            found.push(word.to_owned());
        }
    });

    found
}

/// The key of a file's name, which is the same in any case.
#[must_use]
pub fn filename_key(filename: &str) -> String {
    name_key(filename).chars().take(MAX_KEY).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_and_folds_words() {
        for (text, wanted) in [
            (
                "The Memory_Storage.md, and its design",
                vec!["memory", "storage", "md", "design"],
            ),
            ("ÉCOLE école Ｆｉｎａｎｃｅ", vec!["école", "finance"]),
            ("退款政策", vec!["退款", "款政", "政策"]),
            ("雨", vec!["雨"]),
            ("a ! ?", vec![]),
        ] {
            assert_eq!(telling(text), wanted, "{text}");
        }
    }

    #[test]
    fn the_key_of_a_name_ignores_case() {
        assert_eq!(filename_key("Plan B.MD"), "plan b.md");
        assert_eq!(filename_key(&"x".repeat(1000)).len(), MAX_KEY);
    }
}
