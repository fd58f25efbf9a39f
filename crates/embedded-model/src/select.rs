//! Selects the categories that are likely to contain the answer to a query: by their names, and by
//! what a search found in them or samples of their chunks, if there are any. Guarantees unique labels, best first, and as many as
//! allowed: a superfluous path costs little, a missing one costs the answer.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use hashlink::LruCache;

use super::contents::{CategoryContents, Gist};
use super::hash;
use super::meaning::Choice;
use super::rank::{Rarity, Terms, weight};
use super::table::{self, Vector};

/// Labels of options that are kept.
const KEPT: usize = 2048;

/// Weight of the name of a category compared with its samples.
const NAME: f32 = 0.5;
/// Weight of the name compared with what a search found in the category.
const NAME_BESIDE_FOUND: f32 = 0.03;

/// The best options as (label, relevance); the relevance starts at the number of allowed options
/// and falls by 1. What is known of them, if anything, is in their order: how well the best chunks
/// in each match the query, or some chunks of each.
pub fn select(
    query: &str,
    options: &[&str],
    (found, contents): (&[f32], &[CategoryContents]),
    at_most: usize,
) -> Vec<(String, u32)> {
    let (mut unique, mut seen) = (Vec::with_capacity(options.len()), HashSet::new());
    let mut found_in = Vec::with_capacity(options.len());
    for (place, option) in options.iter().enumerate() {
        if seen.insert(*option) {
            unique.push((*option, contents.get(place)));
            found_in.push(found.get(place));
        }
    }

    let question = Terms::of(query);
    let names: Vec<&str> = unique.iter().map(|(option, _)| *option).collect();
    let labels = Label::of_each(&names);
    let rarity = Rarity::of(labels.iter().map(|label| &label.terms.stems));
    let insides = insides(&question, &unique);
    let mut scored: Vec<(bool, f32, &str)> = Vec::new();

    let known = insides.into_iter().zip(found_in);
    for (((option, contents), label), known) in unique.iter().zip(&labels).zip(known) {
        let name = by_name(&rarity, &question, label);
        let score = match known {
            (_, Some(found)) => NAME_BESIDE_FOUND * name + found,
            (Some(inside), None) => NAME * name + inside,
            (None, None) => name,
        };

        // An empty category contains no answer, whatever its name is.
        scored.push((
            contents.is_some_and(|contents| contents.count == 0),
            score,
            option,
        ));
    }

    scored.sort_by(|one, other| one.0.cmp(&other.0).then(other.1.total_cmp(&one.1)));
    let places = at_most.min(unique.len());
    let chosen = scored.iter().take(places).enumerate();
    chosen
        .map(|(at, (_, _, option))| {
            (
                (*option).to_string(),
                u32::try_from(places - at).unwrap_or(u32::MAX),
            )
        })
        .collect()
}

fn by_name(rarity: &Rarity, question: &Terms, label: &Label) -> f32 {
    let meaning = table::dot(&label.meaning, &question.vector);
    let literal = table::dot(&label.terms.vector, &question.vector);

    // A label is short, so any of its words in the query is strong evidence.
    meaning.max(literal) + 0.3 * rarity.shared(&label.terms, &question.stems)
}

/// What the label of an option says; kept, because every walk sees the same labels.
struct Label {
    meaning: Vector,
    terms: Terms,
}

impl Label {
    fn of_each(labels: &[&str]) -> Vec<Arc<Self>> {
        static KNOWN: LazyLock<Mutex<LruCache<String, Arc<Label>>>> =
            LazyLock::new(|| Mutex::new(LruCache::new(KEPT)));

        let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let found: Vec<Option<Arc<Self>>> = {
            let mut known = known();
            labels
                .iter()
                .map(|label| known.get(*label).map(Arc::clone))
                .collect()
        };

        // Nothing is computed while others wait for the cache.
        let mut read = Vec::new();
        let all = labels.iter().zip(found).map(|(label, found)| {
            found.unwrap_or_else(|| {
                let made = Arc::new(Self {
                    meaning: Choice::new(label).vector,
                    terms: Terms::of(label),
                });

                read.push(((*label).to_owned(), Arc::clone(&made)));
                made
            })
        });

        let all: Vec<Arc<Self>> = all.collect();
        if !read.is_empty() {
            let mut known = known();
            for (label, made) in read {
                known.insert(label, made);
            }
        }

        all
    }
}

