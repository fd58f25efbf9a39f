//! Keeps a few sentences of each entry: those that match the query, or the first ones.

use std::collections::{HashMap, HashSet};

use memoir_text::text::sentences;
use memoir_text::words;

use super::super::candidate::Entry;
use super::super::explain::{Effect, Reason, Step};
use super::super::settings::Clipping;

pub const NAME: &str = "clipping";

/// What follows a text that was cut, and stands where sentences are left out.
pub const ELLIPSIS: &str = "...";

/// Words of a query that are compared with each sentence.
const MAX_WORDS: usize = 64;
/// Words that begin with as many equal letters are forms of one word, if their ends are not longer
/// than this.
const STEM_CHARS: usize = 4;
const MAX_ENDING: usize = 3;

pub fn apply(entries: &mut [Entry], (clipping, most): (Clipping, usize), query: &str) -> Step {
    let before = entries.len();
    let mut effects = Vec::new();
    let wanted = match clipping {
        Clipping::Best => Wanted::of(query, entries),
        Clipping::First => Wanted::default(),
    };

    for entry in entries.iter_mut() {
        let (clipped, sentences) = clip(entry.content(), most, &wanted);
        entry.candidate.content = clipped;
        if sentences > most {
            let reason = Reason::Clipped {
                sentences,
                kept: most,
            };
            effects.push(Effect::new(entry.id(), reason));
        }
    }

    Step {
        name: NAME,
        before,
        after: before,
        effects,
    }
}

/// The words of the query, each with its weight: words that few entries have count more.
#[derive(Debug, Default)]
struct Wanted(HashMap<String, f64>);

impl Wanted {
    fn of(query: &str, entries: &[Entry]) -> Self {
        let mut wanted: HashMap<String, f64> = HashMap::new();
        words::each(query, |word| {
            if wanted.len() < MAX_WORDS {
                wanted.insert(word.to_owned(), 0.0);
            }
        });

        let texts: Vec<HashSet<String>> = entries
            .iter()
            .map(|entry| distinct(entry.content()))
            .collect();
        #[expect(clippy::cast_precision_loss, reason = "a few entries")]
        for (word, weight) in &mut wanted {
            let having = texts.iter().filter(|text| has(text, word)).count() as f64;
            *weight = (1.0 + texts.len() as f64 / having.max(1.0)).ln();
        }

        Self(wanted)
    }

    fn score(&self, sentence: &str) -> f64 {
        if self.0.is_empty() {
            return 0.0;
        }

        let own = distinct(sentence);
        let matching = self.0.iter().filter(|(word, _)| has(&own, word));
        // In the order of the weights, so that the sum does not depend on the order of a map.
        let mut weights: Vec<f64> = matching.map(|(_, weight)| *weight).collect();
        weights.sort_by(f64::total_cmp);
        weights.iter().sum()
    }
}

fn distinct(text: &str) -> HashSet<String> {
    let mut found = HashSet::new();
    words::each(text, |word| {
        if !found.contains(word) {
            found.insert(word.to_owned());
        }
    });
    found
}

/// Whether a word or another form of it is among these.
fn has(words: &HashSet<String>, word: &str) -> bool {
    words.contains(word) || words.iter().any(|other| are_forms(word, other))
}

fn are_forms(one: &str, other: &str) -> bool {
    let common = one.chars().zip(other.chars());
    let common = common.take_while(|(a, b)| a == b).count();
    let longest = one.chars().count().max(other.chars().count());
    common >= STEM_CHARS && longest - common <= MAX_ENDING
}

/// The sentences that match best, in their order, and how many there were; of equal ones the first.
///
/// A rest without a full stop counts as a sentence, and a point inside `$3.50` ends none.
fn clip(text: &str, most: usize, wanted: &Wanted) -> (String, usize) {
    let sentences: Vec<&str> = sentences(text)
        .map(str::trim)
        .filter(|sentence| !sentence.is_empty())
        .collect();
    if sentences.len() <= most {
        return (sentences.join(" "), sentences.len());
    }

    let mut order: Vec<(usize, f64)> = sentences
        .iter()
        .map(|sentence| wanted.score(sentence))
        .enumerate()
        .collect();
    order.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let mut kept: Vec<usize> = order.iter().take(most).map(|(place, _)| *place).collect();
    kept.sort_unstable();

    let mut clipped = String::new();
    let mut next = 0;
    for place in kept {
        if place > next {
            clipped.push_str(ELLIPSIS);
        }

        if !clipped.is_empty() {
            clipped.push(' ');
        }

        clipped.push_str(sentences[place]);
        next = place + 1;
    }

    if next < sentences.len() {
        clipped.push_str(ELLIPSIS);
    }

    (clipped, sentences.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_sentences_stay() {
        for (text, most, clipped) in [
            ("One. Two! Three?", 2, "One. Two!..."),
            ("One. Two!", 2, "One. Two!"),
            ("No full stop", 1, "No full stop"),
            ("One. and a rest", 1, "One...."),
            (
                "It costs $3.50 today. Or not.",
                1,
                "It costs $3.50 today....",
            ),
            (
                "Mrs. Hill paid Dr. Lamb. He left.",
                1,
                "Mrs. Hill paid Dr. Lamb....",
            ),
            ("你好。世界！再见", 2, "你好。 世界！..."),
            ("  One.\n\nTwo.  ", 2, "One. Two."),
            ("", 2, ""),
        ] {
            assert_eq!(clip(text, most, &Wanted::default()).0, clipped, "{text}");
        }
    }
    #[test]
    fn the_sentences_that_match_the_query_stay() {
        let text =
            "Hello there. The weather was fine. My flight to Oslo leaves at nine. We ate. See you.";
        for (query, most, clipped) in [
            (
                "When does my flight leave?",
                1,
                "... My flight to Oslo leaves at nine....",
            ),
            (
                "When do flights to Oslo go?",
                2,
                "Hello there.... My flight to Oslo leaves at nine....",
            ),
            ("weather", 1, "... The weather was fine...."),
            ("See you?", 1, "... See you."),
            (
                "nothing in common",
                2,
                "Hello there. The weather was fine....",
            ),
            ("", 1, "Hello there...."),
        ] {
            let wanted = Wanted::of(query, &[]);
            assert_eq!(clip(text, most, &wanted).0, clipped, "{query}");
        }
    }

    #[test]
    fn forms_of_a_word_match() {
        assert!(are_forms("flight", "flights") && are_forms("leave", "leaves"));
        assert!(are_forms("running", "runners") && !are_forms("car", "cart"));
        assert!(!are_forms("international", "internet"));
    }
}
