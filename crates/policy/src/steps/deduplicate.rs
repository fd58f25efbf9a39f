//! Keeps one of several entries that say the same, then the best `topK`.

use std::collections::HashMap;

use memoir_text::hash::sha256_hex;
use unicode_normalization::UnicodeNormalization;

use super::super::candidate::Entry;
use super::super::explain::{Effect, Reason, Step};

pub const NAME: &str = "deduplication";

/// The first text of each key: whoever offers texts best first keeps the best of equal ones.
#[derive(Debug, Default)]
pub struct FirstOfKey {
    ids: HashMap<String, String>,
}

impl FirstOfKey {
    /// The id that came first with this key, if one did; otherwise this one is the first.
    pub fn before(&mut self, key: &str, id: &str) -> Option<String> {
        if let Some(first) = self.ids.get(key) {
            return Some(first.clone());
        }

        self.ids.insert(key.to_owned(), id.to_owned());
        None
    }
}

/// The entries come best first, so the best of equal ones is kept.
pub fn apply(entries: &mut Vec<Entry>, top_k: usize) -> Step {
    let before = entries.len();
    let mut effects = Vec::new();
    let mut seen = FirstOfKey::default();

    entries.retain(|entry| {
        let key = key(entry.content());
        let Some(duplicate_of) = seen.before(&key, entry.id()) else {
            return true;
        };
        effects.push(Effect::new(
            entry.id(),
            Reason::Duplicate { duplicate_of, key },
        ));
        false
    });

    for (index, entry) in entries.iter().enumerate().skip(top_k) {
        let position = index + 1;
        effects.push(Effect::new(
            entry.id(),
            Reason::BeyondTopK { position, top_k },
        ));
    }
    entries.truncate(top_k);

    Step {
        name: NAME,
        before,
        after: entries.len(),
        effects,
    }
}

/// Whether an effect of this step says that the entry repeated another.
pub fn is_duplicate(effect: &Effect) -> bool {
    matches!(effect.reason, Reason::Duplicate { .. })
}

/// The first 16 hex digits of the SHA-256 of a text without its case, its form of Unicode, the
/// amount of its white space, and the marks around it.
///
/// A text of nothing but marks keeps them: two such texts are not the same.
pub fn key(text: &str) -> String {
    let folded: String = if text.is_ascii() {
        text.to_ascii_lowercase()
    } else {
        text.to_lowercase().nfkc().collect()
    };
    let spaced = folded.split_whitespace().collect::<Vec<_>>().join(" ");
    let bare = spaced.trim_matches(|c: char| !is_word_character(c));
    let normal = if bare.is_empty() { &spaced } else { bare };

    let mut key = sha256_hex(normal.as_bytes());
    key.truncate(16);
    key
}

fn is_word_character(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_the_documented_example() {
        assert_eq!(key("Hello world"), "b94d27b9934d3e08");
        assert_eq!(key("HELLO WORLD"), "b94d27b9934d3e08");
    }

    #[test]
    fn case_form_white_space_and_outer_marks_do_not_matter() {
        for text in [
            "hello  world",
            "\tHello\nworld ",
            "“Hello world!”",
            "Ｈｅｌｌｏ world...",
        ] {
            assert_eq!(key(text), key("Hello world"), "{text}");
        }
        assert_ne!(key("Hello, world"), key("Hello world"));
    }

    #[test]
    fn different_texts_in_any_script_stay_different() {
        let texts = [
            "你好世界",
            "退款政策",
            "Привет",
            "Пока",
            "مرحبا",
            "🙂",
            "🙃",
            "!!!",
            "???",
        ];
        for (index, a) in texts.iter().enumerate() {
            for b in &texts[index + 1..] {
                assert_ne!(key(a), key(b), "{a} and {b}");
            }
        }
    }
}
