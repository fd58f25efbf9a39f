//! A better name for a category that has grown. Guarantees a name that most of its texts contain, that
//! no ancestor or sibling has, and none at all if the present name fits or nothing fits better.

use std::collections::{BTreeMap, HashSet};

use super::aspects;
use super::meaning::Choice;
use super::names;
use super::phrases;
use super::rank::Terms;
use super::table;
use super::{NewName, RenameInput};

/// Texts below which a name must be about all of them, and counts by its words alone.
const MIN_TEXTS: usize = 4;
/// Texts below which only the words of a name count: a small category often has the title of its first
/// text, and similarity in meaning to the others says little.
const FEW: usize = 8;
/// A category of a few sources, or mostly of one, has the name of their sections.
const MIN_SOURCES: usize = 4;
/// Similarity in meaning at which a name fits a text without its words.
const NEAR: f32 = 0.3;
/// Share of the words of a name that a text must contain.
const WORDS: f32 = 0.5;
/// Share of the texts that a good name fits, and by which a new one must fit more.
const MIN_FITTING: f32 = 0.5;
const BETTER: f32 = 0.25;
/// Number of nouns that are considered.
const CONSIDERED: usize = 16;

/// A candidate and the texts that contain it.
struct Candidate {
    name: String,
    stems: HashSet<String>,
    holders: Vec<bool>,
}

/// A name that fits most texts of a category, if its own does not.
pub fn better_name(input: &RenameInput<'_>) -> Option<NewName> {
    if is_of_few_sources(input) || aspects::is_one(input.parents, input.name) {
        return None;
    }

    let texts: Vec<Terms> = input
        .texts
        .iter()
        .map(|(_, text)| Terms::of(text))
        .collect();
    let fitting = fitting(input.name, &texts);
    let all = texts.len();
    let needed = if all < MIN_TEXTS { 1.0 } else { MIN_FITTING };
    if share(fitting, all) >= needed {
        return None;
    }

    let by_noun = || {
        let candidates = candidates(input, &texts);
        let (name, holding) = most_held(&candidates, all)?;
        let name = names::tidy(&name)?;
        let reason =
            format!("the former name fitted {fitting} of {all} chunks, the new one fits {holding}");
        let is_better = share(holding, all) >= share(fitting, all) + BETTER;
        (is_better && !is_used(&name, input)).then_some(NewName { name, reason })
    };
    by_noun().or_else(|| by_aspect(input, fitting))
}

/// What all the texts are about, for texts that have no noun in common.
fn by_aspect(input: &RenameInput<'_>, fitting: usize) -> Option<NewName> {
    let texts: Vec<&str> = input.texts.iter().map(|(_, text)| *text).collect();
    let name = aspects::of_texts(input.parents, &texts)?;
    let all = texts.len();
    let reason =
        format!("the former name fitted {fitting} of {all} chunks, the new one is their subject");
    (!is_used(name, input)).then(|| NewName {
        name: name.to_owned(),
        reason,
    })
}

/// Names for a category of these texts, best first: nouns that several of them contain, phrases of
/// single ones, and at last a name that any category can have.
pub fn names_for(texts: &[&str]) -> Vec<String> {
    let shared = phrases::shared_nouns(texts, CONSIDERED);
    let single = texts.iter().take(CONSIDERED).flat_map(|text| {
        let about = Terms::of(text).vector;
        phrases::key_phrases(text, &about, 2, true)
    });

    let found = shared.into_iter().chain(single);
    let mut named: Vec<String> = found.filter_map(|name| names::tidy(&name)).collect();
    named.push(names::MISCELLANEOUS.to_owned());
    named
}

fn is_of_few_sources(input: &RenameInput<'_>) -> bool {
    let mut sources: BTreeMap<&str, usize> = BTreeMap::new();
    for (source, _) in input.texts {
        *sources.entry(source).or_default() += 1;
    }

    let texts = input.texts.len();
    let most = sources.values().copied().max().unwrap_or(0);
    sources.len() < MIN_SOURCES.min(texts.max(2)) || most * 2 > texts
}

/// How many texts a name fits, by its words or by its meaning.
fn fitting(name: &str, texts: &[Terms]) -> usize {
    let (words, meaning) = (Terms::of(name).stems, Choice::new(name).vector);
    let fits = |text: &&Terms| {
        let held = words
            .iter()
            .filter(|word| text.stems.contains(*word))
            .count();
        let by_words = !words.is_empty() && share(held, words.len()) >= WORDS;
        by_words || texts.len() >= FEW && table::dot(&meaning, &text.vector) >= NEAR
    };

    texts.iter().filter(fits).count()
}

