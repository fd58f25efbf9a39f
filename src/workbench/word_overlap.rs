//! Compares the words of two texts, to find duplicates and to rank without a model.

use std::collections::HashSet;

use memoir_text::words;

/// Words of one shingle, and the share of shingles that makes a duplicate.
const SHINGLE: usize = 5;
const DUPLICATE: f64 = 0.9;

/// A text, prepared to be compared with many others.
#[derive(Debug, Clone, Default)]
pub struct Compared {
    joined: String,
    shingles: HashSet<u64>,
}

impl Compared {
    #[must_use]
    pub fn new(text: &str) -> Self {
        let words = all_words(text);
        Self {
            joined: format!(" {} ", words.join(" ")),
            shingles: shingles(&words),
        }
    }

    /// Whether the whole contains the part: word by word, or nearly.
    #[must_use]
    pub fn contains(&self, part: &str) -> bool {
        let words = all_words(part);
        if words.is_empty() {
            return false;
        }
        if self.joined.contains(&format!(" {} ", words.join(" "))) {
            return true;
        }

        let own = shingles(&words);
        let shared = own.intersection(&self.shingles).count();
        !own.is_empty() && share(shared, own.len()) >= DUPLICATE
    }
}

/// The share of the query's words that a text has, from 0 to 1.
#[must_use]
pub fn shared_words(query: &HashSet<String>, text: &str) -> f64 {
    if query.is_empty() {
        return 0.0;
    }
    let has: HashSet<String> = all_words(text).into_iter().collect();
    share(query.intersection(&has).count(), query.len())
}

/// The words of a query that are longer than most stop words.
#[must_use]
pub fn long_words(query: &str) -> HashSet<String> {
    let words = all_words(query).into_iter();
    words.filter(|word| word.chars().count() > 3).collect()
}

fn all_words(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    words::each(text, |word| found.push(word.to_owned()));
    found
}

fn shingles(words: &[String]) -> HashSet<u64> {
    words.windows(SHINGLE).map(hash).collect()
}

/// FNV-1a, which is the same in every process.
fn hash(words: &[String]) -> u64 {
    let bytes = words.iter().flat_map(|word| word.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The share that a number of words is of another.
#[expect(clippy::cast_precision_loss, reason = "counts of words")]
pub(super) fn share(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_found_whatever_its_spelling() {
        let file = Compared::new("# Lamp\n\nThe lamp burns whale oil, and it is 30 m high.\nEnd.");
        assert!(file.contains("the LAMP burns whale oil and it is 30 m high"));
        assert!(!file.contains("The lamp burns petrol, and it is 30 m high."));
        assert!(!file.contains("amp burns"));
        assert!(!file.contains("…"));
    }
}
