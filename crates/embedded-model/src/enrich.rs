//! Classifies messages by comparing their meaning with the words of the vocabulary: the names of its
//! terms and, for terms of a preset, the words by which it is recognised. A clause that the speaker
//! rejects does not count for what it rejects (`denials.rs`). Guarantees terms of the vocabulary only,
//! and a confidence that says how near the best term is.

use std::collections::HashSet;

use memoir_text::catch_all::{CATCH_ALL, is_catch_all};
use memoir_text::presets::{Preset, Term};

use super::Vocabulary;
use super::denials;
use super::entities::{self, Entity};
use super::profile;
use super::rank;
use super::table::{self, Vector};
use super::term_words::{Meaning, said_in};

/// Similarity from which a term fits, and from which it surely does.
const FITS: f32 = 0.42;
const SURE: f32 = 0.6;
/// A further topic is not much farther than the best.
const NEAR_BEST: f32 = 0.9;
const MAX_TOPICS: usize = 3;

/// What a message is about.
#[derive(Debug, Clone, PartialEq)]
pub struct Classified {
    pub topics: Vec<String>,
    pub category: String,
    pub message_type: String,
    pub entities: Vec<Entity>,
    pub importance: f64,
    pub confidence: &'static str,
}

/// What a question is about.
#[derive(Debug, Clone, PartialEq)]
pub struct Analyzed {
    pub topics: Vec<String>,
    pub entities: Vec<Entity>,
    pub time_scope: &'static str,
}

/// A clause with its meaning.
struct Clause {
    vector: Vector,
    stems: HashSet<String>,
    /// Whether the speaker rejects what it names.
    denied: bool,
}

pub fn classify(text: &str, terms: &Vocabulary<'_>) -> Classified {
    let clauses = clauses(text, terms.topics);
    let found = topics(&clauses, terms);
    let best = found.first().map_or(0.0, |(_, like)| *like);
    let mut topics: Vec<String> = found.into_iter().map(|(name, _)| name).collect();
    if topics.is_empty() {
        topics.push(usual_term(&clauses, terms.topics, CATCH_ALL));
    }

    let asks = text.trim_end().ends_with(['?', '？']);
    let entities = entities::find(text, terms.entity_types);
    let importance = match (entities.is_empty(), text.split_whitespace().count()) {
        (false, _) => 0.6,
        (true, ..4) => 0.2,
        (true, _) => 0.5,
    };

    // A question about a plan is no plan.
    let said = |names: &[String], list: fn(&Preset) -> &[Term]| {
        said_in(text, names, list).filter(|_| !asks).cloned()
    };
    let usual = if asks { "inquiry" } else { "conversation" };
    let category = said(terms.categories, |preset| &preset.categories)
        .unwrap_or_else(|| choose(&clauses, terms.categories, usual));
    let message_type = if asks {
        usual_term(&clauses, terms.message_types, "question")
    } else {
        said(terms.message_types, |preset| &preset.message_types)
            .unwrap_or_else(|| choose(&clauses, terms.message_types, "statement"))
    };

    Classified {
        category,
        message_type,
        topics,
        entities,
        importance,
        confidence: match best {
            SURE.. => "high",
            FITS.. => "medium",
            _ => "low",
        },
    }
}

/// Whether a topic fits, and not only the one for everything else.
pub fn fits(text: &str, terms: &Vocabulary<'_>) -> bool {
    let found = topics(&clauses(text, terms.topics), terms);
    found.iter().any(|(name, _)| !is_catch_all(name))
}

pub fn analyze(query: &str, terms: &Vocabulary<'_>) -> Analyzed {
    let found = topics(&clauses(query, terms.topics), terms);
    let topics = found.into_iter().filter(|(_, like)| *like >= SURE);
    Analyzed {
        topics: topics
            .map(|(name, _)| name)
            .filter(|name| name != CATCH_ALL)
            .collect(),
        entities: entities::find(query, terms.entity_types),
        time_scope: time_scope(query),
    }
}

