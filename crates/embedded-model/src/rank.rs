//! Scores sentences: against a query, and as representatives of their chunk. Guarantees scores that
//! depend half on shared words and half on shared meaning, because each alone misses much of what
//! the other finds.

use std::collections::{HashMap, HashSet};

use memoir_text::sentences;

use super::profile;
use super::table::{self, Vector};
use super::tokens;
use super::words::{self, Kind};

/// How much a word counts that says little, such as "kind" or "best".
const GENERIC: f32 = 0.5;
/// A longer dotted number is no version.
const MAX_VERSION_BYTES: usize = 32;
/// Beginnings of a version that are words too.
const MAX_BEGINNINGS: usize = 4;

/// Words and meaning of one sentence or query.
#[derive(Debug, Clone)]
pub struct Terms {
    pub stems: HashSet<String>,
    pub vector: Vector,
}

impl Terms {
    pub fn of(text: &str) -> Self {
        Self {
            stems: stems(text),
            vector: profile::vector_of(text),
        }
    }
}

/// The stems of the words of a text that tell something.
pub fn stems(text: &str) -> HashSet<String> {
    let mut stems = HashSet::new();
    tokens::for_each_word(text, |_, word| {
        if let Some(word) = word
            && is_telling(word)
        {
            stems.insert(stem(word));
        }
    });

    stems.extend(versions(text));
    stems
}

/// The dotted numbers of a text, and what they begin with: a question for 1.11 asks for 1.11.0 too.
fn versions(text: &str) -> impl Iterator<Item = String> {
    let tokens = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '.'));
    tokens.flat_map(|token| {
        let number = token.trim_start_matches(['v', 'V']).trim_matches('.');
        let is_version = number.len() <= MAX_VERSION_BYTES
            && number.starts_with(|c: char| c.is_ascii_digit())
            && number.contains('.');
        let dots = number.match_indices('.').skip(1).take(MAX_BEGINNINGS);
        let ends = dots.map(|(at, _)| at).chain([number.len()]);
        ends.filter(move |_| is_version)
            .map(move |end| number[..end].to_owned())
    })
}

fn is_telling(word: &str) -> bool {
    let known = tokens::whole_word(word);
    let grammar = known.is_some_and(|row| words::kind(row) == Kind::Stop) && !is_of_mail(word);
    word.chars().any(char::is_alphanumeric)
        && (!grammar || word.chars().all(|c| c.is_ascii_digit()))
}

/// Whether a word is boilerplate of mails, and a verb or a noun in a question.
fn is_of_mail(word: &str) -> bool {
    matches!(
        word,
        "writes" | "wrote" | "article" | "subject" | "organization" | "lines"
    )
}

/// A rough English stem, enough for "refunded" to match "refunds".
pub fn stem(word: &str) -> String {
    let word = words::singular(word);
    for (ending, shortest) in [("ing", 4), ("ed", 3), ("ly", 4)] {
        if word.is_ascii() && word.len() >= ending.len() + shortest && word.ends_with(ending) {
            return word[..word.len() - ending.len()]
                .trim_end_matches('e')
                .to_string();
        }
    }

    word.trim_end_matches('e').to_string()
}

/// How rare each stem is among the given sentences; rarer words count more.
#[derive(Debug, Clone)]
pub struct Rarity {
    counts: HashMap<String, usize>,
    total: usize,
}

impl Rarity {
    pub fn of<'t>(all: impl Iterator<Item = &'t HashSet<String>>) -> Self {
        let mut rarity = Self {
            counts: HashMap::new(),
            total: 0,
        };

        for stems in all {
            rarity.total += 1;
            for stem in stems {
                *rarity.counts.entry(stem.clone()).or_default() += 1;
            }
        }

        rarity
    }

    fn weight(&self, stem: &str) -> f32 {
        let seen = self.counts.get(stem).copied().unwrap_or(0);
        weight(stem, seen, self.total)
    }

    /// Weighted share of the query's words that the other text contains.
    pub fn shared(&self, question: &Terms, other: &HashSet<String>) -> f32 {
        self.share(question, |stem| other.contains(stem))
    }

    /// Weighted share of the query's words that `next` contains and `first` does not.
    pub fn added(&self, question: &Terms, first: &HashSet<String>, next: &HashSet<String>) -> f32 {
        self.share(question, |stem| {
            next.contains(stem) && !first.contains(stem)
        })
    }

    /// Weighted share of the query's words that a text contains, or what stands above it.
    pub fn covered(
        &self,
        question: &Terms,
        stems: &HashSet<String>,
        above: &HashSet<String>,
    ) -> f32 {
        self.share(question, |stem| {
            stems.contains(stem) || above.contains(stem)
        })
    }

    fn share(&self, question: &Terms, is_had: impl Fn(&String) -> bool) -> f32 {
        let (mut have, mut all) = (0.0, 0.0);
        let mut stems: Vec<&String> = question.stems.iter().collect();
        stems.sort();

        for stem in stems {
            let weight = self.weight(stem);
            all += weight;
            have += if is_had(stem) { weight } else { 0.0 };
        }

        if all > 0.0 { have / all } else { 0.0 }
    }
}

