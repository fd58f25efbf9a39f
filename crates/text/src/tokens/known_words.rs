//! Token counts of words that were counted before. After a while, nearly all words of a text are
//! known, and finding one takes far less time than encoding it.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

/// A longer word, in bytes, seldom comes again.
const LONGEST: usize = 24;
/// So many words are kept; then all are forgotten, and the frequent ones are soon known again.
const MAX_WORDS: usize = 50_000;

/// The words of one encoding.
#[derive(Default)]
pub struct KnownWords {
    counts: RwLock<HashMap<Box<str>, u8>>,
}

impl KnownWords {
    /// The tokens of some words together. `encode` counts those that are not known.
    pub fn count<'t>(
        &self,
        words: impl Iterator<Item = &'t str>,
        encode: impl Fn(&str) -> usize,
    ) -> usize {
        let mut sum = 0;
        let mut unknown = Vec::new();
        let known = self.counts.read().unwrap_or_else(PoisonError::into_inner);
        for word in words {
            match known.get(word).filter(|_| word.len() <= LONGEST) {
                Some(count) => sum += usize::from(*count),
                None => unknown.push(word),
            }
        }

        // Others may count while new words are encoded.
        drop(known);
        let mut new = Vec::new();
        for word in unknown {
            let count = encode(word);
            sum += count;
            if let Ok(count) = u8::try_from(count)
                && word.len() <= LONGEST
            {
                new.push((word, count));
            }
        }

        self.add(&new);
        sum
    }

    fn add(&self, new: &[(&str, u8)]) {
        if new.is_empty() {
            return;
        }

        let mut counts = self.counts.write().unwrap_or_else(PoisonError::into_inner);
        if counts.len() + new.len() > MAX_WORDS {
            counts.clear();
        }
        counts.extend(new.iter().map(|(word, count)| (Box::from(*word), *count)));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_known_word_is_not_encoded_again() {
        let (words, encoded) = (KnownWords::default(), Cell::new(0));
        let encode = |word: &str| {
            encoded.set(encoded.get() + 1);
            word.len()
        };

        let long = "x".repeat(LONGEST + 1);
        for calls in [3, 4] {
            let text = ["a", " bc", &long].into_iter();
            assert_eq!(words.count(text, encode), 4 + long.len());
            assert_eq!(encoded.get(), calls, "only the long word is encoded again");
        }
    }

    #[test]
    fn memory_is_bounded() {
        let words = KnownWords::default();
        for number in 0..3 * MAX_WORDS {
            words.count([number.to_string().as_str()].into_iter(), str::len);
        }

        let kept = words.counts.read().map_or(0, |counts| counts.len());
        assert!(kept > 0 && kept <= MAX_WORDS, "{kept}");
    }
}