/// The nouns that the texts use most, without those of the path and of siblings.
fn candidates(input: &RenameInput<'_>, texts: &[Terms]) -> Vec<Candidate> {
    let above: HashSet<String> = input
        .parents
        .iter()
        .flat_map(|name| Terms::of(name).stems)
        .collect();

    let joined: Vec<&str> = input.texts.iter().map(|(_, text)| *text).collect();
    let nouns = phrases::shared_nouns(&joined, CONSIDERED);
    let candidate = |name: String| {
        let stems = Terms::of(&name).stems;
        let holders = texts.iter().map(|text| stems.is_subset(&text.stems));
        Candidate {
            holders: holders.collect(),
            name,
            stems,
        }
    };

    nouns
        .into_iter()
        .map(candidate)
        .filter(|found| !found.stems.is_empty() && !found.stems.is_subset(&above))
        .filter(|found| !is_used(&found.name, input))
        .collect()
}

/// The noun that most texts contain, and how many; of two words, if that fits nearly as many.
fn most_held(candidates: &[Candidate], all: usize) -> Option<(String, usize)> {
    let held = |one: &Candidate| one.holders.iter().filter(|held| **held).count();
    let weight =
        |one: &Candidate| share(held(one), all) + if one.stems.len() > 1 { 0.1 } else { 0.0 };
    let best = candidates.iter().reduce(|best, next| {
        if weight(next) > weight(best) {
            next
        } else {
            best
        }
    })?;

    (share(held(best), all) > MIN_FITTING).then(|| (best.name.clone(), held(best)))
}

/// Whether an ancestor, a sibling or the category itself has this name.
fn is_used(name: &str, input: &RenameInput<'_>) -> bool {
    let stems = Terms::of(name).stems;
    let mut others = input.parents.iter().chain(input.siblings);
    names::same(name, input.name)
        || others.any(|other| names::same(name, other) || Terms::of(other).stems == stems)
}

#[expect(clippy::cast_precision_loss, reason = "few texts")]
fn share(part: usize, all: usize) -> f32 {
    part as f32 / all.max(1) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts about radiators, each of its own source.
    fn radiators() -> Vec<(String, String)> {
        (0..12)
            .map(|n| {
                let text = format!(
                    "The radiator in room {n} was cold in the morning. The plumber opened the radiator and let the air out."
                );
                (format!("source {n}"), text)
            })
            .collect()
    }

    fn named(
        name: &str,
        parents: &[&str],
        siblings: &[&str],
        texts: &[(String, String)],
    ) -> Option<String> {
        let texts: Vec<(&str, &str)> = texts
            .iter()
            .map(|(source, text)| (source.as_str(), text.as_str()))
            .collect();
        let input = RenameInput {
            name,
            parents,
            siblings,
            texts: &texts,
        };

        better_name(&input).map(|better| better.name)
    }

    #[test]
    fn a_name_that_fits_few_texts_is_replaced_by_a_noun_of_most() {
        let found = named("Wedding photographs", &["Home"], &[], &radiators());
        assert_eq!(found.as_deref(), Some("Radiator"));
    }

    #[test]
    fn a_name_stays_if_it_fits_or_nothing_else_may_be_used() {
        let texts = radiators();
        assert_eq!(named("Radiators", &["Home"], &[], &texts), None);
        let other = named("Wedding photographs", &["Radiators"], &[], &texts);
        assert_ne!(other.as_deref(), Some("Radiator"));
        let other = named("Wedding photographs", &["Home"], &["Radiators"], &texts);
        assert_ne!(other.as_deref(), Some("Radiator"));
        assert_eq!(
            named("Wedding photographs", &["Home"], &[], &texts[..1]),
            None
        );
    }

    #[test]
    fn two_sources_have_the_name_of_what_they_have_in_common() {
        let source = |at: usize, text: &str| (format!("source {at}"), text.to_owned());
        let texts = [
            source(1, "New winter tyres, the tread is 8 mm."),
            source(
                2,
                "Had the wheels balanced, because the car shook above 100.",
            ),
        ];
        let parents = ["Transport", "Cars"];
        assert_eq!(
            named("Winter tyres", &parents, &[], &texts).as_deref(),
            Some("Tyres")
        );
        assert_eq!(
            named("Tyres", &parents, &[], &texts),
            None,
            "a name of the inventory stays"
        );
        let cars = [source(1, "The car is red."), source(2, "The car is loud.")];
        assert_eq!(
            named("Red car", &parents, &[], &cars),
            None,
            "both have a word of it"
        );
    }

    #[test]
    fn the_sections_of_a_source_keep_their_heading() {
        let mut texts = radiators();
        for (source, _) in &mut texts[3..] {
            "one book".clone_into(source);
        }

        assert_eq!(named("Chapter IV", &["Fiction"], &[], &texts), None);
    }
}