/// The weight of a stem that so many of all texts contain.
#[expect(clippy::cast_precision_loss, reason = "at most thousands of texts")]
pub fn weight(stem: &str, seen: usize, total: usize) -> f32 {
    let known = tokens::whole_word(stem).map(words::kind);
    let share = if known == Some(Kind::Generic) {
        GENERIC
    } else {
        1.0
    };
    share * (1.0 + total as f32 / (1.0 + seen as f32)).ln()
}

/// Relevance of a sentence to a query, from 0 to 1: of one with this share of its words and this meaning.
pub fn relevance(shared: f32, question: &Terms, sentence: &Vector) -> f32 {
    0.5 * shared + 0.5 * likeness(&question.vector, sentence)
}

/// Likeness of two meanings, from 0 to 1.
pub fn likeness(one: &Vector, other: &Vector) -> f32 {
    table::dot(one, other).max(0.0)
}

/// The best sentences of a chunk whose total `cost` is at most `limit`, in text order, joined to
/// one paragraph.
pub fn digest(text: &str, limit: usize, cost: fn(&str) -> usize) -> String {
    let pieces: Vec<String> = sentences::split(text)
        .into_iter()
        .map(sentences::flat)
        .collect();

    let vectors: Vec<Vector> = pieces.iter().map(|p| profile::vector_of(p)).collect();
    let mut centre = table::ZERO;
    for vector in &vectors {
        table::add(&mut centre, vector, 1.0);
    }

    let centre = table::unit(centre);
    let mut order: Vec<(f32, usize)> = (0..pieces.len())
        .map(|at| (standing(&pieces[at], &vectors[at], &centre, at), at))
        .collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut room = limit;
    let mut kept: Vec<usize> = Vec::new();

    for (_, at) in order {
        let needs = cost(&pieces[at]) + usize::from(!kept.is_empty());
        let repeats = kept
            .iter()
            .any(|k| table::dot(&vectors[*k], &vectors[at]) > 0.9);
        if needs <= room && !repeats {
            room -= needs;
            kept.push(at);
        }
    }

    kept.sort_unstable();
    kept.iter()
        .map(|at| pieces[*at].as_str())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Central and early sentences represent a chunk best; fragments, very long sentences, speech and
/// questions read badly out of context.
fn standing(piece: &str, vector: &Vector, centre: &Vector, at: usize) -> f32 {
    let words = piece.split_whitespace().count();
    let early = 0.25 / (1.0 + f32::from(u16::try_from(at).unwrap_or(u16::MAX)));
    let spoken = piece.starts_with(['[', '\'', '‘', '“', '(']) || piece.ends_with('?');
    let awkward = if spoken || !(4..=60).contains(&words) {
        0.25
    } else {
        0.0
    };

    table::dot(vector, centre) + early - awkward
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_the_same_stem_match() {
        for (a, b) in [
            ("refunds", "refunded"),
            ("closing", "closed"),
            ("cards", "card"),
            ("charge", "charges"),
            ("tunes", "tuned"),
        ] {
            assert_eq!(stem(a), stem(b));
        }
    }

    #[test]
    fn a_version_is_one_word_and_what_it_begins_with() {
        let of = |text: &str| {
            let mut found: Vec<String> = versions(text).collect();
            found.sort();
            found
        };
        assert_eq!(of("v1.11.0 (of 2024)"), ["1.11", "1.11.0"]);
        assert_eq!(of("regex 1.11, 3 apples. The end..."), ["1.11"]);
    }

    #[test]
    fn a_long_dotted_number_has_few_beginnings_or_is_no_version() {
        let found: Vec<String> = versions("1.2.3.4.5.6.7.8").collect();
        let wanted = ["1.2", "1.2.3", "1.2.3.4", "1.2.3.4.5", "1.2.3.4.5.6.7.8"];
        assert_eq!(found, wanted);
        assert_eq!(versions(&"1.".repeat(100)).count(), 0);
    }

    #[test]
    fn shared_words_and_meaning_count() {
        let texts = [
            "Refunds take fourteen days.",
            "The whale was white.",
            "Money comes back in two weeks.",
        ];

        let terms: Vec<Terms> = texts.iter().map(|t| Terms::of(t)).collect();
        let rarity = Rarity::of(terms.iter().map(|terms| &terms.stems));
        let question = Terms::of("How long does a refund take?");
        let scores: Vec<f32> = terms
            .iter()
            .map(|t| relevance(rarity.shared(&question, &t.stems), &question, &t.vector))
            .collect();

        assert!(scores[0] > scores[2] && scores[2] > scores[1], "{scores:?}");
    }
}
