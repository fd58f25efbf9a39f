//! The most characteristic words and word pairs of a chunk, best first. Guarantees readable phrases
//! from the chunk itself, in any script, and bounded work: only the beginning of a long chunk is
//! read.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use rustc_hash::FxHashMap;

use super::clean;
use super::name_words;
use super::names;
use super::phrase_words::{Word, words_of};
use super::table::{self, Vector};
use super::words;

/// Number of bytes of a chunk that are searched for phrases, because the subject appears early.
const SEARCHED: usize = 4_000;
/// Number of candidates for the expensive comparison with the whole chunk.
const COMPARED: usize = 48;

/// How well a phrase must read as a name to be offered, unless a short text has nothing better.
const POOR: f32 = 0.42;

struct Candidate {
    text: String,
    count: f32,
    /// How often it is used like a noun, like a verb, and like a name.
    as_noun: f32,
    as_verb: f32,
    as_name: f32,
    times: f32,
    /// The rows of its words. They are summed only if it is compared, as most are not.
    rows: Vec<u16>,
    first: usize,
}

/// Up to `limit` phrases, the most characteristic first. Phrases similar to `about`, the vector of
/// the chunk, are preferred; if it is zero, only frequency counts.
/// With `strict`, a verb, a chance pair of words or a person is not offered at all; without, only
/// if the text has nothing better.
pub fn key_phrases(text: &str, about: &Vector, limit: usize, strict: bool) -> Vec<String> {
    let mut candidates = collect(opening(text));
    if strict {
        candidates.retain(Candidate::is_acceptable);
        // Only the articles of English are known, and a list of key points may have none.
        if names::language(text) == Some("English") && candidates.iter().any(Candidate::is_noun) {
            candidates.retain(Candidate::is_noun);
        }
    } else {
        // The endings of verbs are those of English.
        let english = names::language(text).is_none_or(|language| language == "English");
        let good = |one: &Candidate| one.is_acceptable() && !(english && one.is_gerund());
        if candidates.iter().any(good) {
            candidates.retain(good);
        }
    }

    candidates.sort_by(|a, b| b.count.total_cmp(&a.count).then(a.first.cmp(&b.first)));
    candidates.truncate(COMPARED);
    let mut scored: Vec<(f32, Candidate)> = candidates
        .into_iter()
        .map(|c| (score(&c, about), c))
        .collect();

    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.first.cmp(&b.1.first)));
    let mut chosen: Vec<String> = Vec::new();
    for (_, candidate) in scored {
        let fresh = |c: &String| !shares_word(c, &candidate.text);
        if chosen.len() < limit && chosen.iter().all(fresh) {
            chosen.push(candidate.text);
        }
    }

    chosen
}

/// The phrases that occur in most of several texts, the most frequent first; only nouns that are
/// no names.
pub fn shared_nouns(texts: &[&str], limit: usize) -> Vec<String> {
    let mut found: HashMap<String, (usize, Candidate)> = HashMap::new();
    for text in texts {
        for candidate in collect(opening(text)) {
            let key = candidate
                .text
                .split(' ')
                .map(|word| words::singular(&word.to_lowercase()))
                .collect::<Vec<_>>()
                .join(" ");
            match found.entry(key) {
                Entry::Occupied(mut known) => {
                    let (count, known) = known.get_mut();
                    *count += 1;
                    known.add(&candidate);
                }
                Entry::Vacant(new) => {
                    new.insert((1, candidate));
                }
            }
        }
    }

    let mut shared: Vec<(usize, Candidate)> = found
        .into_values()
        .filter(|(count, candidate)| *count > 1 && candidate.is_noun())
        .collect();
    shared.sort_by(|(in_a, a), (in_b, b)| {
        let often = in_b.cmp(in_a).then(b.count.total_cmp(&a.count));
        often.then_with(|| a.text.cmp(&b.text))
    });
    shared.truncate(limit);
    shared
        .into_iter()
        .map(|(_, candidate)| candidate.text)
        .collect()
}

fn opening(text: &str) -> &str {
    let mut end = text.len().min(SEARCHED);
    while !text.is_char_boundary(end) {
        end -= 1;
    }

    &text[..end]
}

fn score(candidate: &Candidate, about: &Vector) -> f32 {
    let mut vector = table::ZERO;
    for row in &candidate.rows {
        table::add_row(&mut vector, *row, 1.0);
    }

    let near = table::dot(&vector, about).max(0.0);
    // A phrase without a vector (in an unknown script) is ranked by its frequency.
    // What is mostly used as a noun is one.
    let noun = 0.5 + 0.5 * candidate.as_noun / candidate.times.max(1.0);
    (0.05 + near / 100.0) * candidate.count.sqrt() * candidate.as_a_name() * noun
}