/// The topics that the clauses are about and do not deny, nearest first.
fn topics(clauses: &[Clause], terms: &Vocabulary<'_>) -> Vec<(String, f32)> {
    let mut found: Vec<(String, f32)> = Vec::new();
    for name in terms.topics {
        let own = Meaning::of_topic(name);
        let nearest = |denied: bool| {
            let those = clauses.iter().filter(|clause| clause.denied == denied);
            those
                .map(|clause| own.likeness(&clause.vector, &clause.stems))
                .fold(0.0, f32::max)
        };

        let (said, denied) = (nearest(false), nearest(true));
        if said >= FITS && said > denied {
            found.push((name.clone(), said));
        }
    }

    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    let best = found.first().map_or(0.0, |(_, like)| *like);
    found.retain(|(_, like)| *like >= best * NEAR_BEST);
    found.truncate(MAX_TOPICS);
    found
}

/// The nearest term; the usual one if none is near.
fn choose(clauses: &[Clause], terms: &[String], usual: &str) -> String {
    match nearest(clauses, terms) {
        Some((like, name)) if like >= SURE => name.clone(),
        _ => usual_term(clauses, terms, usual),
    }
}

/// The term that what the speaker does not reject is most similar to.
fn nearest<'t>(clauses: &[Clause], terms: &'t [String]) -> Option<(f32, &'t String)> {
    let meanings: Vec<(Vector, &String)> = terms.iter().map(|name| (meaning(name), name)).collect();
    let said = clauses.iter().filter(|clause| !clause.denied);
    let near = said.flat_map(|clause| {
        let each = meanings.iter();
        each.map(|(own, name)| (table::dot(own, &clause.vector), *name))
    });

    near.reduce(|best, next| if next.0 > best.0 { next } else { best })
}

/// The term if none is near: the usual one. A vocabulary of the user's own may lack it; then one
/// that stands for everything else, or the nearest.
fn usual_term(clauses: &[Clause], terms: &[String], usual: &str) -> String {
    let known = terms.iter().find(|name| *name == usual);
    let rest = || terms.iter().find(|name| is_catch_all(name));
    let near = || nearest(clauses, terms).map(|(_, name)| name);
    let term = known.or_else(rest).or_else(near).or_else(|| terms.last());
    term.cloned().unwrap_or_default()
}

fn meaning(name: &str) -> Vector {
    profile::vector_of(&name.replace(['_', '-'], " "))
}

/// The clauses of a text, each with its meaning and whether it is rejected.
fn clauses(text: &str, topics: &[String]) -> Vec<Clause> {
    let stems: HashSet<String> = topics.iter().flat_map(|name| rank::stems(name)).collect();
    let is_topic = |word: &str| stems.contains(&rank::stem(word));
    let all = denials::clauses(text, is_topic).into_iter();
    all.map(|clause| Clause {
        vector: profile::vector_of(clause.text),
        stems: rank::stems(clause.text),
        denied: clause.denied,
    })
    .collect()
}

