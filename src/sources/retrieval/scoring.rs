//! How well versions match a query: the share of the query's words that they contain, with rare ones
//! counting more, and for the words that they do not contain, how near their beginning is in meaning.
//!
//! A version's words are those of its name, its metadata, its tags and its text.

use std::collections::HashMap;

use memoir_embedded_model::EmbeddedModel;
use memoir_text::words::{each, telling};

use crate::model::version_search::VersionCandidate;

/// How much of the share of the missing words the same meaning is worth: less than any rare word.
const MEANING: f64 = 0.5;
/// Cosine below which two texts have nothing in common.
const MIN_COSINE: f64 = 0.15;
/// Characters of a text that are compared in meaning: it begins with what it is about.
const BEGINNING: usize = 2_000;

/// What is asked for: the weights of the words of a query, and its meaning.
#[derive(Debug)]
pub struct Scale {
    places: HashMap<String, usize>,
    weights: Vec<f64>,
    /// `None` if it has no word that the embedded model knows.
    meaning: Option<Vec<f32>>,
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
        let candidates: Vec<&VersionCandidate> = candidates.collect();
        let held: Vec<Vec<bool>> = candidates.iter().map(|one| held(one, &places)).collect();
        let weights = (0..places.len()).map(|word| weight(&held, word)).collect();
        let known = EmbeddedModel::knows_the_words(query);
        let scale = Self {
            places,
            weights,
            meaning: known.then(|| EmbeddedModel::embed(query)),
        };
        let scores = candidates.iter().zip(&held);
        let scores = scores.map(|(one, held)| scale.both(one, held)).collect();

        (scale, scores)
    }

    /// The score of another version.
    pub fn score(&self, candidate: &VersionCandidate) -> f64 {
        self.both(candidate, &held(candidate, &self.places))
    }

    /// By words, and by meaning where these are missing.
    fn both(&self, candidate: &VersionCandidate, held: &[bool]) -> f64 {
        let share = self.share(held);
        if share < 1.0 {
            share + (1.0 - share) * MEANING * self.nearness(candidate)
        } else {
            share
        }
    }

    /// How near a version is in meaning, from 0 to 1.
    fn nearness(&self, candidate: &VersionCandidate) -> f64 {
        let Some(meaning) = &self.meaning else {
            return 0.0;
        };

        let facts = &candidate.version.facts;
        let content = candidate.content.as_deref().unwrap_or_default();
        let beginning: String = content.chars().take(BEGINNING).collect();
        let said = [
            Some(candidate.source.filename.as_str()),
            facts.topic.as_deref(),
            facts.note.as_deref(),
            Some(&beginning),
        ];
        let said: Vec<&str> = said.into_iter().flatten().collect();
        let vector = EmbeddedModel::embed(&said.join("\n"));
        let cosine: f32 = meaning.iter().zip(&vector).map(|(a, b)| a * b).sum();
        let cosine = f64::from(cosine).clamp(0.0, 1.0);
        if cosine < MIN_COSINE { 0.0 } else { cosine }
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
        assert!((found[3] - 1.0).abs() < 1e-12, "{found:?}");

        assert!((scores("budget")[1] - 1.0).abs() < 1e-12);
        assert!(scores("?!").iter().all(|score| *score < 1e-12));
    }

    #[test]
    fn a_text_without_the_words_is_found_by_its_meaning() {
        let all = [
            candidate(1, "bike.md", &[], 1, "The chain of the bicycle is worn."),
            candidate(
                2,
                "bread.md",
                &[],
                1,
                "Sourdough: knead flour and water, put it in the oven.",
            ),
            candidate(3, "tax.md", &[], 1, "The tax return is due in July."),
        ];
        let (_, found) = Scale::over("loaf baking", all.iter());
        assert!(found[1] > found[0] && found[1] > found[2], "{found:?}");
        assert!(found.iter().all(|score| *score <= MEANING), "{found:?}");

        let (_, unknown) = Scale::over("xqzvbw", all.iter());
        assert!(unknown.iter().all(|score| *score < 1e-12), "{unknown:?}");
    }
}
