//! Where a name belongs that a model gave without seeing the others: onto an existing category that
//! means the same, by name, by subject and by what is filed there; otherwise it is new.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use memoir_embedded_model::EmbeddedModel;
use memoir_text::text::name_key;

/// How alike two names must be to mean the same: fields are far apart, topics within one are not.
const SAME_FIELD: f32 = 0.5;
const SAME_TOPIC: f32 = 0.6;
/// How much less will do if the subject is near to what is filed there.
const ALLOWANCE: f32 = 0.2;
/// From when on it is.
const NEAR: f32 = 0.6;
/// Letters of a name that may be an abbreviation, which counts as a word.
const ABBREVIATION: usize = 3;
/// What equal letters are worth if nothing else tells names apart.
const BY_LETTERS: f32 = 0.01;

/// Subjects that are kept of a name.
const MAX_TOLD: usize = 8;

/// A name to fold, with the subject of its chunk.
pub struct GivenName<'n> {
    pub name: &'n str,
    pub subject: Option<&'n str>,
    pub level: i64,
}

/// A category that it may mean.
pub struct Candidate {
    pub name: String,
    /// Subjects or beginnings of chunks below it.
    pub told: Vec<Arc<str>>,
}

/// The vectors of names and subjects, each computed once.
#[derive(Default)]
pub struct Vectors {
    by_text: HashMap<Arc<str>, Option<Arc<[f32]>>>,
}

impl Vectors {
    /// `None` if its words are unknown, as those of most languages are: the vectors of their letters
    /// are alike, whatever they mean.
    fn of(&mut self, text: &str) -> Option<Arc<[f32]>> {
        if let Some(known) = self.by_text.get(text) {
            return known.clone();
        }

        let is_abbreviation = text.is_ascii() && text.len() <= ABBREVIATION;
        let is_known = is_abbreviation || EmbeddedModel::knows_the_words(text);
        let vector: Option<Arc<[f32]>> = is_known.then(|| EmbeddedModel::embed(text).into());
        self.by_text.insert(text.into(), vector.clone());
        vector
    }

    fn likeness(&mut self, one: Option<&[f32]>, other: &str) -> f32 {
        let Some(one) = one else { return 0.0 };
        self.of(other).map_or(0.0, |other| cosine(one, &other))
    }
}

/// The index of the category that means the same as a name, if there is one; or, if `must_fit`, of
/// the nearest.
pub fn fold(
    given: &GivenName<'_>,
    candidates: &[Candidate],
    must_fit: bool,
    vectors: &mut Vectors,
) -> Option<usize> {
    let name = vectors.of(given.name);
    let subject = given.subject.and_then(|subject| vectors.of(subject));
    let least = if given.level <= 1 {
        SAME_FIELD
    } else {
        SAME_TOPIC
    };
    let scored = candidates.iter().enumerate().map(|(at, candidate)| {
        let alike = vectors.likeness(name.as_deref(), &candidate.name);
        let near = subject.is_some().then(|| candidate.told.iter());
        let near = near.into_iter().flatten();
        let near = near
            .map(|text| vectors.likeness(subject.as_deref(), text))
            .fold(0.0, f32::max);
        (at, alike, near)
    });
    let scored: Vec<(usize, f32, f32)> = scored.collect();

    let means_the_same = |(_, alike, near): &(usize, f32, f32)| {
        *alike >= least || (*alike >= least - ALLOWANCE && *near >= NEAR)
    };
    let sum = |(at, alike, near): &(usize, f32, f32)| {
        let letters = same_letters(given.name, &candidates[*at].name);
        alike + near + BY_LETTERS * letters
    };
    let best = scored
        .iter()
        .filter(|one| must_fit || means_the_same(one))
        .max_by(|one, other| sum(one).total_cmp(&sum(other)));
    best.map(|(at, ..)| *at)
}

