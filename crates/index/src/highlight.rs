//! Where the words of a query stand in a text, in characters.

use std::collections::HashSet;

use rustc_hash::FxHashSet;

use super::terms::{for_each, of_query};

/// Maximum ranges of one text.
const MAX_RANGES: usize = 100;

/// The terms of a query, for texts to be compared with.
pub struct Highlighter {
    terms: FxHashSet<String>,
    /// How the terms begin. A stem begins as its word does, so that nearly all words of a text need
    /// no stemming, which would take longer than the search.
    beginnings: FxHashSet<Beginning>,
    /// A word may be stemmed to its first letter; its second one says nothing then.
    has_single_letter: bool,
}

/// The first two bytes of a word. A `y` may become an `i` in the stem, so it does not count.
type Beginning = (u8, Option<u8>);

fn beginning(word: &[u8]) -> Option<Beginning> {
    let second = word.get(1).map(u8::to_ascii_lowercase);
    let second = second.filter(|byte| !matches!(byte, b'y' | b'i'));
    Some((word.first()?.to_ascii_lowercase(), second))
}

impl Highlighter {
    #[must_use]
    pub fn new(query: &str) -> Self {
        let terms: FxHashSet<String> = of_query(query).into_iter().map(|one| one.term).collect();
        let begin = |term: &String| beginning(term.as_bytes());
        Self {
            beginnings: terms.iter().filter_map(begin).collect(),
            has_single_letter: terms.iter().any(|term| term.len() == 1),
            terms,
        }
    }

    /// The words of a text that the query contains, by stem; start and exclusive end of each.
    #[must_use]
    pub fn ranges(&self, text: &str) -> Vec<(usize, usize)> {
        let mut found: Vec<(usize, usize)> = Vec::new();
        // Where the current word begins, in characters and in bytes.
        let mut word: Option<(usize, usize)> = None;
        let ends = text.char_indices().chain([(text.len(), ' ')]);
        for (at, (byte, c)) in ends.enumerate() {
            // Most characters are ASCII, of which none is a mark.
            let is_letter = c.is_ascii_alphanumeric()
                || (!c.is_ascii() && (c.is_alphanumeric() || (word.is_some() && is_mark(c))));
            if is_letter {
                word.get_or_insert((at, byte));
                continue;
            }

            if let Some((start, from)) = word.take() {
                self.add(&text[from..byte], start, &mut found);
            }
            if found.len() >= MAX_RANGES {
                break;
            }
        }

        found.truncate(MAX_RANGES);
        found
    }

    /// How many different terms of the query a text contains.
    #[must_use]
    pub fn shared(&self, text: &str) -> usize {
        let mut shared = HashSet::new();
        for_each(text, |term, _| {
            if let Some(term) = self.terms.get(term) {
                shared.insert(term.as_str());
            }
        });

        shared.len()
    }

    fn add(&self, word: &str, start: usize, found: &mut Vec<(usize, usize)>) {
        if word.is_ascii() && !self.may_match(word) {
            return;
        }

        if word.is_ascii() || !is_parted(word) {
            if self.matches(word) {
                found.push((start, start + word.chars().count()));
            }
            return;
        }

        // A script without spaces: each pair of characters by itself, joined where they touch.
        let letters: Vec<char> = word.chars().collect();
        for (at, pair) in letters.windows(2).enumerate() {
            if !self.matches(&pair.iter().collect::<String>()) {
                continue;
            }

            let (from, to) = (start + at, start + at + 2);
            match found.last_mut() {
                Some(last) if last.1 >= from => last.1 = to,
                _ => found.push((from, to)),
            }
        }
    }

    fn may_match(&self, word: &str) -> bool {
        let Some((first, second)) = beginning(word.as_bytes()) else {
            return false;
        };
        let has = |one: Beginning| self.beginnings.contains(&one);
        has((first, second)) || (self.has_single_letter && has((first, None)))
    }

    fn matches(&self, word: &str) -> bool {
        let mut matches = false;
        for_each(word, |term, _| matches |= self.terms.contains(term));
        matches
    }
}

/// Whether a run of letters yields more than one term.
fn is_parted(word: &str) -> bool {
    let mut count = 0;
    for_each(word, |_, _| count += 1);
    count > 1
}

fn is_mark(c: char) -> bool {
    unicode_normalization::char::is_combining_mark(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(query: &str, text: &str) -> Vec<String> {
        let letters: Vec<char> = text.chars().collect();
        Highlighter::new(query)
            .ranges(text)
            .iter()
            .map(|(from, to)| letters[*from..*to].iter().collect())
            .collect()
    }

    #[test]
    fn finds_words_by_their_stem_and_without_accents() {
        assert_eq!(
            marked("Which lamps are in the café?", "Der Lamp, two lamps; Cafe."),
            ["Lamp", "lamps", "Cafe"]
        );
        assert_eq!(marked("the lamp", "The end."), [""; 0], "common words");
        assert_eq!(marked("größe", "Die Größe 😀 der GRÖSSE"), ["Größe"]);
    }

    #[test]
    fn a_word_is_marked_whatever_its_ending_does_to_its_stem() {
        for (query, text) in [
            ("eyes", "Eye"),
            ("skies", "sky"),
            ("ayes", "aye"),
            ("flying", "flies"),
            ("dying", "dies dyed"),
            ("toy", "Toys"),
            ("A4", "a4"),
            ("R language", "R ran the languages"),
            ("generalization", "generals"),
            ("oscillators", "oscillate"),
        ] {
            let all: HashSet<String> = of_query(query).into_iter().map(|one| one.term).collect();
            let stems_match = |word: &str| {
                let mut same = false;
                for_each(word, |term, _| same |= all.contains(term));
                same
            };
            let expected: Vec<String> = text
                .split(' ')
                .filter(|word| stems_match(word))
                .map(ToOwned::to_owned)
                .collect();
            assert_eq!(marked(query, text), expected, "{query}");
        }
    }

    #[test]
    fn joins_pairs_of_characters() {
        assert_eq!(marked("東京都", "私は東京都に住む"), ["東京都"]);
    }

    #[test]
    fn counts_shared_terms() {
        assert_eq!(Highlighter::new("white whale").shared("whales, a whale"), 1);
    }
}
