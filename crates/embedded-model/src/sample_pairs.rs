//! Word-by-word similarity of pairs of samples, cached: it depends on the two texts alone, and the
//! categories of a parent are read again whenever one is new. Guarantees the same result with and
//! without the cache, and that the cache is bounded.

use std::sync::{LazyLock, Mutex, PoisonError};

use hashlink::LruCache;

use super::sketch::Sketch;
use super::wording::Wording;

/// Maximum cached pairs, about 50 bytes each: those of a thousand categories with 16 samples.
const MAX_PAIRS: usize = 131_072;

/// Similarities by the hashes of both texts, in their order.
type Memory = LruCache<(u64, u64), f32>;

/// The similarity of the words of a text to those of others, in order.
pub fn word_likeness<'a>(text: &Sketch, others: impl Iterator<Item = &'a Sketch>) -> Vec<f32> {
    static KNOWN: LazyLock<Mutex<Memory>> = LazyLock::new(|| Mutex::new(Memory::new(MAX_PAIRS)));

    let memory = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let others: Vec<&Sketch> = others.collect();
    let known: Vec<Option<f32>> = {
        let mut memory = memory();
        let find = |other: &&Sketch| memory.get(&(text.key, other.key)).copied();
        others.iter().map(find).collect()
    };

    // Others do not wait for what is computed.
    let mut wording: Option<Wording<'_>> = None;
    let mut compare = |other: &Sketch| {
        let wording = wording.get_or_insert_with(|| Wording::new(text));
        wording.likeness(other)
    };
    let likeness: Vec<f32> = others
        .iter()
        .zip(&known)
        .map(|(other, known)| known.unwrap_or_else(|| compare(other)))
        .collect();

    let mut memory = memory();
    for ((other, known), like) in others.iter().zip(known).zip(&likeness) {
        if known.is_none() {
            memory.insert((text.key, other.key), *like);
        }
    }

    likeness
}

#[cfg(test)]
mod tests {
    use super::super::sketch::sketch;
    use super::*;

    #[test]
    fn the_cache_changes_no_result() {
        let texts = ["My card was stolen", "Where is my card?", ""].map(sketch);
        let text = sketch("Somebody robbed me of my card");
        let all = || word_likeness(&text, texts.iter().map(|one| &**one));
        let alone: Vec<f32> = texts
            .iter()
            .map(|other| Wording::new(&text).likeness(other))
            .collect();

        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&all()), bits(&alone));
        assert_eq!(bits(&all()), bits(&alone));
    }
}
