//! Classifies messages by comparing their meaning with the words of the vocabulary. A clause in which
//! the speaker rejects something ("I don't want a refund") does not count for what it rejects; one
//! that reports that something has not happened ("It has not been shipped") does. Guarantees terms of the vocabulary only, and
//! a confidence that says how near the best term is.

use memoir_text::catch_all::{CATCH_ALL, is_catch_all};
use memoir_text::sentences;

use super::Vocabulary;
use super::profile;
use super::table::{self, Vector};

/// Similarity from which a term fits, and from which it surely does.
const FITS: f32 = 0.42;
const SURE: f32 = 0.6;
/// A further topic is not much farther than the best.
const NEAR_BEST: f32 = 0.9;
const MAX_TOPICS: usize = 3;
/// Words that deny what follows in their clause.
const DENIALS: [&str; 9] = [
    "not", "no", "never", "without", "neither", "nor", "cannot", "isn", "none",
];

/// What a speaker wants or is there for; denied, the speaker rejects it. Everything else that is
/// denied is an event or a state, and the message is about it.
const WISHES: [&str; 22] = [
    "want",
    "wanted",
    "wanting",
    "wish",
    "need",
    "needed",
    "require",
    "ask",
    "asking",
    "asked",
    "request",
    "requesting",
    "looking",
    "seeking",
    "interested",
    "here",
    "calling",
    "writing",
    "talking",
    "intend",
    "planning",
    "trying",
];
/// Words that name the purpose of a message, directly after a denial.
const PURPOSES: [&str; 3] = ["about", "for", "regarding"];
/// A wish comes so many words after its denial: "not really here".
const WISH_REACH: usize = 2;
/// Speakers who name themselves.
const SPEAKERS: [&str; 2] = ["i", "we"];

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

/// Something named in a message, with its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entity {
    pub kind: String,
    pub value: String,
}

struct Clause {
    vector: Vector,
    /// Whether the speaker rejects what it names.
    denied: bool,
}

