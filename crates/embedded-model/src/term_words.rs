//! What a term of the vocabulary means: its name, and for a term of a preset also the words or phrases
//! by which it is recognised (`memoir_text::presets`).

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock};

use memoir_text::presets::{self, Preset, Term};

use super::profile;
use super::rank;
use super::table::{self, Vector};

/// How much one of its words says for a topic, and how much the meaning of the whole clause adds.
const WORD: f32 = 0.6;
const CONTEXT: f32 = 0.4;

/// The meaning of a topic.
pub struct Meaning {
    name: Vector,
    words: Option<Arc<Words>>,
}

/// The words of a topic.
struct Words {
    stems: HashSet<String>,
    vector: Vector,
}

impl Meaning {
    pub fn of_topic(name: &str) -> Self {
        static TOPICS: LazyLock<HashMap<&str, Arc<Words>>> = LazyLock::new(|| {
            let topics = presets::all().iter().flat_map(|preset| &preset.topics);
            let described = topics.filter(|topic| !topic.words.is_empty());
            described
                .map(|topic| {
                    let words = Words {
                        stems: topic.words.split(' ').map(rank::stem).collect(),
                        vector: profile::vector_of(topic.words),
                    };
                    (topic.name, Arc::new(words))
                })
                .collect()
        });

        Self {
            name: profile::vector_of(&name.replace(['_', '-'], " ")),
            words: TOPICS.get(name).cloned(),
        }
    }

    /// How much a clause is about the topic, from its meaning and the stems of its words.
    pub fn likeness(&self, vector: &Vector, stems: &HashSet<String>) -> f32 {
        let name = table::dot(&self.name, vector);
        let Some(words) = &self.words else {
            return name;
        };

        let near = table::dot(&words.vector, vector).max(0.0);
        let is_said = stems.iter().any(|stem| words.stems.contains(stem));
        let said = if is_said { WORD + CONTEXT * near } else { near };
        name.max(said)
    }
}

/// The first term of which a phrase is in the text; `list` is where presets have such terms.
pub fn said_in<'t>(
    text: &str,
    terms: &'t [String],
    list: fn(&Preset) -> &[Term],
) -> Option<&'t String> {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '\'';
    let lower = text.to_lowercase().replace('’', "'");
    let words = lower
        .split(|c| !is_of_word(c))
        .filter(|word| !word.is_empty());
    let plain = words.fold(" ".to_owned(), |plain, word| plain + word + " ");
    let says = |phrase: &str| plain.contains(&format!(" {phrase} "));

    terms.iter().find(|name| {
        let named = presets::all().iter().flat_map(list);
        let mut phrases = named
            .filter(|term| term.name == **name)
            .flat_map(|term| term.words.split(", "));
        phrases.any(|phrase| !phrase.is_empty() && says(phrase))
    })
}
