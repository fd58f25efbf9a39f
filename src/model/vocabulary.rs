//! The vocabulary: the closed lists that messages are classified with and looked up by.

use memoir_text::presets::{self, Preset, Term};
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

/// One version of a space's lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vocabulary {
    pub version: String,
    pub terms: Terms,
}

/// The lists, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    pub topics: Vec<String>,
    pub categories: Vec<String>,
    pub message_types: Vec<String>,
    pub entity_types: Vec<String>,
}

impl Vocabulary {
    /// The vocabulary of a space that has none of its own.
    pub fn seeded() -> Self {
        Self {
            version: "2024-01-15".to_owned(),
            terms: Terms::of(presets::built_in()),
        }
    }
}

impl Terms {
    pub fn of(preset: &Preset) -> Self {
        let list = |terms: &[Term]| terms.iter().map(|term| term.name.to_owned()).collect();
        Self {
            topics: list(&preset.topics),
            categories: list(&preset.categories),
            message_types: list(&preset.message_types),
            entity_types: list(&preset.entity_types),
        }
    }

    /// The preset with exactly these terms.
    pub fn preset(&self) -> Option<&'static Preset> {
        presets::all().iter().find(|one| *self == Self::of(one))
    }
}

/// A term that models keep suggesting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestion {
    pub suggestion: String,
    pub frequency: i64,
    /// Beginnings of the messages, without repeats.
    pub examples: Vec<String>,
}

/// Which list a suggestion is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum SuggestionKind {
    Topic,
    Category,
}