/// How well the best two chunks of each category match the query; none if no chunk is known.
fn insides(question: &Terms, options: &[(&str, Option<&CategoryContents>)]) -> Vec<Option<f32>> {
    let texts: Vec<Vec<&Gist>> = options
        .iter()
        .map(|(_, contents)| contents.map(gists).unwrap_or_default())
        .collect();

    let weights = weigh(question, &texts);
    let best = |texts: &Vec<&Gist>| {
        let (mut first, mut second) = (None, None);
        for text in texts {
            let score = relevance(&weights, question, text);
            if first.is_none_or(|first| score > first) {
                (first, second) = (Some(score), first);
            } else if second.is_none_or(|second| score > second) {
                second = Some(score);
            }
        }

        first.map(|first| f32::midpoint(first, second.unwrap_or(first)))
    };

    texts.iter().map(best).collect()
}

fn gists(contents: &CategoryContents) -> Vec<&Gist> {
    let texts = contents.spread.iter();
    texts.map(|sample| sample.gist()).collect()
}

pub fn gist(text: &str) -> Gist {
    let terms = Terms::of(text);
    let mut stems: Vec<u64> = terms.stems.iter().map(|stem| hash::mix(0, stem)).collect();
    stems.sort_unstable();
    stems.dedup();
    Gist {
        stems,
        vector: terms.vector.to_vec(),
    }
}

/// The stems of the question, and how much each of them counts: rare ones more.
fn weigh(question: &Terms, texts: &[Vec<&Gist>]) -> Vec<(u64, f32)> {
    let mut stems: Vec<&String> = question.stems.iter().collect();
    // The sum of weights must not depend on the order in a set.
    stems.sort();

    let total: usize = texts.iter().map(Vec::len).sum();
    let weigh = |stem: &String| {
        let key = hash::mix(0, stem);
        let holds = |text: &&&Gist| text.stems.binary_search(&key).is_ok();
        let seen = texts.iter().flatten().filter(holds).count();
        (key, weight(stem, seen, total))
    };

    stems.into_iter().map(weigh).collect()
}

