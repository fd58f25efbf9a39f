//! The built-in inventory of subjects: domains and subjects with descriptive words, and the aspects that
//! texts on a subject share (`topics.txt`), words of its field (`cues.txt`), and the matters that an enquiry may be about
//! (`matters.txt`). Guarantees stable numbers, and a vector for every entry.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::cues::Cues;
use super::profile;
use super::table::{self, Vector};
use super::tokens;
use super::words;

static TOPICS: &str = include_str!("topics.txt");
static CUES: &str = include_str!("cues.txt");
static MATTERS: &str = include_str!("matters.txt");

/// How much a word that indicates an aspect says about the subject.
const OF_ASPECT: f32 = 0.4;
/// How much a word of its field (`cues.txt`) says about it.
const OF_FIELD: f32 = 0.8;

/// A subject.
#[derive(Debug, Clone)]
pub struct Topic {
    pub name: &'static str,
    /// The name as the first part of a compound: "Payment card" for "Payment cards".
    pub stem: String,
    pub domain: usize,
    /// Number of the subject it belongs to; its own number for a subject.
    pub subject: usize,
    pub vector: Vector,
}

/// What texts on a subject may have in common, such as "Vet visits": the name of a leaf.
#[derive(Debug, Clone)]
pub struct Aspect {
    pub name: &'static str,
    pub subject: usize,
    pub vector: Vector,
}

/// A domain or a matter: its name and its description.
#[derive(Debug, Clone)]
pub struct Entry {
    pub name: &'static str,
    pub vector: Vector,
}

/// All entries and their indexes.
#[derive(Debug, Clone)]
pub struct Inventory {
    pub domains: Vec<Entry>,
    pub topics: Vec<Topic>,
    pub aspects: Vec<Aspect>,
    pub matters: Vec<Entry>,
    /// The words that indicate a subject, and those that indicate an aspect.
    pub subject_cues: Cues,
    pub aspect_cues: Cues,
    overlaps: Vec<f32>,
    cues: HashMap<u16, usize>,
    by_name: HashMap<String, Place>,
    compounds: HashMap<String, usize>,
}

/// The position of a name in the inventory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Domain(usize),
    Topic(usize),
    /// A topic combined with a matter, such as "Payment card fees".
    Pair(usize, usize),
}

/// The inventory, built on first use.
pub fn inventory() -> &'static Inventory {
    static INVENTORY: OnceLock<Inventory> = OnceLock::new();
    INVENTORY.get_or_init(Inventory::build)
}

impl Inventory {
    fn build() -> Self {
        let mut all = Self {
            domains: Vec::new(),
            topics: Vec::new(),
            aspects: Vec::new(),
            subject_cues: Cues::default(),
            aspect_cues: Cues::default(),
            matters: Vec::new(),
            overlaps: Vec::new(),
            cues: HashMap::new(),
            by_name: HashMap::new(),
            compounds: HashMap::new(),
        };

        let mut subject = 0;
        for line in TOPICS.lines() {
            if let Some(name) = line.strip_prefix("= ") {
                all.domains.push(Entry {
                    name,
                    vector: table::ZERO,
                });
            } else if let Some(entry) = line.strip_prefix("+ ") {
                subject = all.topics.len();
                all.add_topic(entry, subject);
            } else if let Some(entry) = line.strip_prefix("- ") {
                all.add_aspect(entry, subject);
            }
        }

        all.add_cues();
        all.add_matters();
        all.name_everything();
        all
    }

    fn add_topic(&mut self, entry: &'static str, subject: usize) {
        let (heading, about) = entry.split_once(':').unwrap_or((entry, ""));
        // Further words indicate the subject, but would blur its vector.
        let (about, further) = about.split_once('|').unwrap_or((about, ""));
        let (name, stem) = match heading.split_once(" (") {
            Some((name, stem)) => (name, stem.trim_end_matches(')').to_string()),
            None => (heading, compound(heading)),
        };

        let domain = self.domains.len().saturating_sub(1);
        let vector = profile::vector_of(&format!("{name} {about}"));
        if let Some(domain) = self.domains.get_mut(domain) {
            table::add(&mut domain.vector, &vector, 1.0);
        }

        for words in [name, about, further] {
            self.subject_cues.add(self.topics.len(), words, 1.0);
        }

        self.topics.push(Topic {
            name,
            stem,
            domain,
            subject,
            vector,
        });
    }

    fn add_aspect(&mut self, entry: &'static str, subject: usize) {
        let (name, about) = entry.split_once(':').unwrap_or((entry, ""));
        for words in [name, about] {
            self.aspect_cues.add(self.aspects.len(), words, 1.0);
            self.subject_cues.add(subject, words, OF_ASPECT);
        }

        self.aspects.push(Aspect {
            name,
            subject,
            vector: profile::vector_of(&format!("{name} {about}")),
        });
    }

    /// Adds words of the field of each subject.
    fn add_cues(&mut self) {
        for (name, words) in CUES.lines().filter_map(|line| line.split_once(':')) {
            if let Some(subject) = self.topics.iter().position(|topic| topic.name == name) {
                self.subject_cues.add(subject, words, OF_FIELD);
            }
        }
    }

