//! How well chunks match the words of a query: the share of the query's terms, with rare ones
//! counting more.

use std::collections::{HashMap, HashSet};

use memoir_text::words;

/// The score of each text, 0 to 1: the share of the query's terms that it contains, each weighted
/// by how few texts contain it.
pub fn scores<'t>(query: &str, texts: impl Iterator<Item = &'t str>) -> Vec<f64> {
    let wanted = terms(query);
    let held: Vec<HashSet<&str>> = texts.map(|text| terms_among(text, &wanted)).collect();
    let mut rarity: HashMap<&str, f64> = HashMap::new();
    let mut whole = 0.0;

    // In a fixed order, because floating-point sums depend on it.
    let mut ordered: Vec<&String> = wanted.iter().collect();
    ordered.sort();
    for term in &ordered {
        let holders = held
            .iter()
            .filter(|held| held.contains(term.as_str()))
            .count();

        let weight = idf(holders, held.len());
        whole += weight;
        rarity.insert(term, weight);
    }

    if whole <= 0.0 {
        return vec![0.0; held.len()];
    }

    let score = |held: &HashSet<&str>| {
        let shared = ordered.iter().filter(|term| held.contains(term.as_str()));
        shared
            .map(|term| rarity.get(term.as_str()).copied().unwrap_or(0.0))
            .sum::<f64>()
            / whole
    };

    held.iter().map(score).collect()
}

#[expect(clippy::cast_precision_loss, reason = "counts of chunks")]
fn idf(holders: usize, texts: usize) -> f64 {
    (1.0 + texts as f64 / (1.0 + holders as f64)).ln()
}

/// The terms of a query.
fn terms(text: &str) -> HashSet<String> {
    let mut terms = HashSet::new();
    words::each(text, |term| _ = terms.insert(term.to_owned()));
    terms
}

/// Which of the wanted terms a text contains.
fn terms_among<'w>(text: &str, wanted: &'w HashSet<String>) -> HashSet<&'w str> {
    let mut held = HashSet::new();
    words::each(text, |term| {
        held.extend(wanted.get(term).map(String::as_str));
    });
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_words_of_the_query_count_more() {
        let texts = [
            "the cat sat on the mat",
            "the dog ran",
            "a QUASAR shines",
            "nothing here",
        ];

        let scores = scores("the quasar?", texts.into_iter());
        assert!(scores[2] > scores[0] && scores[0] > scores[3], "{scores:?}");
        assert!((scores[0] - scores[1]).abs() < 1e-12);
        assert!(scores.iter().all(|score| (0.0..=1.0).contains(score)));

        assert_eq!(super::scores("?!", ["x"].into_iter()), [0.0]);
    }

    #[test]
    fn scripts_without_spaces_match_by_pairs() {
        let scores = scores("退款政策", ["关于退款的说明", "你好世界"].into_iter());
        assert!(scores[0] > 0.0 && scores[1] == 0.0);
    }
}
