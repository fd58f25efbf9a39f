//! Words that indicate entries of the inventory, whatever the words around them. Guarantees linear time,
//! and that a word that indicates several entries says less about each.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::clean;
use super::rank;
use super::words;

/// Content words of a text from which on each of them says less.
const USUAL_WORDS: f32 = 12.0;
/// The most that cues add to a similarity, and how many cues add about two thirds of it.
const MOST: f32 = 0.5;
const MANY: f32 = 2.5;
/// Bytes of a text that are read: its subject appears early.
const READ: usize = 4_000;

/// The entries that each word indicates.
#[derive(Debug, Clone, Default)]
pub struct Cues {
    of: FxHashMap<String, Vec<(usize, f32)>>,
}

impl Cues {
    /// Adds the words of an entry, and how much each says about it; the most that is said counts.
    pub fn add(&mut self, entry: usize, text: &str, weight: f32) {
        for word in forms(text) {
            let entries = self.of.entry(word).or_default();
            match entries.iter_mut().find(|(known, _)| *known == entry) {
                Some((_, known)) => *known = known.max(weight),
                None => entries.push((entry, weight)),
            }
        }
    }

    pub fn has(&self, words: &BTreeSet<String>, entry: usize) -> bool {
        let of = |word: &String| self.of.get(word).into_iter().flatten();
        words.iter().flat_map(of).any(|(known, _)| *known == entry)
    }

    /// The entries that a word indicates, and how much it says about each.
    pub fn entries<'c>(&'c self, word: &str) -> impl Iterator<Item = (usize, f32)> + use<'c> {
        self.of.get(word).into_iter().flatten().copied()
    }

    /// How many of the words indicate each of `number` entries.
    pub fn count(&self, words: &BTreeSet<String>, number: usize) -> Vec<f32> {
        let mut found = vec![0.0; number];
        for entries in words.iter().filter_map(|word| self.of.get(word)) {
            let share = entries
                .iter()
                .fold(0.0, |sum: f32, _| sum + 1.0)
                .sqrt()
                .recip();
            for (entry, weight) in entries {
                found[*entry] += share * weight;
            }
        }

        found
    }

    /// What the words of a text, and those of its title, add to its similarity to each of `number`
    /// entries.
    pub fn evidence(
        &self,
        words: &BTreeSet<String>,
        title: &BTreeSet<String>,
        number: usize,
    ) -> Vec<f32> {
        let length = words.iter().fold(0.0, |sum: f32, _| sum + 1.0);
        let dilution = (length / USUAL_WORDS).max(1.0).sqrt();
        let of_title = self.count(title, number);
        let of_text = self.count(words, number);
        let added =
            |(text, title): (f32, f32)| MOST * (1.0 - (-(text / dilution + title) / MANY).exp());
        of_text.into_iter().zip(of_title).map(added).collect()
    }
}

/// The words of a text that have a meaning, each once, in the form that cues have.
pub fn words_of(text: &str) -> BTreeSet<String> {
    let mut end = text.len().min(READ);
    while !text.is_char_boundary(end) {
        end -= 1;
    }

    let lines = clean::telling_lines(&text[..end]);
    lines.flat_map(forms).collect()
}

fn forms(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphabetic())
        .filter(|word| (2..=24).contains(&word.len()))
        .map(str::to_lowercase)
        .filter(|word| !words::is_stop(word))
        // "Tomatoes" is more than one "tomato".
        .map(|word| rank::stem(&word).trim_end_matches('o').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_says_the_less_the_more_it_indicates_and_the_longer_the_text_is() {
        let mut cues = Cues::default();
        cues.add(0, "tyres brake", 1.0);
        cues.add(1, "puncture brake", 1.0);
        let evidence = |text: &str| cues.evidence(&words_of(text), &BTreeSet::new(), 2);

        let own = evidence("a new tyre");
        assert!(own[0] > 0.0 && own[1] <= 0.0, "{own:?}");
        assert!(evidence("the brakes")[0] < own[0]);
        let letters = ('a'..='z').flat_map(|a| ('a'..='z').map(move |b| format!("q{a}{b} ")));
        let long: String = std::iter::once("tyre ".to_owned()).chain(letters).collect();
        assert!(evidence(&long)[0] < own[0]);
        assert_eq!(evidence(""), [0.0, 0.0]);
    }
}
