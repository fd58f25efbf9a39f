//! The most characteristic words and word pairs of a chunk, best first. Guarantees readable phrases
//! from the chunk itself, in any script, and bounded work: only the beginning of a long chunk is
//! read.

use std::collections::HashMap;

use super::clean;
use super::table::{self, Vector};
use super::tokens;
use super::words::{self, Kind};

/// Number of bytes of a chunk that are searched for phrases, because the subject appears early.
const SEARCHED: usize = 4_000;
/// Number of candidates for the expensive comparison with the whole chunk.
const COMPARED: usize = 48;

struct Word {
    surface: String,
    key: String,
    content: bool,
    /// Whether it may form a pair with its neighbour; overlapping Chinese pairs may not.
    pairs: bool,
    vector: Box<Vector>,
}

struct Candidate {
    text: String,
    count: f32,
    vector: Box<Vector>,
    first: usize,
}

/// Up to `limit` phrases, the most characteristic first. Phrases similar to `about`, the vector of
/// the chunk, are preferred; if it is zero, only frequency counts.
pub fn key_phrases(text: &str, about: &Vector, limit: usize) -> Vec<String> {
    let mut candidates = collect(opening(text));
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

fn opening(text: &str) -> &str {
    let mut end = text.len().min(SEARCHED);
    while !text.is_char_boundary(end) {
        end -= 1;
    }

    &text[..end]
}

fn score(candidate: &Candidate, about: &Vector) -> f32 {
    let near = table::dot(&candidate.vector, about).max(0.0);
    // A phrase without a vector (in an unknown script) is ranked by its frequency.
    (0.05 + near / 100.0) * candidate.count.sqrt()
}

fn shares_word(a: &str, b: &str) -> bool {
    a.split(' ')
        .any(|x| b.split(' ').any(|y| x.eq_ignore_ascii_case(y)))
}

fn collect(text: &str) -> Vec<Candidate> {
    let mut found: HashMap<String, Candidate> = HashMap::new();
    let mut order = 0;
    for line in clean::telling_lines(text) {
        let words = words_of(line);
        for (at, word) in words.iter().enumerate() {
            if !word.content {
                continue;
            }

            order += 1;
            note(&mut found, &[word], order, 1.0);
            if let Some(next) = words
                .get(at + 1)
                .filter(|n| n.pairs && word.pairs && n.key != word.key)
            {
                note(&mut found, &[word, next], order, 1.3);
            }
        }
    }

    let mut all: Vec<Candidate> = found.into_values().collect();
    all.sort_by(|a, b| a.first.cmp(&b.first).then_with(|| a.text.cmp(&b.text)));
    all
}

fn note(found: &mut HashMap<String, Candidate>, words: &[&Word], order: usize, weight: f32) {
    let key = words
        .iter()
        .map(|w| w.key.as_str())
        .collect::<Vec<_>>()
        .join(" ");

    let entry = found.entry(key).or_insert_with(|| {
        let mut vector = table::ZERO;
        for word in words {
            table::add(&mut vector, &word.vector, 1.0);
        }

        let text = words
            .iter()
            .map(|w| w.surface.as_str())
            .collect::<Vec<_>>()
            .join(" ");

        Candidate {
            text,
            count: 0.0,
            vector: Box::new(vector),
            first: order,
        }
    });

    entry.count += weight;
}

fn words_of(line: &str) -> Vec<Word> {
    let mut out = Vec::new();
    let mut ids = Vec::new();
    let mut han: Option<char> = None;
    tokens::for_each_word(line, |bytes, form| {
        let Some(form) = form else { return };
        let surface = &line[bytes];
        let single = surface.chars().next().filter(|c| tokens::is_cjk(*c));
        if let (Some(before), Some(c)) = (han, single) {
            // Two Chinese characters make a word far more often than one.
            out.push(foreign(&format!("{before}{c}")));
        }

        han = single;
        if single.is_some() {
            return;
        }

        ids.clear();
        tokens::pieces(Some(form), &mut ids);
        out.push(word(surface, form, &ids));
    });

    out
}

fn foreign(pair: &str) -> Word {
    Word {
        surface: pair.to_string(),
        key: pair.to_string(),
        content: true,
        pairs: false,
        vector: Box::new(table::ZERO),
    }
}

fn word(surface: &str, form: &str, ids: &[u16]) -> Word {
    let mut vector = table::ZERO;
    for id in ids.iter().filter(|id| **id != tokens::UNKNOWN) {
        table::add_row(&mut vector, *id, 1.0);
    }

    let letters = form.chars().filter(|c| c.is_alphabetic()).count();
    let plain = ids.len() != 1 || words::kind(ids[0]) == Kind::Content || ids[0] == tokens::UNKNOWN;
    let content = plain && letters > 2 && letters <= 24 && !words::is_stop(form);
    Word {
        surface: surface.to_string(),
        key: words::singular(form),
        content,
        pairs: content,
        vector: Box::new(vector),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded_model::profile;

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
            let phrases = key_phrases(text, &about, 3);
            assert_eq!(
                phrases.first().map(String::as_str),
                Some(wanted),
                "{phrases:?}"
            );
        }
    }

    #[test]
    fn an_empty_text_has_no_phrases() {
        for text in ["", "   ", "12 34", "🙂🙂"] {
            assert!(key_phrases(text, &table::ZERO, 3).len() <= 1, "{text}");
        }
    }
}