/// Folds names that were given together, in this order, onto those given before: the names that they
/// become.
pub fn fold_together(given: &[GivenName<'_>], known: &mut Vec<Candidate>) -> Vec<String> {
    let mut vectors = Vectors::default();
    let mut fold_one = |given: &GivenName<'_>| {
        let key = name_key(given.name);
        let same = known.iter().position(|one| name_key(&one.name) == key);
        let at = same.or_else(|| fold(given, known, false, &mut vectors));
        let at = at.unwrap_or_else(|| {
            known.push(Candidate {
                name: given.name.to_owned(),
                told: Vec::new(),
            });
            known.len() - 1
        });

        let told = &mut known[at].told;
        let subject = given.subject.filter(|_| told.len() < MAX_TOLD);
        told.extend(subject.map(Arc::from));
        known[at].name.clone()
    };

    given.iter().map(&mut fold_one).collect()
}

/// The share of letters that two names have in common.
#[expect(clippy::cast_precision_loss, reason = "names are short")]
fn same_letters(one: &str, other: &str) -> f32 {
    let letters = |name: &str| -> HashSet<char> { name_key(name).chars().collect() };
    let (one, other) = (letters(one), letters(other));
    let all = one.union(&other).count().max(1);
    one.intersection(&other).count() as f32 / all as f32
}

fn cosine(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(names: &[&str]) -> Vec<Candidate> {
        let candidate = |name: &&str| Candidate {
            name: (*name).to_owned(),
            told: Vec::new(),
        };
        names.iter().map(candidate).collect()
    }

    fn folded(given: &GivenName<'_>, candidates: &[Candidate], must_fit: bool) -> Option<usize> {
        fold(given, candidates, must_fit, &mut Vectors::default())
    }

    #[test]
    fn names_that_mean_the_same_are_one() {
        let fields = candidates(&["Finance", "Automotive", "Recipes", "Animals", "Medical"]);
        for (name, wanted) in [
            ("Vehicle", Some(1)),
            ("Cooking", Some(2)),
            ("Pet", Some(3)),
            ("Health", Some(4)),
            ("Music", None),
            ("Travel", None),
            ("Gardening", None),
        ] {
            let given = GivenName {
                name,
                subject: None,
                level: 1,
            };
            assert_eq!(folded(&given, &fields, false), wanted, "{name}");
            assert!(folded(&given, &fields, true).is_some());
        }

        let none = GivenName {
            name: "Vehicle",
            subject: None,
            level: 1,
        };
        assert_eq!(folded(&none, &[], true), None);
    }

    #[test]
    fn names_that_were_given_together_become_one() {
        let given = ["Vehicle", "Music", "vehicle", "Automotive"].map(|name| GivenName {
            name,
            subject: None,
            level: 1,
        });
        let mut known = Vec::new();
        let names = fold_together(&given, &mut known);
        assert_eq!(names, ["Vehicle", "Music", "Vehicle", "Vehicle"]);
        let later = GivenName {
            name: "Automotive",
            subject: None,
            level: 1,
        };
        assert_eq!(fold_together(&[later], &mut known), ["Vehicle"]);
        assert_eq!(known.len(), 2);
    }

    #[test]
    fn names_in_an_unknown_language_are_one_only_if_they_are_equal() {
        for (names, name) in [
            (["Финансы", "Здоровье"], "Кулинария"),
            (["Οικονομικά", "Υγεία"], "Μαγειρική"),
            (["财务", "健康"], "烹饪"),
        ] {
            let given = GivenName {
                name,
                subject: Some(name),
                level: 1,
            };
            let fields = candidates(&names);
            assert_eq!(folded(&given, &fields, false), None, "{name}");
            assert!(folded(&given, &fields, true).is_some());
        }

        let given = GivenName {
            name: "健康保健",
            subject: None,
            level: 1,
        };
        let fields = candidates(&["财务", "健康", "烹饪"]);
        assert_eq!(folded(&given, &fields, true), Some(1), "by its letters");
    }

    #[test]
    fn a_near_subject_makes_up_for_a_less_similar_name() {
        let given = GivenName {
            name: "Banking",
            subject: Some("monthly account statement"),
            level: 1,
        };
        let mut fields = candidates(&["Finance", "Music"]);
        assert_eq!(folded(&given, &fields, false), None);
        fields[0].told = vec!["statement of the account".into()];
        assert_eq!(folded(&given, &fields, false), Some(0));
    }
}