/// As [`super::rank::relevance`], for a text whose gist is kept.
fn relevance(weights: &[(u64, f32)], question: &Terms, text: &Gist) -> f32 {
    let (mut have, mut all) = (0.0, 0.0);
    for (stem, weight) in weights {
        all += weight;
        if text.stems.binary_search(stem).is_ok() {
            have += weight;
        }
    }

    let shared = if all > 0.0 { have / all } else { 0.0 };
    let vector = text.vector.as_slice().try_into().unwrap_or(&table::ZERO);
    let meaning = table::dot(&question.vector, vector).max(0.0);
    0.5 * shared + 0.5 * meaning
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SampleText;
    use crate::rank;

    /// Query, right category, wrong categories.
    const QUESTIONS: [(&str, &str, &str); 15] = [
        (
            "How do I boil an egg?",
            "Cooking",
            "Law, Space flight, Banking, Football, Poetry, Car repairs, Gardening",
        ),
        (
            "When did the rocket reach the moon?",
            "Space flight",
            "Cooking, Tax, Dogs, Opera, Skiing, Plumbing, Grammar",
        ),
        (
            "What is my credit card limit?",
            "Payment cards",
            "Pets, Physics, Novels, Hiking, Elections, Dentistry, Trains",
        ),
        (
            "Why does my engine make a noise?",
            "Car repairs",
            "Banking, Bible study, Tennis, Recipes, Poems, Insects, Hotels",
        ),
        (
            "Who won the election in Ohio?",
            "Politics",
            "Cars, Chemistry, Movies, Gardening, Shoes, Algebra, Music",
        ),
        (
            "Which vaccine should my baby get?",
            "Health",
            "Travel, Finance, Software, Sport, History, Furniture, Weather",
        ),
        (
            "Will it rain tomorrow?",
            "Weather forecasts",
            "Law, Cooking, Databases, Football, Investing, Painting, Religion",
        ),
        (
            "How do I write a SQL join?",
            "Databases",
            "Baking, Fishing, Divorce, Opera, Airlines, Mortgages, Yoga",
        ),
        (
            "My puppy will not eat",
            "Pets",
            "Stocks, Guitars, Physics, Courts, Hotels, Chess, Printers",
        ),
        (
            "Can my landlord raise the rent?",
            "Renting",
            "Astronomy, Hockey, Vitamins, Jazz, Modems, Trees, Ships",
        ),
        (
            "Where can I book a room in Rome?",
            "Hotels",
            "Encryption, Cancer, Poetry, Tennis, Taxes, Bridges, Cheese",
        ),
        (
            "How is a black hole formed?",
            "Astronomy",
            "Shoes, Payroll, Rugby, Sewing, Contracts, Dogs, Coffee",
        ),
        (
            "I forgot my password",
            "Account access",
            "Recipes, Birds, Mountains, Theatre, Wine, Geometry, Boats",
        ),
        (
            "What did Jesus say about the poor?",
            "Christianity",
            "Golf, Batteries, Insurance, Fashion, Genetics, Trains, Lawns",
        ),
        (
            "How much did the company earn last quarter?",
            "Company earnings",
            "Poems, Allergies, Cats, Camping, Photography, Islam, Pipes",
        ),
    ];

    #[test]
    fn ordinary_queries_find_their_category() {
        let mut right = 0;
        for (question, wanted, others) in QUESTIONS {
            let mut options: Vec<&str> = others.split(", ").collect();
            options.insert(3, wanted);
            let chosen = select(question, &options, (&[], &[]), 3);
            if chosen[0].0 == wanted {
                right += 1;
            }

            assert_eq!(chosen[0].1, 3);
        }

        assert!(right >= 13, "{right} of 15");
    }

    #[test]
    fn handles_empty_duplicate_and_unknown_input() {
        assert!(select("x", &[], (&[], &[]), 3).is_empty());
        assert!(select("x", &["A"], (&[], &[]), 0).is_empty());
        assert_eq!(
            select("", &["A", "A"], (&[], &[]), 5),
            vec![("A".to_string(), 1)]
        );
        assert_eq!(select("你好", &["A", "B"], (&[], &[]), 1).len(), 1);
        // What was found in a category outweighs its name.
        let found = select("red paint", &["Red paint", "Walls"], (&[0.1, 0.6], &[]), 1);
        assert_eq!(found, vec![("Walls".to_string(), 1)]);
    }

    #[test]
    fn contents_count_more_than_names_and_empty_categories_are_not_selected() {
        let holding = |texts: &[&str]| {
            let sample = |text: &&str| Arc::new(SampleText::new((*text).into()));
            let spread = texts.iter().map(sample).collect();
            CategoryContents {
                count: texts.len(),
                samples: Vec::new(),
                spread,
            }
        };

        let options = ["Pets", "Sleep", "Money"];
        let contents = [
            holding(&[]),
            holding(&["My dog is called Rex and sleeps in the kitchen."]),
            holding(&["The rent is due on the first."]),
        ];

        let chosen = select("What is the name of my dog?", &options, (&[], &contents), 3);
        let names: Vec<&str> = chosen.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["Sleep", "Money", "Pets"]);
    }

    #[test]
    fn what_is_kept_of_a_text_scores_as_the_text_itself() {
        let texts = [
            "Refunds take fourteen days.",
            "The whale was white.",
            "Money comes back in two weeks.",
            "",
        ];

        let question = Terms::of("How long does a refund take?");
        let terms: Vec<Terms> = texts.iter().map(|text| Terms::of(text)).collect();
        let all = Rarity::of(terms.iter().map(|terms| &terms.stems));
        let gists: Vec<Gist> = texts.iter().map(|text| gist(text)).collect();
        let weights = weigh(&question, &[gists.iter().collect()]);

        for (terms, gist) in terms.iter().zip(&gists) {
            let (one, other) = (
                rank::relevance(
                    all.shared(&question, &terms.stems),
                    &question,
                    &terms.vector,
                ),
                relevance(&weights, &question, gist),
            );
            assert_eq!(one.to_bits(), other.to_bits());
        }
    }
}
