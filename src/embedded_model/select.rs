//! Selects the categories that are likely to contain the answer to a query: by their names, and by
//! samples of their chunks if there are any. Guarantees unique labels, best first, and as many as
//! allowed: a superfluous path costs little, a missing one costs the answer.

use super::meaning::Choice;
use super::rank::{Rarity, Terms, relevance};
use super::table;
use crate::model::category::CategoryContents;

/// Weight of the name of a category compared with its samples.
const NAME: f32 = 0.5;

/// The best options as (label, relevance); the relevance starts at the number of allowed options
/// and falls by 1.
pub fn select(
    query: &str,
    options: &[&str],
    contents: &[CategoryContents],
    at_most: usize,
) -> Vec<(String, u32)> {
    let mut unique: Vec<(&str, Option<&CategoryContents>)> = Vec::new();
    for (place, option) in options.iter().enumerate() {
        if !unique.iter().any(|(known, _)| known == option) {
            unique.push((option, contents.get(place)));
        }
    }

    let question = Terms::of(query);
    let labels: Vec<Terms> = unique.iter().map(|(option, _)| Terms::of(option)).collect();
    let rarity = Rarity::of(labels.iter());
    let insides = insides(&question, &unique);
    let mut scored: Vec<(bool, f32, &str)> = Vec::new();

    for (((option, contents), terms), inside) in unique.iter().zip(&labels).zip(insides) {
        let name = by_name(&rarity, &question, option, terms);
        let score = inside.map_or(name, |inside| NAME * name + inside);

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

fn by_name(rarity: &Rarity, question: &Terms, option: &str, terms: &Terms) -> f32 {
    let meaning = table::dot(&Choice::new(option).vector, &question.vector);
    let literal = table::dot(&terms.vector, &question.vector);

    // A label is short, so any of its words in the query is strong evidence.
    meaning.max(literal) + 0.3 * rarity.shared(terms, question)
}

/// How well the best two chunks of each category match the query; none if no chunk is known.
fn insides(question: &Terms, options: &[(&str, Option<&CategoryContents>)]) -> Vec<Option<f32>> {
    let read = |contents: &&CategoryContents| {
        contents
            .spread
            .iter()
            .map(|text| Terms::of(text))
            .collect::<Vec<_>>()
    };

    let texts: Vec<Vec<Terms>> = options
        .iter()
        .map(|(_, contents)| contents.as_ref().map(read).unwrap_or_default())
        .collect();

    let rarity = Rarity::of(texts.iter().flatten());
    let best = |texts: &Vec<Terms>| {
        let mut scores: Vec<f32> = texts
            .iter()
            .map(|text| relevance(&rarity, question, text))
            .collect();

        scores.sort_by(|one, other| other.total_cmp(one));
        let first = scores.first().copied()?;
        Some(f32::midpoint(
            first,
            scores.get(1).copied().unwrap_or(first),
        ))
    };

    texts.iter().map(best).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let chosen = select(question, &options, &[], 3);
            if chosen[0].0 == wanted {
                right += 1;
            }

            assert_eq!(chosen[0].1, 3);
        }

        assert!(right >= 13, "{right} of 15");
    }

    #[test]
    fn handles_empty_duplicate_and_unknown_input() {
        assert!(select("x", &[], &[], 3).is_empty());
        assert!(select("x", &["A"], &[], 0).is_empty());
        assert_eq!(select("", &["A", "A"], &[], 5), vec![("A".to_string(), 1)]);
        assert_eq!(select("你好", &["A", "B"], &[], 1).len(), 1);
    }

    #[test]
    fn contents_count_more_than_names_and_empty_categories_are_not_selected() {
        let holding = |texts: &[&str]| {
            let spread = texts.iter().map(|text| (*text).into()).collect();
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

        let chosen = select("What is the name of my dog?", &options, &contents, 3);
        let names: Vec<&str> = chosen.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["Sleep", "Money", "Pets"]);
    }
}