    fn add_matters(&mut self) {
        for line in MATTERS.lines() {
            let (name, cues) = line.split_once(':').unwrap_or((line, ""));
            for cue in cues.split_whitespace().filter_map(tokens::whole_word) {
                self.cues.entry(cue).or_insert(self.matters.len());
            }

            self.matters.push(Entry {
                name,
                vector: profile::vector_of(line),
            });
        }
        for topic in &self.topics {
            let row = self
                .matters
                .iter()
                .map(|m| table::dot(&topic.vector, &m.vector));
            self.overlaps.extend(row);
        }
    }

    fn name_everything(&mut self) {
        for (number, topic) in self.topics.iter().enumerate().rev() {
            self.by_name
                .insert(topic.name.to_lowercase(), Place::Topic(number));
            self.compounds.insert(topic.stem.to_lowercase(), number);
        }
        for (number, domain) in self.domains.iter_mut().enumerate() {
            domain.vector = table::unit(domain.vector);
            self.by_name
                .insert(domain.name.to_lowercase(), Place::Domain(number));
        }
    }

    /// The aspects of a subject, with their numbers.
    pub fn aspects_of(&self, subject: usize) -> impl Iterator<Item = (usize, &Aspect)> {
        let all = self.aspects.iter().enumerate();
        all.filter(move |(_, aspect)| aspect.subject == subject)
    }

    /// The matter that a word is a cue for.
    pub fn cue(&self, row: u16) -> Option<usize> {
        self.cues.get(&row).copied()
    }

    /// Similarity of a topic and a matter.
    pub fn overlap(&self, topic: usize, matter: usize) -> f32 {
        self.overlaps
            .get(topic * self.matters.len() + matter)
            .copied()
            .unwrap_or(0.0)
    }

    /// Finds a name, also one composed of a topic and a matter; case is ignored.
    pub fn find(&self, name: &str) -> Option<Place> {
        let name = name.to_lowercase();
        self.by_name.get(&name).copied().or_else(|| {
            let (topic, matter) = name.rsplit_once(' ')?;
            let matter = self
                .matters
                .iter()
                .position(|m| m.name.eq_ignore_ascii_case(matter))?;

            Some(Place::Pair(*self.compounds.get(topic)?, matter))
        })
    }

    /// The category name of a position.
    pub fn name(&self, place: Place) -> String {
        match place {
            Place::Domain(number) => self.domains[number].name.to_string(),
            Place::Topic(number) => self.topics[number].name.to_string(),
            Place::Pair(topic, matter) => {
                let matter = self.matters[matter].name.to_lowercase();
                format!("{} {matter}", self.topics[topic].stem)
            }
        }
    }

    /// The domain of a position.
    pub fn domain(&self, place: Place) -> usize {
        match place {
            Place::Domain(number) => number,
            Place::Topic(topic) | Place::Pair(topic, _) => self.topics[topic].domain,
        }
    }
}

/// "Payment cards" as the first part of a compound: "Payment card".
fn compound(name: &str) -> String {
    let first = name.split(" and ").next().unwrap_or(name);
    match first.rsplit_once(' ') {
        Some((before, last)) => format!("{before} {}", words::singular(last)),
        None => words::singular(first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_name_is_valid_and_found_again() {
        let all = inventory();
        for (number, topic) in all.topics.iter().enumerate() {
            assert!(topic.name.split(' ').count() <= 4, "{}", topic.name);
            assert!(topic.vector.iter().any(|v| *v != 0.0), "{}", topic.name);
            assert_eq!(
                all.find(topic.name),
                Some(Place::Topic(number)),
                "{}",
                topic.name
            );
        }

        assert!(all.domains.len() >= 15 && all.topics.len() >= 100);
    }

    #[test]
    fn every_line_of_words_is_of_a_subject() {
        let all = inventory();
        for line in CUES.lines() {
            let name = line.split_once(':').map(|(name, _)| name);
            let known = name.is_some_and(|name| all.topics.iter().any(|topic| topic.name == name));
            assert!(known, "{line}");
        }
    }

    #[test]
    fn every_subject_has_aspects_with_names_of_their_own() {
        let all = inventory();
        for (number, topic) in all.topics.iter().enumerate() {
            let mut names: Vec<&str> = all.aspects_of(number).map(|(_, a)| a.name).collect();
            assert!(!names.is_empty(), "{}", topic.name);
            for name in &names {
                assert!(
                    name.split(' ').count() <= 4 && *name != topic.name,
                    "{name}"
                );
            }

            let number = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), number, "{}", topic.name);
        }
    }

    #[test]
    fn compound_names_are_resolved() {
        let all = inventory();
        for name in [
            "Payment card fees",
            "Exchange rate mistakes",
            "Hotel cancellation",
        ] {
            let place = all.find(name);
            assert!(matches!(place, Some(Place::Pair(..))), "{name}");
            assert_eq!(place.map(|p| all.name(p)).as_deref(), Some(name));
        }

        assert_eq!(all.find("No such thing"), None);
    }
}
