//! What a text claims, sentence by sentence, and whether another text claims otherwise. This compares
//! words, not meaning: two sentences contradict each other if they speak about the same with other
//! numbers or dates, or if only one of them denies it. No model is asked.

use std::collections::{HashMap, HashSet};

use memoir_index::terms;
use memoir_text::text::sentences;

use super::word_overlap::share;
use crate::conversation::conflicts;
use crate::conversation::fact_check::denies;

/// Words that two sentences must share to speak about the same, and the share of the words of the
/// shorter and of the longer one.
const MIN_SHARED: usize = 3;
const OF_SHORTER: f64 = 0.75;
const OF_LONGER: f64 = 0.6;

/// The sentences that are looked up for one word: a text may repeat it in all of them.
const MAX_PLACES: usize = 200;

/// The claims of a text.
#[derive(Debug, Clone, Default)]
pub struct Claims {
    each: Vec<Claim>,
    /// The first claims that have a word.
    by_word: HashMap<String, Vec<usize>>,
}

/// One sentence.
#[derive(Debug, Clone)]
struct Claim {
    text: String,
    words: HashSet<String>,
    numbers: HashSet<String>,
    denies: bool,
    /// What it says is, if it names a value.
    value: Option<conflicts::Claim>,
}

impl Claims {
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut claims = Self::default();
        for claim in claims_of(text) {
            for word in &claim.words {
                let places = claims.by_word.entry(word.clone()).or_default();
                if places.len() < MAX_PLACES {
                    places.push(claims.each.len());
                }
            }
            claims.each.push(claim);
        }
        claims
    }

    /// The first sentence here that contradicts a sentence of the other text.
    #[must_use]
    pub fn contradicted_by(&self, other: &str) -> Option<&str> {
        claims_of(other).find_map(|claim| self.against(&claim))
    }

    /// The same of a text whose claims are known.
    #[must_use]
    pub fn contradicted_by_any(&self, others: &Self) -> Option<&str> {
        others.each.iter().find_map(|claim| self.against(claim))
    }

    fn against(&self, claim: &Claim) -> Option<&str> {
        let mut shared: HashMap<usize, usize> = HashMap::new();
        let known = claim.words.iter().filter_map(|word| self.by_word.get(word));
        for place in known.flatten() {
            *shared.entry(*place).or_default() += 1;
        }

        let mut places: Vec<(usize, usize)> = shared.into_iter().collect();
        places.sort_unstable();
        let own = places.into_iter().find(|(place, shared)| {
            let own = &self.each[*place];
            let is_denied = is_same_subject(*shared, own, claim) && is_opposed(own, claim);
            is_denied || has_other_value(own, claim)
        });
        own.map(|(place, _)| self.each[place].text.as_str())
    }
}

/// The sentences of a text that claim something, each once: questions do not.
fn claims_of(text: &str) -> impl Iterator<Item = Claim> + '_ {
    let mut seen = HashSet::new();
    let lines = text.lines().flat_map(sentences).map(str::trim);
    lines.filter_map(move |sentence| {
        if sentence.ends_with(['?', '？']) || !seen.insert(sentence) {
            return None;
        }

        let terms = terms::of_query(sentence).into_iter().map(|one| one.term);
        let (numbers, words): (HashSet<String>, HashSet<String>) =
            terms.partition(|term| term.chars().any(|c| c.is_ascii_digit()));
        let value = conflicts::Claim::of_sentence(sentence, false);
        (words.len() >= MIN_SHARED || value.is_some()).then(|| Claim {
            text: sentence.to_owned(),
            words,
            numbers,
            denies: denies(sentence),
            value,
        })
    })
}

fn is_same_subject(shared: usize, one: &Claim, other: &Claim) -> bool {
    let (one, other) = (one.words.len(), other.words.len());
    shared >= MIN_SHARED
        && share(shared, one.min(other)) >= OF_SHORTER
        && share(shared, one.max(other)) >= OF_LONGER
}

fn has_other_value(one: &Claim, other: &Claim) -> bool {
    let (Some(one), Some(other)) = (&one.value, &other.value) else {
        return false;
    };
    one.opposes(other)
}

fn is_opposed(one: &Claim, other: &Claim) -> bool {
    let with_numbers = !one.numbers.is_empty() && !other.numbers.is_empty();
    one.denies != other.denies || (with_numbers && one.numbers.is_disjoint(&other.numbers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_numbers_and_denials_contradict() {
        let file = Claims::new(
            "# Lamp\n\nThe lamp of the lighthouse burns whale oil. The tower is 30 m above the sea.",
        );
        for (said, wanted) in [
            ("The lighthouse lamp does not burn whale oil.", true),
            ("I measured: the tower is 40 m above the sea", true),
            ("The tower is 30 m above the sea, isn't it?", false),
            ("The lamp of the lighthouse burns whale oil.", false),
            ("The tower is 30 m above the sea.", false),
            ("The lamp needs a new wick.", false),
            ("The deadline is 3 May.", false),
            ("The boat does not come on Mondays.", false),
            ("No.", false),
        ] {
            assert_eq!(file.contradicted_by(said).is_some(), wanted, "{said}");
        }

        let claim = file.contradicted_by("The tower is 40 m above the sea.");
        assert_eq!(claim, Some("The tower is 30 m above the sea."));
    }
}
