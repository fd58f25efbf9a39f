//! Proposes terms that a vocabulary lacks: nouns that recur in several messages. Guarantees words as
//! their writers use them, no stop words, no names and no parts of names, none from fewer than
//! `MIN_MESSAGES` messages, and equal proposals for equal messages in any order.

use std::collections::{BTreeMap, BTreeSet};

use super::name_words;
use super::rank;
use super::table;
use super::tokens;
use super::words::{self, Kind};

/// Fewest messages that a term is proposed for.
const MIN_MESSAGES: usize = 3;
/// Characters of a message that are read: its subject appears early.
const READ: usize = 2_000;
/// Similarity from which another word belongs to the same term, as "hive" to "bee".
const RELATED: f32 = 0.5;
const LETTERS: std::ops::RangeInclusive<usize> = 3..=20;
/// Words before a noun.
const BEFORE_NOUNS: [&str; 24] = [
    "the", "a", "an", "this", "that", "these", "those", "his", "her", "its", "their", "my", "our",
    "your", "of", "in", "for", "with", "no", "some", "every", "each", "two", "three",
];

/// How a word is used in all messages.
#[derive(Default)]
struct Use {
    messages: BTreeSet<usize>,
    all: usize,
    as_noun: usize,
    /// As a name within a sentence, and in lower case.
    as_name: usize,
    lower: usize,
}

impl Use {
    fn is_noun(&self) -> bool {
        self.messages.len() >= MIN_MESSAGES
            && self.as_noun >= 2
            && self.as_noun * 3 >= self.all
            && self.as_name * 2 < self.lower
    }
}

/// A term for each message that has one in common with others; `known` are the terms of the
/// vocabulary, which are not proposed again.
pub fn propose(messages: &[&str], known: &[String]) -> Vec<Option<String>> {
    let known: BTreeSet<String> = known.iter().flat_map(|name| rank::stems(name)).collect();
    let mut uses: BTreeMap<String, Use> = BTreeMap::new();
    for (number, message) in messages.iter().enumerate() {
        count(message, number, &mut uses);
    }

    uses.retain(|word, one| one.is_noun() && !known.contains(&rank::stem(word)));
    let mut proposed: Vec<Option<String>> = vec![None; messages.len()];
    let mut open: BTreeSet<usize> = (0..messages.len()).collect();
    loop {
        // Of equally frequent words the first in the alphabet, whatever the order of the messages.
        let count = |one: &Use| one.messages.intersection(&open).count();
        let best = uses
            .iter()
            .map(|(word, one)| (count(one), word))
            .reduce(|best, next| if next.0 > best.0 { next } else { best });
        let Some((_, term)) = best.filter(|(count, _)| *count >= MIN_MESSAGES) else {
            return proposed;
        };

        let term = term.clone();
        let (related, rest): (BTreeMap<String, Use>, BTreeMap<String, Use>) = uses
            .into_iter()
            .partition(|(word, _)| *word == term || is_related(word, &term));
        for number in related.values().flat_map(|one| &one.messages) {
            if open.remove(number) {
                proposed[*number] = Some(term.clone());
            }
        }

        uses = rest;
    }
}

fn is_related(word: &str, term: &str) -> bool {
    let rows = tokens::whole_word(word).zip(tokens::whole_word(term));
    rows.is_some_and(|(word, term)| table::nearness(word, term) >= RELATED)
}

/// Counts the words of a message.
fn count(message: &str, number: usize, uses: &mut BTreeMap<String, Use>) {
    let read = message
        .char_indices()
        .nth(READ)
        .map_or(message.len(), |(at, _)| at);
    let mut before = String::new();
    let mut opens = true;
    for piece in
        message[..read].split_inclusive(|c: char| !c.is_alphanumeric() && c != '\'' && c != '’')
    {
        let bare = piece.trim_matches(|c: char| !c.is_alphanumeric());
        if bare.is_empty() {
            opens |= piece.contains(['.', '!', '?', '\n', ':']);
            continue;
        }

        let lower = bare.to_lowercase();
        if may_be_a_term(bare, &lower) {
            let one = uses.entry(words::singular(&lower)).or_default();
            let capital = bare.starts_with(char::is_uppercase);
            one.messages.insert(number);
            one.all += 1;
            one.as_noun += usize::from(BEFORE_NOUNS.contains(&before.as_str()));
            one.as_name += usize::from(capital && !opens);
            one.lower += usize::from(!capital);
        }

        opens = piece.ends_with(['.', '!', '?', '\n', ':']);
        before = lower;
    }
}

fn may_be_a_term(bare: &str, lower: &str) -> bool {
    let says_little = |word: &str| {
        let row = tokens::whole_word(word);
        words::is_stop(word) || row.is_some_and(|row| words::kind(row) != Kind::Content)
    };
    LETTERS.contains(&bare.chars().count())
        && bare.chars().all(char::is_alphabetic)
        && !says_little(lower)
        && !says_little(&words::singular(lower))
        && !name_words::is_never_a_name(lower)
        && !lower.ends_with("ly")
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEES: [&str; 8] = [
        "I opened the hive this morning and the bees were calm.",
        "The queen of the second hive has stopped laying.",
        "How many frames does a hive need before winter?",
        "Margriet told me that my hive looks weak.",
        "Margriet will bring her smoker, Margriet has two.",
        "I asked Margriet about the varroa treatment.",
        "Do you think it will work?",
        "Yes, I think it will.",
    ];

    #[test]
    fn a_noun_of_several_messages_is_proposed_to_each_of_them() {
        let found = propose(&BEES, &[]);
        let hive = Some("hive".to_owned());
        assert_eq!(found[..4], [hive.clone(), hive.clone(), hive.clone(), hive]);
        assert_eq!(found[6..], [None, None]);
    }

    #[test]
    fn names_stop_words_and_single_messages_propose_nothing() {
        let found = propose(&BEES, &[]);
        let terms: BTreeSet<&String> = found.iter().flatten().collect();
        assert_eq!(terms.len(), 1, "{terms:?}");

        let repeated = "The sextant is old. The sextant is heavy. The sextant is mine.";
        assert_eq!(
            propose(&[repeated, "Good.", "Yes."], &[]),
            [None, None, None]
        );
        assert_eq!(propose(&[], &[]), []);
        let said = [
            "I would have been there.",
            "I would not.",
            "They would have been there.",
        ];
        assert_eq!(propose(&said, &[]), [None, None, None]);
    }

    #[test]
    fn a_term_of_the_vocabulary_is_not_proposed_again() {
        let found = propose(&BEES, &["hives".to_owned()]);
        assert!(!found.contains(&Some("hive".to_owned())), "{found:?}");
    }

    #[test]
    fn the_order_of_messages_does_not_matter() {
        let forward = propose(&BEES, &[]);
        let mut turned = BEES;
        turned.reverse();
        let mut backward = propose(&turned, &[]);
        backward.reverse();
        assert_eq!(forward, backward);
    }
}