/// The time that a question names.
fn time_scope(query: &str) -> &'static str {
    let query = query.to_lowercase();
    let phrases = [
        ("yesterday", "yesterday"),
        ("today", "today"),
        ("last week", "last_week"),
        ("last month", "last_month"),
    ];

    let named = phrases.iter().find(|(words, _)| query.contains(words));
    named.map_or("all", |(_, scope)| scope)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists as a space has them that chose none of its own.
    struct Lists([Vec<String>; 4]);

    impl Lists {
        fn new() -> Self {
            let list = |names: &str| names.split(' ').map(str::to_owned).collect();
            Self([
                list(
                    "refund shipping account_access billing product_issue cancellation order_status \
                     payment returns technical_support pricing subscription general_inquiry",
                ),
                list(
                    "support_request complaint inquiry feedback transaction escalation conversation",
                ),
                list("question statement request confirmation follow_up clarification"),
                list("order_id product_name person_name date amount tracking_number email phone"),
            ])
        }

        fn terms(&self) -> Vocabulary<'_> {
            let [topics, categories, message_types, entity_types] = &self.0;
            Vocabulary {
                topics,
                categories,
                message_types,
                entity_types,
            }
        }
    }

    #[test]
    fn a_denied_topic_is_not_the_topic() {
        let lists = Lists::new();
        let terms = lists.terms();
        for text in [
            "I'm not here about the refund, I just want to understand your policy",
            "I don't want a refund, I want to understand the policy",
            "I'm not here for a refund, I need understanding",
        ] {
            let found = classify(text, &terms);
            assert!(
                !found.topics.contains(&"refund".to_owned()),
                "{text}: {found:?}"
            );
            assert!(!analyze(text, &terms).topics.contains(&"refund".to_owned()));
        }
    }

    #[test]
    fn what_fits_no_topic_gets_the_one_for_everything_else() {
        let lists = Lists::new();
        let topics = ["shopping", "other", "travel", "tax evasion"].map(str::to_owned);
        let terms = Vocabulary {
            topics: &topics,
            ..lists.terms()
        };
        let found = classify("The weather is nice today.", &terms);
        assert_eq!(found.topics, ["other"]);

        // Without such a topic, the nearest one, and not whichever is last.
        let topics = ["ships", "tax evasion"].map(str::to_owned);
        let terms = Vocabulary {
            topics: &topics,
            ..lists.terms()
        };
        let found = classify("When does the ferry leave?", &terms);
        assert_eq!(
            (found.topics, found.confidence),
            (vec!["ships".to_owned()], "low")
        );
    }

    #[test]
    fn what_has_not_happened_is_still_the_topic() {
        let lists = Lists::new();
        let terms = lists.terms();
        for (text, topics) in [
            (
                "My parcel has not been shipped yet",
                &["shipping", "order_status"][..],
            ),
            ("The refund has not arrived", &["refund"]),
            ("I have not received my refund", &["refund"]),
            ("My payment didn't go through", &["payment"]),
            ("I cannot access my account", &["account_access"]),
            (
                "The subscription was never cancelled",
                &["subscription", "cancellation"],
            ),
        ] {
            let found = classify(text, &terms);
            let fits = |topic: &String| topics.contains(&topic.as_str());
            assert!(found.topics.iter().any(fits), "{text}: {found:?}");
        }
    }

    #[test]
    fn plain_messages_get_their_topic() {
        let lists = Lists::new();
        let terms = lists.terms();
        for (text, topic) in [
            ("Please give me a refund for this order", "refund"),
            ("I want my money refunded", "refund"),
            ("How much does the subscription cost?", "subscription"),
            ("When will the shipping of my parcel be done", "shipping"),
            ("My payment by credit card failed", "payment"),
        ] {
            let found = classify(text, &terms);
            assert!(
                found.topics.contains(&topic.to_owned()),
                "{text}: {found:?}"
            );
        }
    }

    #[test]
    fn things_are_named_by_their_form() {
        let lists = Lists::new();
        let terms = lists.terms();
        let found = classify("Order #1234 cost $99.00, write to a@b.org.", &terms).entities;
        let found: Vec<(&str, &str)> = found
            .iter()
            .map(|one| (one.kind.as_str(), one.value.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                ("order_id", "#1234"),
                ("amount", "$99.00"),
                ("email", "a@b.org")
            ]
        );
    }

    #[test]
    fn any_text_gets_a_valid_answer() {
        let lists = Lists::new();
        let terms = lists.terms();
        for text in ["", "ok", "你好", "???", "#", "- - -", &"x".repeat(5000)] {
            let found = classify(text, &terms);
            assert!((1..=3).contains(&found.topics.len()));
            assert!(terms.categories.contains(&found.category));
            assert!(terms.message_types.contains(&found.message_type));
        }
    }
}
