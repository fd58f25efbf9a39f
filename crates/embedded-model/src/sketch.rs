//! The parts of a text that are compared with samples of a category: its vector and its words.
//! Guarantees equal sketches for equal texts, and a bounded cache, because the same samples occur
//! in every call.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use hashlink::LruCache;

use super::clean;
use super::hash;
use super::table::{self, Vector};
use super::tokens;
use super::words::{self, Kind};

/// Only the beginning of a text is compared, so that long and short texts can match.
const OPENING: usize = 600;
/// Texts of at most this many tokens keep their grammar words, because "how", "why" and "not"
/// matter in a short question.
const SHORT: usize = 60;
/// Maximum number of words kept of a text, the most characteristic ones.
const WORDS: usize = 40;
/// Maximum size of the cache, which is emptied when it is full (about 1.4 kB per sketch).
const KEPT: usize = 8_192;

/// The compared parts of a text.
#[derive(Debug, Clone)]
pub struct Sketch {
    /// Mean of the rows, length 1.
    pub vector: Vector,
    /// Every word once, the most characteristic first.
    pub words: Vec<Word>,
    /// The hash of the text.
    pub key: u64,
}

/// A word of a text and its weight; the weights of all words sum to 1.
#[derive(Debug, Clone, Copy)]
pub struct Word {
    pub row: u16,
    pub part: f32,
}

/// Sketches by hash and length of their text.
type Memory = LruCache<(u64, usize), Arc<Sketch>>;

/// The sketch of a text, from the cache if possible.
pub fn sketch(text: &str) -> Arc<Sketch> {
    static MADE: LazyLock<Mutex<Memory>> = LazyLock::new(|| Mutex::new(Memory::new(KEPT)));

    let text = opening(text);
    let key = (hash::mix(0, text), text.len());
    let mut memory = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = memory.get(&key) {
        return Arc::clone(known);
    }

    let made = Arc::new(Sketch::of(text, key.0));
    memory.insert(key, Arc::clone(&made));
    made
}

/// The part of a text that is compared.
pub fn opening(text: &str) -> &str {
    if text.len() <= OPENING {
        return text;
    }
    text.char_indices()
        .nth(OPENING)
        .map_or(text, |(end, _)| &text[..end])
}

impl Sketch {
    /// Whether both have the same words.
    pub fn is(&self, other: &Self) -> bool {
        self.vector
            .iter()
            .zip(&other.vector)
            .all(|(a, b)| a.to_bits() == b.to_bits())
    }

    fn of(text: &str, key: u64) -> Self {
        let mut ids: Vec<u16> = Vec::new();
        for line in clean::telling_lines(text) {
            ids.extend(
                tokens::ids(line)
                    .into_iter()
                    .filter(|id| *id != tokens::UNKNOWN),
            );
        }

        if ids.len() > SHORT {
            ids.retain(|id| words::kind(*id) != Kind::Stop);
        }

        let mut sum = table::ZERO;
        for id in &ids {
            table::add_row(&mut sum, *id, 1.0);
        }

        Self {
            vector: table::unit(sum),
            words: weighed(ids),
            key,
        }
    }
}

fn weighed(mut ids: Vec<u16>) -> Vec<Word> {
    ids.sort_unstable();
    ids.dedup();
    let mut words: Vec<Word> = ids
        .into_iter()
        .map(|row| Word {
            row,
            part: table::length(row),
        })
        .collect();

    words.sort_by(|a, b| b.part.total_cmp(&a.part));
    words.truncate(WORDS);
    let all: f32 = words.iter().map(|word| word.part).sum();
    for word in &mut words {
        word.part /= all.max(f32::MIN_POSITIVE);
    }

    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sketches_are_stable_and_bounded() {
        let before = sketch("Where is my card?");
        for n in 0..KEPT + 10 {
            let _ = sketch(&format!("text {n}"));
        }

        let after = sketch("Where is my card?");
        assert!(before.is(&after) && !before.is(&sketch("Where is my money?")));
    }

    #[test]
    fn any_text_has_a_sketch() {
        for text in [
            "",
            "🙂",
            "机器学习",
            &"x".repeat(100_000),
            &"é".repeat(5_000),
        ] {
            let sketch = sketch(text);
            assert!(sketch.vector.iter().all(|v| v.is_finite()));
            assert!(
                sketch.words.len() <= WORDS
                    && sketch.words.iter().all(|word| word.part.is_finite())
            );
        }
    }
}
