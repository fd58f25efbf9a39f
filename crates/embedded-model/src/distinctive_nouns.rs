//! The nouns that distinguish some texts from each other. Guarantees words as they are written, no
//! names of people, and nothing for a language whose articles are unknown.

use std::collections::HashMap;

use super::words;

/// Words before a noun.
const BEFORE_NOUNS: [&str; 22] = [
    "the", "a", "an", "this", "that", "these", "those", "his", "her", "its", "their", "my", "our",
    "your", "of", "in", "for", "with", "no", "some", "every", "each",
];
/// How often a word must follow one of these in a text.
const MIN_AS_NOUN: usize = 2;
/// Number of words in a name.
const MAX_WORDS: usize = 2;

#[derive(Default)]
struct Count {
    all: usize,
    as_noun: usize,
    capital: usize,
}

/// For each text up to two of its nouns that the others rarely use, as "harbour and lamp".
pub fn distinctive_nouns(texts: &[&str]) -> Vec<String> {
    let counts: Vec<HashMap<String, Count>> = texts.iter().map(|text| count(text)).collect();
    let mut holding: HashMap<&str, f32> = HashMap::new();
    for words in &counts {
        for word in words.keys() {
            *holding.entry(word).or_default() += 1.0;
        }
    }

    let number = texts.iter().fold(0.0, |n: f32, _| n + 1.0);
    counts
        .iter()
        .map(|words| {
            let mut scored: Vec<(f32, &str)> = words
                .iter()
                .filter(|(_, count)| is_noun(count))
                .map(|(word, count)| {
                    let rare =
                        (1.0 + number / holding.get(word.as_str()).copied().unwrap_or(1.0)).ln();
                    (weight(count.as_noun) * rare, word.as_str())
                })
                .collect();
            scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
            let best: Vec<&str> = scored
                .iter()
                .take(MAX_WORDS)
                .map(|(_, word)| *word)
                .collect();
            best.join(" and ")
        })
        .collect()
}

/// Whether a word is used as a noun more often than not, and is no name.
fn is_noun(count: &Count) -> bool {
    count.as_noun >= MIN_AS_NOUN && count.as_noun * 2 >= count.all && count.capital * 2 < count.all
}

#[expect(clippy::cast_precision_loss, reason = "a small count")]
fn weight(count: usize) -> f32 {
    count as f32
}

fn count(text: &str) -> HashMap<String, Count> {
    let mut counts: HashMap<String, Count> = HashMap::new();
    let mut before = String::new();
    let mut starts = true;
    for word in text.split_inclusive(|c: char| !c.is_alphanumeric() && c != '-') {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        let lower = bare.to_lowercase();
        let letters = bare.chars().count();
        let plain = bare.chars().all(char::is_alphabetic);
        if plain && (4..=20).contains(&letters) && !words::is_stop(&lower) && !is_generic(&lower) {
            let entry = counts.entry(lower.clone()).or_default();
            entry.all += 1;
            entry.as_noun += usize::from(BEFORE_NOUNS.contains(&before.as_str()));
            let capital = bare.starts_with(char::is_uppercase);
            entry.capital += usize::from(capital && !starts);
        }

        if !bare.is_empty() {
            starts = word.ends_with(['.', '!', '?', '"', '\n', '“', '\'']);
            before = lower;
        }
    }

    counts
}

/// Words that name nothing in particular.
fn is_generic(word: &str) -> bool {
    super::tokens::whole_word(word).is_some_and(|row| words::kind(row) != words::Kind::Content)
        || word.ends_with("ly")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_texts_apart_by_their_nouns() {
        let texts = [
            "The harbour was calm. Old Ahab saw the harbour and a ship. The ship left the harbour.",
            "A wolf ran. The wolf hid in the forest. Ahab feared the forest and the wolf.",
        ];
        assert_eq!(
            distinctive_nouns(&texts),
            ["harbour and ship", "wolf and forest"]
        );
        assert_eq!(distinctive_nouns(&["Кошка спит."]), [""]);
    }
}
