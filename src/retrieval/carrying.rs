//! Finds the sentence of a text that a claim is based on.

use memoir_index::highlight::Highlighter;
use memoir_text::sentences;
use memoir_text::text::char_count;

/// The sentence of a text that shares most words with a claim, then with the query; the first of
/// equals. Also returns where it begins, in characters.
#[must_use]
pub fn carrying_sentence<'t>(text: &'t str, claim: &str, query: &str) -> (&'t str, i64) {
    let (claimed, asked) = (Highlighter::new(claim), Highlighter::new(query));
    let mut best: Option<((usize, usize), &str)> = None;
    for sentence in sentences::split(text) {
        let score = (claimed.shared(sentence), asked.shared(sentence));
        if best.is_none_or(|(most, _)| score > most) {
            best = Some((score, sentence));
        }
    }

    let sentence = best.map_or(text, |(_, sentence)| sentence);
    let quote = sentence.trim();
    // The quote is a part of the text, so its address tells its position.
    let offset = quote.as_ptr() as usize - text.as_ptr() as usize;
    let start = i64::try_from(char_count(&text[..offset])).unwrap_or(i64::MAX);
    (quote, start)
}
