//! Embeddings without a model: each word of a text raises or lowers one coordinate. Texts that
//! share words are similar, and a text always has the same vector.

use serde_json::{Value, json};

use super::script::Script;
use super::see;
use super::sensible::{hash, words};
use super::types::{Seen, Usage};

/// The body of the response and its token counts.
pub(super) fn answer(seen: &Seen, script: &Script) -> (Value, Usage) {
    let asked = seen
        .body
        .get("dimensions")
        .and_then(Value::as_u64)
        .and_then(|count| usize::try_from(count).ok());

    let dimensions = asked.unwrap_or(script.dimensions).max(1);
    let data: Vec<Value> = see::inputs(&seen.body)
        .iter()
        .enumerate()
        .map(|(index, text)| json!({"object": "embedding", "index": index, "embedding": vector(text, dimensions)}))
        .collect();

    let usage = script.usage.count(seen.user.chars().count(), 0);
    let counts = json!({"prompt_tokens": usage.prompt_tokens, "total_tokens": usage.prompt_tokens});
    let mut body = json!({"object": "list", "data": data, "model": seen.model});
    if !script.usage.omit {
        body["usage"] = counts;
    }

    (
        body,
        Usage {
            completion_tokens: 0,
            ..usage
        },
    )
}

fn vector(text: &str, dimensions: usize) -> Vec<f32> {
    let mut vector = vec![0.0_f32; dimensions];
    for word in words(text) {
        let hash = hash(&word);
        let place = usize::try_from((hash >> 1) % dimensions as u64).unwrap_or_default();
        vector[place] += if hash & 1 == 0 { 1.0 } else { -1.0 };
    }

    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    // No words, or words that cancel out: a fixed vector instead of zeros.
    if length == 0.0 {
        vector[0] = 1.0;
        return vector;
    }

    vector.iter().map(|value| value / length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nearness(a: &str, b: &str) -> f32 {
        vector(a, 64)
            .iter()
            .zip(vector(b, 64))
            .map(|(a, b)| a * b)
            .sum()
    }

    #[test]
    fn texts_with_shared_words_are_similar() {
        assert!((nearness("sea and land", "Land and Sea") - 1.0).abs() < 1e-6);
        assert!(nearness("sea and land", "sea and sky") > nearness("sea and land", "red brick"));
    }

    #[test]
    fn a_text_without_words_has_a_vector() {
        assert!((nearness("", "…") - 1.0).abs() < 1e-6);
    }
}
