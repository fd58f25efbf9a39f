//! Picks the categories in which the answer to a question is likely to stand.
//! Promises unique labels in falling relevance, best first, and at least one
//! whenever there are options and room.

use super::meaning::Choice;
use super::rank::{Rarity, Terms};
use super::table;

/// Below this likeness, and below `SHARE` of the best, an option is left out.
const FLOOR: f32 = 0.12;
const SHARE: f32 = 0.4;

/// The best options as (label, relevance), relevance running down from the
/// number of places; clearly irrelevant ones are left out.
pub fn select(query: &str, options: &[&str], at_most: usize) -> Vec<(String, u32)> {
    let mut unique: Vec<&str> = Vec::new();
    for option in options {
        if !unique.contains(option) {
            unique.push(option);
        }
    }
    let question = Terms::of(query);
    let labels: Vec<Terms> = unique.iter().map(|o| Terms::of(o)).collect();
    let rarity = Rarity::of(labels.iter());
    let mut scored: Vec<(f32, &str)> =
        unique.iter().zip(&labels).map(|(option, terms)| (score(&rarity, &question, option, terms), *option)).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    let places = at_most.min(unique.len());
    let best = scored.first().map_or(0.0, |(score, _)| *score);
    let fit = |at: usize, score: f32| at == 0 || score >= FLOOR || score >= SHARE * best;
    let chosen = scored.iter().take(places).enumerate().filter(|(at, (score, _))| fit(*at, *score));
    chosen.map(|(at, (_, option))| ((*option).to_string(), u32::try_from(places - at).unwrap_or(u32::MAX))).collect()
}

fn score(rarity: &Rarity, question: &Terms, option: &str, terms: &Terms) -> f32 {
    let meaning = table::dot(&Choice::new(option).vector, &question.vector);
    let literal = table::dot(&terms.vector, &question.vector);
    // A label is short: any of its words in the question is strong evidence.
    meaning.max(literal) + 0.3 * rarity.shared(terms, question)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Question, right category, wrong categories.
    const QUESTIONS: [(&str, &str, &str); 15] = [
        ("How do I boil an egg?", "Cooking", "Law, Space flight, Banking, Football, Poetry, Car repairs, Gardening"),
        ("When did the rocket reach the moon?", "Space flight", "Cooking, Tax, Dogs, Opera, Skiing, Plumbing, Grammar"),
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
        ("Who won the election in Ohio?", "Politics", "Cars, Chemistry, Movies, Gardening, Shoes, Algebra, Music"),
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
        ("How do I write a SQL join?", "Databases", "Baking, Fishing, Divorce, Opera, Airlines, Mortgages, Yoga"),
        ("My puppy will not eat", "Pets", "Stocks, Guitars, Physics, Courts, Hotels, Chess, Printers"),
        ("Can my landlord raise the rent?", "Renting", "Astronomy, Hockey, Vitamins, Jazz, Modems, Trees, Ships"),
        ("Where can I book a room in Rome?", "Hotels", "Encryption, Cancer, Poetry, Tennis, Taxes, Bridges, Cheese"),
        ("How is a black hole formed?", "Astronomy", "Shoes, Payroll, Rugby, Sewing, Contracts, Dogs, Coffee"),
        ("I forgot my password", "Account access", "Recipes, Birds, Mountains, Theatre, Wine, Geometry, Boats"),
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
    fn ordinary_questions_find_their_category() {
        let mut right = 0;
        for (question, wanted, others) in QUESTIONS {
            let mut options: Vec<&str> = others.split(", ").collect();
            options.insert(3, wanted);
            let chosen = select(question, &options, 3);
            if chosen[0].0 == wanted {
                right += 1;
            }
            assert_eq!(chosen[0].1, 3);
        }
        assert!(right >= 13, "{right} of 15");
    }

    #[test]
    fn edges() {
        assert!(select("x", &[], 3).is_empty());
        assert!(select("x", &["A"], 0).is_empty());
        assert_eq!(select("", &["A", "A"], 5), vec![("A".to_string(), 1)]);
        assert_eq!(select("你好", &["A", "B"], 1).len(), 1);
    }
}
