//! How well passages match a question by its words: the share of the question's terms, rare ones counting more (D-7).

use std::collections::{HashMap, HashSet};

use unicode_normalization::UnicodeNormalization as _;

/// The score of each text, 0 to 1: the share of the question's terms that it holds, each weighted by how few texts hold it.
pub fn scores<'t>(query: &str, texts: impl Iterator<Item = &'t str>) -> Vec<f64> {
    let wanted = terms(query);
    let held: Vec<HashSet<String>> =
        texts.map(|text| terms(text).into_iter().filter(|term| wanted.contains(term)).collect()).collect();
    let mut rarity: HashMap<&str, f64> = HashMap::new();
    let mut whole = 0.0;
    // In a fixed order: sums of fractions depend on it.
    let mut ordered: Vec<&String> = wanted.iter().collect();
    ordered.sort();
    for term in &ordered {
        let holders = held.iter().filter(|held| held.contains(*term)).count();
        let weight = idf(holders, held.len());
        whole += weight;
        rarity.insert(term, weight);
    }
    if whole <= 0.0 {
        return vec![0.0; held.len()];
    }
    let score = |held: &HashSet<String>| {
        let shared = ordered.iter().filter(|term| held.contains(**term));
        shared.map(|term| rarity.get(term.as_str()).copied().unwrap_or(0.0)).sum::<f64>() / whole
    };
    held.iter().map(score).collect()
}

#[expect(clippy::cast_precision_loss, reason = "counts of passages")]
fn idf(holders: usize, texts: usize) -> f64 {
    (1.0 + texts as f64 / (1.0 + holders as f64)).ln()
}

/// Words in lower case. Scripts that do not part their words are taken by pairs of characters.
fn terms(text: &str) -> HashSet<String> {
    let folded: String = text.nfkc().collect::<String>().to_lowercase();
    let mut terms = HashSet::new();
    for word in folded.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let chars: Vec<char> = word.chars().collect();
        if chars.iter().any(|c| is_unparted(*c)) && chars.len() > 1 {
            terms.extend(chars.windows(2).map(|pair| pair.iter().collect::<String>()));
        } else {
            terms.insert(word.to_owned());
        }
    }
    terms
}

fn is_unparted(c: char) -> bool {
    matches!(c, '\u{0e00}'..='\u{0eff}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_words_of_the_question_count_more() {
        let texts = ["the cat sat on the mat", "the dog ran", "a QUASAR shines", "nothing here"];
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
