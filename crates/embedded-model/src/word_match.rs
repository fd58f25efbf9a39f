//! How much of a query comes back in texts, also in other words: each word of the query counts by the
//! nearest word of a text, as "father" does by "dad". The mean of all words of a text, which is its
//! vector, hides one such word; this finds it. Rare matches count more.

use std::collections::HashSet;

use rustc_hash::FxHashMap;

use super::table::{self, Vector};
use super::tokens;
use super::words::{self, Kind};

/// Words less similar than this have nothing in common.
const UNLIKE: f32 = 0.3;
/// Words of a query that are looked for.
const MAX_WORDS: usize = 32;

/// A word of the query: its direction, and how much it says.
struct Asked {
    vector: Vector,
    weight: f32,
}

/// The share of the query that each text has, from 0 to 1.
pub fn shares<'t>(query: &str, texts: impl Iterator<Item = &'t str>) -> Vec<f32> {
    let asked = asked(query);
    let mut known = FxHashMap::default();
    let best: Vec<Vec<f32>> = texts.map(|text| best(&asked, text, &mut known)).collect();

    let weights: Vec<f32> = asked
        .iter()
        .enumerate()
        .map(|(place, one)| one.weight * rarity(best.iter().map(|all| all[place])))
        .collect();
    let whole: f32 = weights.iter().sum();
    let share = |found: &Vec<f32>| {
        let parts = found.iter().zip(&weights);
        parts.map(|(part, weight)| part * weight).sum::<f32>() / whole.max(f32::MIN_POSITIVE)
    };
    best.iter().map(share).collect()
}

/// The distinct words of a query that mean something.
fn asked(query: &str) -> Vec<Asked> {
    let mut seen = HashSet::new();
    let mut asked = Vec::new();
    let mut ids = Vec::new();
    tokens::for_each_word(query, |_, word| {
        let Some(word) = word.filter(|word| asked.len() < MAX_WORDS && !seen.contains(*word))
        else {
            return;
        };

        seen.insert(word.to_owned());
        ids.clear();
        tokens::pieces(Some(word), &mut ids);
        let says_something = match ids.as_slice() {
            [only] => words::kind(*only) != Kind::Stop,
            _ => !words::is_stop(word),
        };
        let sum = sum(&ids);
        let weight = table::dot(&sum, &sum).sqrt();
        if says_something && weight > 0.0 {
            asked.push(Asked {
                vector: table::unit(sum),
                weight,
            });
        }
    });

    asked
}

/// For each word of the query, how near the nearest word of a text is.
fn best(asked: &[Asked], text: &str, known: &mut FxHashMap<String, Box<[f32]>>) -> Vec<f32> {
    let mut best = vec![0.0_f32; asked.len()];
    let mut ids = Vec::new();
    let mut add = |near: &[f32]| {
        for (most, one) in best.iter_mut().zip(near) {
            *most = most.max(*one);
        }
    };
    tokens::for_each_word(text, |_, word| {
        let Some(word) = word else { return };
        if let Some(near) = known.get(word) {
            add(near);
            return;
        }

        ids.clear();
        tokens::pieces(Some(word), &mut ids);
        let vector = table::unit(sum(&ids));
        let near: Box<[f32]> = asked
            .iter()
            .map(|one| ((table::dot(&one.vector, &vector) - UNLIKE) / (1.0 - UNLIKE)).max(0.0))
            .collect();
        add(&near);
        known.insert(word.to_owned(), near);
    });

    best
}

fn sum(ids: &[u16]) -> Vector {
    let mut sum = table::ZERO;
    for id in ids.iter().filter(|id| **id != tokens::UNKNOWN) {
        table::add_row(&mut sum, *id, 1.0);
    }

    sum
}

/// The inverse document frequency of a word that texts have by a part each.
fn rarity(parts: impl Iterator<Item = f32>) -> f32 {
    let (mut texts, mut having) = (0.0_f32, 0.0_f32);
    for part in parts {
        texts += 1.0;
        having += part;
    }

    (1.0 + (texts - having + 0.5) / (having + 0.5)).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_words_for_the_same_count() {
        let texts = [
            "dad is coeliac, so no ordinary flour",
            "keep the receipt in mind",
            "the weather was fine",
        ];
        let shares = shares("What can my father eat?", texts.into_iter());
        assert!(shares[0] > shares[1] && shares[0] > shares[2], "{shares:?}");
        assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)));
    }

    #[test]
    fn a_query_without_meaning_is_in_no_text() {
        for query in ["", "what is it?", "!!!"] {
            let found = shares(query, ["a text"].into_iter());
            assert_eq!(found, [0.0], "{query:?}");
        }
        assert!(shares("boiler", std::iter::empty()).is_empty());
    }
}
