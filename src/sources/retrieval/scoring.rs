//! How well versions match a query by words: the share of the query's words that they contain, with
//! rare ones counting more.
//!
//! A version's words are those of its name, its metadata, its tags and its text.

use std::collections::HashMap;

use memoir_text::words::{each, telling};

use crate::model::version_search::VersionCandidate;

/// The weights of the words of a query.
#[derive(Debug)]
pub struct Scale {
    places: HashMap<String, usize>,
    weights: Vec<f64>,
}

impl Scale {
    /// The weights over some versions, and the score of each of them, 0 to 1.
    pub fn over<'c>(
        query: &str,
        candidates: impl Iterator<Item = &'c VersionCandidate>,
    ) -> (Self, Vec<f64>) {
        let mut wanted = telling(query);
        if wanted.is_empty() {
            each(query, |word| wanted.push(word.to_owned()));
        }

        let places: HashMap<String, usize> = wanted.into_iter().zip(0..).collect();
        let held: Vec<Vec<bool>> = candidates
            .map(|candidate| held(candidate, &places))
            .collect();
        let weights = (0..places.len()).map(|word| weight(&held, word)).collect();
        let scale = Self { places, weights };
        let scores = held.iter().map(|held| scale.share(held)).collect();

        (scale, scores)
    }

    /// The score of another version.
    pub fn score(&self, candidate: &VersionCandidate) -> f64 {
        self.share(&held(candidate, &self.places))
    }

    fn share(&self, held: &[bool]) -> f64 {
        let whole: f64 = self.weights.iter().sum();
        let shared: f64 = self
            .weights
            .iter()
            .zip(held)
            .filter(|(_, held)| **held)
            .map(|(weight, _)| weight)
            .sum();

        // The sum of nothing is -0.0, which would be visible.
        if whole > 0.0 {
            shared / whole + 0.0
        } else {
            0.0
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of candidates")]
fn weight(held: &[Vec<bool>], word: usize) -> f64 {
    let holders = held.iter().filter(|held| held[word]).count();
    (1.0 + held.len() as f64 / (1.0 + holders as f64)).ln()
}

/// Which of the words a version contains.
fn held(candidate: &VersionCandidate, places: &HashMap<String, usize>) -> Vec<bool> {
    let mut held = vec![false; places.len()];
    let facts = &candidate.version.facts;
    let said = [
        &facts.topic,
        &facts.note,
        &facts.provider,
        &candidate.content,
    ]
    .into_iter()
    .flatten();

    let texts = said
        .chain([&candidate.source.filename])
        .chain(&candidate.source.tags);
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

        let scores = |query: &str| Scale::over(query, all.iter()).1;
        let found = scores("report about the Quasar");
        assert!(found[3] > found[0] && found[0] > found[1], "{found:?}");
        assert!(
            (found[1] - found[2]).abs() < 1e-12 && (found[3] - 1.0).abs() < 1e-12,
            "{found:?}"
        );

        assert!((scores("budget")[1] - 1.0).abs() < 1e-12);
        assert!(scores("?!").iter().all(|score| *score < 1e-12));
    }
}
