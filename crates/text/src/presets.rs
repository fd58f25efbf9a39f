//! Vocabularies to choose from, one text file each: a line that says for whom, the names of the
//! lists, and below each its terms, with the words by which the embedded model recognises topics, and
//! phrases, separated by commas, by which it recognises other terms. A language model needs neither.
//! What lists share is recognised alike in all presets.

use std::sync::LazyLock;

/// A vocabulary to choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preset {
    pub name: &'static str,
    /// For whom it is.
    pub about: &'static str,
    pub topics: Vec<Term>,
    pub categories: Vec<Term>,
    pub message_types: Vec<Term>,
    pub entity_types: Vec<Term>,
}

/// A term, and words or phrases that show that it fits a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    pub name: &'static str,
    pub words: &'static str,
}

static PRESETS: LazyLock<[Preset; 3]> = LazyLock::new(|| {
    [
        read("personal", include_str!("presets/personal.txt")),
        read("project", include_str!("presets/project.txt")),
        read("support", include_str!("presets/support.txt")),
    ]
});

/// All presets, by name.
#[must_use]
pub fn all() -> &'static [Preset] {
    &*PRESETS
}

/// The preset that a space has until it chooses another.
#[must_use]
pub fn built_in() -> &'static Preset {
    let [.., support] = &*PRESETS;
    support
}

/// The preset of a name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

fn read(name: &'static str, text: &'static str) -> Preset {
    let (about, lists) = text.split_once('\n').unwrap_or((text, ""));
    let list = |title: &str| {
        let below = lists.lines().skip_while(|line| *line != title).skip(1);
        let terms = below.map_while(|line| line.strip_prefix("  "));
        let terms = terms.map(|term| {
            let (name, words) = term.split_once(':').unwrap_or((term, ""));
            let words = words.trim();
            Term { name, words }
        });
        terms.collect()
    };

    Preset {
        name,
        about,
        topics: list("topics"),
        categories: list("categories"),
        message_types: list("message_types"),
        entity_types: list("entity_types"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catch_all::is_catch_all;

    #[test]
    fn every_preset_has_all_lists_and_a_topic_for_everything_else() {
        for preset in all() {
            let lists = [
                &preset.topics,
                &preset.categories,
                &preset.message_types,
                &preset.entity_types,
            ];
            for list in lists {
                assert!(list.len() >= 6, "{preset:?}");
                for (place, term) in list.iter().enumerate() {
                    let repeated = list[..place].iter().any(|other| other.name == term.name);
                    assert!(!repeated, "{}: {} appears twice", preset.name, term.name);
                }
            }

            let lines = lists.iter().map(|list| list.len() + 1).sum::<usize>() + 1;
            let file = match preset.name {
                "personal" => include_str!("presets/personal.txt"),
                "project" => include_str!("presets/project.txt"),
                _ => include_str!("presets/support.txt"),
            };
            assert_eq!(
                file.lines().count(),
                lines,
                "a line of {} is not read",
                preset.name
            );
            assert!(preset.topics.iter().any(|term| is_catch_all(term.name)));
            assert_eq!(find(preset.name), Some(preset));
        }

        assert_eq!(built_in().name, "support");
        assert_eq!(find("pirate"), None);
    }
}