/// Words that stand before a noun; the last ones also before a verb with -ing.
const BEFORE_NOUNS: [&str; 19] = [
    "the", "a", "an", "this", "these", "those", "his", "her", "its", "their", "my", "our", "your",
    "no", "new", "of", "in", "for", "with",
];
const BEFORE_GERUNDS: usize = 4;
/// Words between two adjectives, and after an adjective: what stands before them may be one.
const AFTER_ADJECTIVES: [&str; 8] = [",", "-", "and", "or", "but", "than", "as", "enough"];
/// Words of a line from which on it may be one of several lines of a paragraph.
const WRAPPED: usize = 8;
/// Adjectives and adverbs end like this.
const NO_NOUNS: [&str; 5] = ["ly", "ed", "ful", "ous", "less"];
/// Words that stand before a verb.
const BEFORE_VERBS: [&str; 16] = [
    "to", "i", "you", "he", "she", "we", "they", "who", "will", "would", "can", "could", "should",
    "must", "not", "it",
];

impl Candidate {
    fn new(words: &[&Word<'_>], first: usize) -> Self {
        let mut text = String::new();
        for word in words {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(&word.surface);
        }

        Self {
            text,
            count: 0.0,
            as_noun: 0.0,
            as_verb: 0.0,
            as_name: 0.0,
            times: 0.0,
            rows: words.iter().flat_map(|word| &word.rows).copied().collect(),
            first,
        }
    }

    /// Adds one more place where it stands in the text.
    fn add_use(&mut self, words: &[&Word<'_>], place: &Place, weight: f32) {
        let once = |is: bool| f32::from(u8::from(is));
        let is_capital = |word: &&Word<'_>| word.surface.starts_with(char::is_uppercase);
        let capital = !place.starts_line && words.iter().all(is_capital);
        self.count += weight;
        self.times += 1.0;
        self.as_noun += once(place.as_noun);
        self.as_verb += once(place.as_verb);
        self.as_name += once(capital);
    }

    /// Adds how another text uses the same phrase.
    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.times += other.times;
        self.as_noun += other.as_noun;
        self.as_verb += other.as_verb;
        self.as_name += other.as_name;
    }

    /// Whether it reads as a name, and is used as a noun.
    fn is_noun(&self) -> bool {
        if !self.text.is_ascii() {
            return true;
        }

        let chance = self.text.contains(' ') && self.times < 2.0;
        self.as_noun >= 1.0 && !chance && self.is_acceptable()
    }

    fn is_gerund(&self) -> bool {
        let last = self.text.rsplit(' ').next().unwrap_or_default();
        let noun = self.as_noun >= 1.0 || name_words::is_noun_with_ing(last);
        last.ends_with("ing") && !noun
    }

    fn is_acceptable(&self) -> bool {
        self.as_a_name() > POOR
    }

    /// How well it reads as the name of a category: a noun rather than a verb or a person, and a
    /// pair of words that is used more than once.
    fn as_a_name(&self) -> f32 {
        if !self.text.is_ascii() {
            return 1.0;
        }

        let last = self.text.rsplit(' ').next().unwrap_or_default();
        let no_noun = NO_NOUNS.iter().any(|end| last.ends_with(end));
        let verb = self.as_verb > self.as_noun || no_noun;
        let chance = self.text.contains(' ') && self.times < 2.0;
        let person = self.as_name * 2.0 > self.times;
        let bare = !self.text.contains(' ') && self.as_noun < 1.0;

        [(verb, 0.2), (chance, 0.45), (person, 0.4), (bare, 0.7)]
            .iter()
            .filter(|(fault, _)| *fault)
            .map(|(_, share)| share)
            .product()
    }
}

fn shares_word(a: &str, b: &str) -> bool {
    a.split(' ')
        .any(|x| b.split(' ').any(|y| x.eq_ignore_ascii_case(y)))
}

fn collect(text: &str) -> Vec<Candidate> {
    let mut found: FxHashMap<String, Candidate> = FxHashMap::default();
    let mut key = String::new();
    let mut order = 0;
    for (number, line) in clean::telling_lines(text).enumerate() {
        let words = words_of(line);
        // The first line is often the title.
        let told = if number == 0 { 1.5 } else { 1.0 };
        for (at, word) in words.iter().enumerate() {
            if !word.content {
                continue;
            }

            order += 1;
            let place = Place::of(&words, at..at + 1);
            key.clone_from(&word.key);
            note(&mut found, &key, &[word], &place, order, told);
            if let Some(next) = words
                .get(at + 1)
                .filter(|n| n.pairs && word.pairs && n.key != word.key)
            {
                let place = Place::of(&words, at..at + 2);
                key.push(' ');
                key.push_str(&next.key);
                note(&mut found, &key, &[word, next], &place, order, 1.3 * told);
            }
        }
    }

    let mut all: Vec<Candidate> = found.into_values().collect();
    all.sort_by(|a, b| a.first.cmp(&b.first).then_with(|| a.text.cmp(&b.text)));
    all
}

/// Where a phrase stands in its line.
struct Place {
    starts_line: bool,
    as_noun: bool,
    as_verb: bool,
}

impl Place {
    /// A noun follows an article, perhaps with an adjective between them, and no further word of
    /// the same phrase follows it.
    fn of(words: &[Word<'_>], range: Range<usize>) -> Self {
        let key = |at: Option<usize>| {
            at.and_then(|at| words.get(at))
                .map(|word| word.key.as_str())
        };
        let before = range.start.checked_sub(1);
        let gerund = words[range.end - 1].key.ends_with("ing");
        let articles =
            &BEFORE_NOUNS[..BEFORE_NOUNS.len() - if gerund { BEFORE_GERUNDS } else { 0 }];
        let introduced = |at: Option<usize>| key(at).is_some_and(|key| articles.contains(&key));
        let adjective = before.filter(|at| range.len() == 1 && words[*at].may_be_an_adjective());
        let ends = match words.get(range.end) {
            Some(after) => after.closes && !AFTER_ADJECTIVES.contains(&after.key.as_str()),
            // A longer line may go on in the next one.
            None => words.len() < WRAPPED,
        };

        Self {
            starts_line: before.is_none(),
            as_noun: ends
                && (introduced(before)
                    || introduced(adjective.and_then(|adjective| adjective.checked_sub(1)))),
            as_verb: key(before).is_some_and(|key| BEFORE_VERBS.contains(&key)),
        }
    }
}

/// Adds a phrase, whose words joined with spaces are `key`, at one place of the text.
fn note(
    found: &mut FxHashMap<String, Candidate>,
    key: &str,
    words: &[&Word<'_>],
    place: &Place,
    order: usize,
    weight: f32,
) {
    if let Some(known) = found.get_mut(key) {
        known.add_use(words, place, weight);
        return;
    }

    let mut new = Candidate::new(words, order);
    new.add_use(words, place, weight);
    found.insert(key.to_owned(), new);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile;

    #[test]
    fn phrases_are_taken_from_the_chunk() {
        for (text, wanted) in [
            (
                "The white whale. Ahab hunts the white whale across the sea.",
                "white whale",
            ),
            ("机器学习是人工智能。机器学习很有用。", "机器"),
            ("Кошка спит. Кошка ест.", "Кошка"),
        ] {
            let about = if text.is_ascii() {
                profile::vector_of(text)
            } else {
                table::ZERO
            };
            let phrases = key_phrases(text, &about, 3, false);
            assert_eq!(
                phrases.first().map(String::as_str),
                Some(wanted),
                "{phrases:?}"
            );
        }
    }

    #[test]
    fn a_longer_text_is_named_by_its_nouns() {
        let text = "He seemed joyful somehow, and had gone below before the others, slower than he used to be. \
            The boat was nearing the shore, and he himself held the rope. Thou art late, said the captain; \
            there she blows! A vast and golden light lay on the water. The rope was wet, the boat was old. \
            They flew along, laughing and frowning, until the boat touched the sand with a wonderful noise.";
        let about = profile::vector_of(text);
        let phrases = key_phrases(text, &about, 12, true);
        assert!(phrases.contains(&"boat".to_owned()), "{phrases:?}");
        for wrong in [
            "joyful",
            "gone",
            "slower",
            "nearing",
            "himself",
            "thou",
            "blows",
            "vast",
            "golden",
            "flew",
            "frowning",
            "wonderful",
            "seemed",
        ] {
            let has = |phrase: &String| phrase.to_lowercase().contains(wrong);
            assert!(!phrases.iter().any(has), "{wrong}: {phrases:?}");
        }
    }

    #[test]
    fn a_short_text_is_named_by_a_verb_only_if_it_has_nothing_else() {
        for (text, wrong) in [
            ("I am interested in opening an account.", "interested"),
            ("Why does my card seem to be pending?", "pending"),
            ("Why does my card seem to be pending?", "seem"),
            (
                "How do I go about completing the identity check?",
                "completing",
            ),
        ] {
            let phrases = key_phrases(text, &profile::vector_of(text), 3, false);
            assert!(!phrases.is_empty(), "{text}");
            assert!(!phrases.contains(&wrong.to_owned()), "{phrases:?}");
        }

        let phrases = key_phrases("Waiting and hoping", &table::ZERO, 3, false);
        assert!(!phrases.is_empty());
    }

    #[test]
    fn an_empty_text_has_no_phrases() {
        for text in ["", "   ", "12 34", "🙂🙂"] {
            assert!(
                key_phrases(text, &table::ZERO, 3, false).len() <= 1,
                "{text}"
            );
        }
    }
}
