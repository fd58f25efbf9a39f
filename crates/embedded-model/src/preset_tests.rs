//! How well the topics of the presets are recognised: sentences with which the words of the topics
//! were not tuned, each with the topics that a reader would accept.

use memoir_text::presets;

use super::Vocabulary;
use super::enrich::{Classified, classify};

const PERSONAL: &[(&str, &str)] = &[
    ("My grandmother turns eighty in March", "family"),
    ("The twins started walking yesterday", "family"),
    (
        "My best friend just broke up with her boyfriend",
        "relationships",
    ),
    ("I went to the dentist this morning", "health"),
    (
        "I have been taking blood pressure tablets since spring",
        "health",
    ),
    ("The doctor said my knee needs surgery", "health"),
    ("I baked a loaf of rye bread on Sunday", "food"),
    ("We had sushi at a little place by the canal", "food"),
    ("I ran a half marathon in under two hours", "sports"),
    ("My climbing shoes are worn out", "sports"),
    ("The washing machine is leaking again", "home"),
    ("We are looking for a bigger apartment", "home"),
    ("I put two hundred euros aside every month", "money"),
    ("The bank refused our mortgage", "money"),
    ("My manager gave me a promotion", "work"),
    ("I start my new job on Monday", "work"),
    ("I have an exam in statistics next week", "learning"),
    ("I'm trying to learn Portuguese", "learning"),
    ("We booked a flight to Iceland", "travel"),
    ("The hotel in Rome was awful", "travel"),
    ("My car failed its inspection", "transport"),
    ("I take the tram to the office", "transport"),
    ("I play the cello in an amateur orchestra", "hobbies"),
    ("Last night I watched a documentary about whales", "media"),
    ("I'm reading a novel by Elena Ferrante", "media"),
    ("The tomatoes on my balcony have blight", "nature"),
    ("It has been raining for days", "nature"),
    ("Our puppy chewed my slippers", "pets"),
    ("The cat needs her vaccination", "pets"),
    ("I bought a winter coat in the sale", "shopping"),
    ("My laptop won't start anymore", "technology"),
    ("The wifi drops every evening", "technology"),
    ("I feel so lonely since the move", "feelings"),
    ("I can't sleep because I worry too much", "feelings"),
    ("We are planning a surprise party for Tom", "plans"),
    ("I sing in the church choir", "hobbies|beliefs"),
    ("I voted for the first time", "beliefs"),
    ("Hm, okay then", "general"),
    ("Thanks, that was useful", "general"),
];

const PROJECT: &[(&str, &str)] = &[
    (
        "The acceptance criteria for the export story are missing",
        "requirements",
    ),
    (
        "We should split the monolith into three components",
        "design",
    ),
    (
        "The buttons on the settings page are too small on phones",
        "user_interface",
    ),
    ("The endpoint returns 404 instead of 204", "api"),
    (
        "I refactored the parser into its own module",
        "implementation|design",
    ),
    ("The migration adds a column to the orders table", "data"),
    ("Half of the integration tests are flaky", "testing"),
    ("The app crashes when the list is empty", "bugs"),
    (
        "Startup takes eleven seconds since the last change",
        "performance",
    ),
    ("Our login tokens never expire", "security"),
    ("Version 2.3 goes to production on Thursday", "deployment"),
    (
        "The disk of the staging machine was full last night",
        "operations|deployment",
    ),
    ("Nobody has updated the readme", "documentation"),
    (
        "We are still on an old version of the library",
        "dependencies",
    ),
    ("Let's move the milestone to the end of June", "planning"),
    ("Priya joins the team as a designer", "team"),
    ("The retrospective is at four", "meetings"),
    ("The customer complained about the reports", "customers"),
    ("Hosting costs us nine hundred euros a month", "costs"),
    (
        "In our experiment the larger model was no more accurate",
        "research",
    ),
    ("Good morning everyone", "general"),
];

/// How a preset classifies sentences.
fn classified(preset: &str, sentences: &[&str]) -> Vec<Classified> {
    let preset = presets::find(preset).unwrap();
    let list = |terms: &[presets::Term]| -> Vec<String> {
        terms.iter().map(|term| term.name.to_owned()).collect()
    };
    let (topics, categories) = (list(&preset.topics), list(&preset.categories));
    let (message_types, entity_types) = (list(&preset.message_types), list(&preset.entity_types));
    let terms = Vocabulary {
        topics: &topics,
        categories: &categories,
        message_types: &message_types,
        entity_types: &entity_types,
    };

    let each = sentences.iter().map(|text| classify(text, &terms));
    each.collect()
}

#[test]
fn most_everyday_sentences_get_their_topic() {
    for (preset, sentences) in [("personal", PERSONAL), ("project", PROJECT)] {
        let texts: Vec<&str> = sentences.iter().map(|(text, _)| *text).collect();
        let found = classified(preset, &texts);
        let missed = sentences
            .iter()
            .zip(&found)
            .filter(|((_, accepted), found)| {
                let mut accepted = accepted.split('|');
                !accepted.any(|one| found.topics[0] == one)
            });
        let missed: Vec<String> = missed
            .map(|((text, accepted), found)| format!("{text}: {:?}, not {accepted}", found.topics))
            .collect();
        assert!(missed.len() * 5 <= sentences.len(), "{preset}: {missed:#?}");
    }
}

#[test]
fn phrases_tell_the_category_and_the_type() {
    for (preset, text, category, message_type) in [
        (
            "personal",
            "I'm going to visit my aunt in autumn.",
            "plan",
            "statement",
        ),
        (
            "personal",
            "We had dinner by the sea.",
            "experience",
            "statement",
        ),
        ("personal", "I prefer tea", "opinion", "statement"),
        (
            "personal",
            "I live in a small flat.",
            "about_me",
            "statement",
        ),
        (
            "personal",
            "Could you recommend a book",
            "request",
            "request",
        ),
        (
            "personal",
            "Are you going to rain on us?",
            "inquiry",
            "question",
        ),
        (
            "personal",
            "Don’t forget the milk!",
            "conversation",
            "reminder",
        ),
        (
            "project",
            "We decided to drop the feature.",
            "decision",
            "decision",
        ),
        ("project", "The parser is done.", "status", "update"),
        ("project", "What if we used a queue?", "inquiry", "question"),
        (
            "support",
            "I think we decided to go.",
            "conversation",
            "statement",
        ),
    ] {
        let found = classified(preset, &[text]).remove(0);
        assert_eq!(
            (found.category.as_str(), found.message_type.as_str()),
            (category, message_type),
            "{text}"
        );
    }
}