pub fn classify(text: &str, terms: &Vocabulary<'_>) -> Classified {
    let clauses = clauses(text);
    let found = topics(&clauses, terms);
    let best = found.first().map_or(0.0, |(_, like)| *like);
    let mut topics: Vec<String> = found.into_iter().map(|(name, _)| name).collect();
    if topics.is_empty() {
        topics.push(usual_term(&clauses, terms.topics, CATCH_ALL));
    }

    let asks = text.trim_end().ends_with(['?', '？']);
    let entities = entities(text, terms.entity_types);
    let importance = match (entities.is_empty(), text.split_whitespace().count()) {
        (false, _) => 0.6,
        (true, ..4) => 0.2,
        (true, _) => 0.5,
    };

    Classified {
        category: choose(
            &clauses,
            terms.categories,
            if asks { "inquiry" } else { "conversation" },
        ),
        message_type: if asks {
            usual_term(&clauses, terms.message_types, "question")
        } else {
            choose(&clauses, terms.message_types, "statement")
        },
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

pub fn analyze(query: &str, terms: &Vocabulary<'_>) -> Analyzed {
    let found = topics(&clauses(query), terms);
    let topics = found.into_iter().filter(|(_, like)| *like >= SURE);
    Analyzed {
        topics: topics
            .map(|(name, _)| name)
            .filter(|name| name != CATCH_ALL)
            .collect(),
        entities: entities(query, terms.entity_types),
        time_scope: time_scope(query),
    }
}

/// The topics that the clauses are about and do not deny, nearest first.
fn topics(clauses: &[Clause], terms: &Vocabulary<'_>) -> Vec<(String, f32)> {
    let mut found: Vec<(String, f32)> = Vec::new();
    for name in terms.topics {
        let own = meaning(name);
        let nearest = |denied: bool| {
            let those = clauses.iter().filter(|clause| clause.denied == denied);
            those
                .map(|clause| table::dot(&own, &clause.vector))
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
    let said = clauses.iter().filter(|clause| !clause.denied);
    let near = said.flat_map(|clause| {
        terms
            .iter()
            .map(|name| (table::dot(&meaning(name), &clause.vector), name))
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

/// The clauses of a text, each with its meaning and whether it rejects what it names.
fn clauses(text: &str) -> Vec<Clause> {
    let parts = sentences::split(text)
        .into_iter()
        .flat_map(|sentence| sentence.split([',', ';', ':', '—', '–']))
        .flat_map(|part| part.split(" but "))
        .filter(|part| !part.trim().is_empty());

    parts
        .map(|part| Clause {
            vector: profile::vector_of(part),
            denied: rejects(part),
        })
        .collect()
}

/// Whether the speaker of a clause rejects what it names: it begins with a denial ("No refund"),
/// denies a purpose ("This is not about the refund"), or denies a wish of the speaker.
fn rejects(part: &str) -> bool {
    let lower = part.to_lowercase().replace('’', "'");
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_alphanumeric() && c != '\'')
        .filter(|word| !word.is_empty())
        .collect();
    let Some(at) = words.iter().position(|word| is_denial(word)) else {
        return false;
    };

    let (before, after) = (&words[..at], &words[at + 1..]);
    let has_purpose = after.first().is_some_and(|word| PURPOSES.contains(word));
    let speaks = before.iter().any(|word| {
        let subject = word.split('\'').next().unwrap_or_default();
        SPEAKERS.contains(&subject)
    });
    let mut near = after.iter().take(WISH_REACH);

    before.is_empty() || has_purpose || speaks && near.any(|word| WISHES.contains(word))
}

fn is_denial(word: &str) -> bool {
    DENIALS.contains(&word) || word.ends_with("n't")
}

/// Things that a text names by their form.
fn entities(text: &str, types: &[String]) -> Vec<Entity> {
    let mut found: Vec<Entity> = Vec::new();
    let offered = |kind: &str| types.iter().any(|one| one == kind);
    for word in text.split_whitespace() {
        let word = word
            .trim_matches(|c: char| ",;:!?()[]\"'“”".contains(c))
            .trim_end_matches('.');
        let kind = kind_of(word).filter(|kind| offered(kind));
        if let Some(kind) = kind
            && !found.iter().any(|entity| entity.value == word)
        {
            found.push(Entity {
                kind: kind.to_owned(),
                value: word.to_owned(),
            });
        }
    }

    found
}

fn kind_of(word: &str) -> Option<&'static str> {
    let digits = word.chars().filter(char::is_ascii_digit).count();
    let rest = |first: char| word.strip_prefix(first);
    if rest('#').is_some_and(|rest| {
        digits > 0 && rest.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    }) {
        return Some("order_id");
    }

    if word.starts_with(['$', '€', '£', '¥']) && digits > 0 {
        return Some("amount");
    }

    let mail = word
        .split_once('@')
        .is_some_and(|(name, host)| !name.is_empty() && host.contains('.'));
    if mail {
        return Some("email");
    }

    let parts: Vec<&str> = word.split('-').collect();
    if let [year, month, day] = parts.as_slice()
        && (year.len(), month.len(), day.len()) == (4, 2, 2)
        && digits == 8
    {
        return Some("date");
    }

    let dials = word
        .chars()
        .all(|c| c.is_ascii_digit() || "+-()".contains(c));
    (dials && digits >= 9 && word.starts_with('+')).then_some("phone")
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
    fn a_speaker_rejects_what_they_do_not_want() {
        for clause in [
            "I don't want a refund",
            "I'm not here about the refund",
            "we are not really looking for a refund",
            "I never asked for a refund",
            "this is not about billing",
            "No refund please",
            "not a return",
            "don’t cancel my order",
        ] {
            assert!(rejects(clause), "{clause}");
        }

        for clause in [
            "My parcel has not been shipped yet",
            "I cannot log in to my account",
            "I have not received my refund",
            "The payment didn't go through",
            "I have no access to my account",
            "I need to know why it was never delivered",
            "it won't let me request a return",
            "the lamp doesn't work after the update",
            "I want a refund",
        ] {
            assert!(!rejects(clause), "{clause}");
        }
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
