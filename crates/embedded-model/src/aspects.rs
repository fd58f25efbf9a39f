//! What texts on a subject have in common: the names of their leaves. Guarantees names of the inventory,
//! which do not depend on the order of arrival.

use std::collections::{BTreeMap, BTreeSet};

use super::cues;
use super::names;
use super::profile::Profile;
use super::table::{self, Vector};
use super::topics::{Place, inventory};

/// How well an aspect must fit, by meaning and by words that indicate it.
const LIKELY: f32 = 0.28;
/// What one word that indicates an aspect is worth, and the most that all of them are.
const CUE: f32 = 0.18;
const MOST_CUES: f32 = 0.42;

/// An aspect of the subject that a category is named after, and how well it fits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fitting {
    pub name: &'static str,
    fit: f32,
}

impl Fitting {
    pub fn is_likely(self) -> bool {
        self.fit >= LIKELY
    }
}

/// The aspect of the subject above that fits a text best, by its words and those of its title, and by
/// its vector.
pub fn of(
    parents: &[&str],
    (words, title): (&BTreeSet<String>, &BTreeSet<String>),
    vector: &Vector,
) -> Option<Fitting> {
    let all = inventory();
    let Some(Place::Topic(subject)) = all.find(parents.last()?) else {
        return None;
    };
    let mut cued: BTreeMap<usize, f32> = BTreeMap::new();
    for word in words.iter().chain(title) {
        let indicated = all.aspect_cues.entries(word);
        let own: Vec<usize> = indicated
            .map(|(number, _)| number)
            .filter(|number| all.aspects[*number].subject == subject)
            .collect();
        // Of two aspects that a word indicates, it tells neither.
        let share = own.iter().fold(0.0, |sum: f32, _| sum + 1.0).recip();
        for number in own {
            *cued.entry(number).or_default() += share;
        }
    }

    let fit = |(number, aspect): (usize, &super::topics::Aspect)| Fitting {
        name: aspect.name,
        fit: table::dot(&aspect.vector, vector)
            + (CUE * cued.get(&number).copied().unwrap_or(0.0)).min(MOST_CUES),
    };

    all.aspects_of(subject)
        .map(fit)
        .reduce(|best, next| if next.fit > best.fit { next } else { best })
}

/// Whether this is the name of an aspect of the subject above.
pub fn is_one(parents: &[&str], name: &str) -> bool {
    let all = inventory();
    let subject = parents.last().and_then(|parent| all.find(parent));
    matches!(subject, Some(Place::Topic(subject))
        if all.aspects_of(subject).any(|(_, aspect)| names::same(aspect.name, name)))
}

/// The aspect that fits some texts together best, if one is likely.
pub fn of_texts(parents: &[&str], texts: &[&str]) -> Option<&'static str> {
    let joined = texts.join("\n\n");
    let profile = Profile::of(&joined);
    let words = (&cues::words_of(&joined), &BTreeSet::new());
    let found = of(parents, words, profile.about())?;
    found.is_likely().then_some(found.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aspect(subject: &str, text: &str) -> Option<&'static str> {
        let words = (&cues::words_of(text), &BTreeSet::new());
        let found = of(&[subject], words, Profile::of(text).about());
        found
            .filter(|found| found.is_likely())
            .map(|found| found.name)
    }

    #[test]
    fn a_text_has_an_aspect_of_its_subject() {
        for (subject, text, wanted) in [
            ("Cars", "New winter tyres with 8 mm of tread.", "Tyres"),
            (
                "Pets",
                "The vet pulled two of the dog's teeth.",
                "Vet visits",
            ),
            (
                "Recipes",
                "Fry the onions, add the stock, and the soup is ready.",
                "Soups and stews",
            ),
        ] {
            assert_eq!(aspect(subject, text), Some(wanted), "{text}");
        }
    }

    #[test]
    fn other_names_have_no_aspects() {
        assert_eq!(aspect("Home", "New winter tyres"), None);
        assert_eq!(aspect("Radiators of mine", "New winter tyres"), None);
        assert_eq!(of_texts(&[], &["New winter tyres"]), None);
    }
}
