//! How well versions fit a query by their words: the share of the query's words that they hold, rare ones counting more.
//!
//! A version's words are those of its name, of what was said of it, of its tags and of its text.

use std::collections::HashMap;

use crate::base::words::{each, telling};
use crate::model::document::DocumentCandidate;

/// The score of each version, 0 to 1.
pub fn scores<'c>(query: &str, candidates: impl Iterator<Item = &'c DocumentCandidate>) -> Vec<f64> {
    let mut wanted = telling(query);
    if wanted.is_empty() {
        each(query, |word| wanted.push(word.to_owned()));
    }
    let places: HashMap<&str, usize> = wanted.iter().enumerate().map(|(place, word)| (word.as_str(), place)).collect();
    let held: Vec<Vec<bool>> = candidates.map(|candidate| held(candidate, &places, wanted.len())).collect();
    let weights: Vec<f64> = (0..wanted.len()).map(|word| weight(&held, word)).collect();
    let whole: f64 = weights.iter().sum();
    let score = |held: &Vec<bool>| {
        let shared: f64 = weights.iter().zip(held).filter(|(_, held)| **held).map(|(weight, _)| weight).sum();
        if whole > 0.0 { shared / whole } else { 0.0 }
    };
    held.iter().map(score).collect()
}

#[expect(clippy::cast_precision_loss, reason = "counts of candidates")]
fn weight(held: &[Vec<bool>], word: usize) -> f64 {
    let holders = held.iter().filter(|held| held[word]).count();
    (1.0 + held.len() as f64 / (1.0 + holders as f64)).ln()
}

/// Which of the words a version holds.
fn held(candidate: &DocumentCandidate, places: &HashMap<&str, usize>, count: usize) -> Vec<bool> {
    let mut held = vec![false; count];
    let facts = &candidate.version.facts;
    let said = [&facts.topic, &facts.note, &facts.provider, &candidate.content].into_iter().flatten();
    let texts = said.chain([&candidate.source.filename]).chain(&candidate.source.tags);
    for text in texts {
        each(text, |word| {
            if let Some(place) = places.get(word) {
                held[*place] = true;
            }
        });
    }
    held
}

#[cfg(test)]
mod tests {
    use super::super::choosing::tests::candidate;
    use super::*;

    #[test]
    fn rare_words_of_the_query_count_more() {
        let all = [
            candidate(1, "one.md", &[], 1, "A quasar shines."),
            candidate(2, "two.md", &["budget"], 1, "The annual report."),
            candidate(3, "three.md", &[], 1, "Another report of the year."),
            candidate(4, "quasar-report.md", &[], 1, "nothing"),
        ];
        let scores = scores("report about the Quasar", all.iter());
        assert!(scores[3] > scores[0] && scores[0] > scores[1], "{scores:?}");
        assert!((scores[1] - scores[2]).abs() < 1e-12 && (scores[3] - 1.0).abs() < 1e-12, "{scores:?}");
        assert!((super::scores("budget", all.iter())[1] - 1.0).abs() < 1e-12);
        assert!(super::scores("?!", all.iter()).iter().all(|score| *score < 1e-12));
    }
}
