//! Resolves the chunk numbers in an answer to the sentences that carry its claims. Pure.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::result::QueryChunk;
use crate::base::text::{char_count, sentences};
use crate::search::highlight::Highlighter;

/// A sentence that an answer rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Citation {
    pub chunk_id: i64,
    pub source_id: String,
    pub version: i64,
    pub filename: String,
    pub path: String,
    /// The headings above the chunk, highest first, separated by ` › `; null if there is none.
    pub heading: Option<String>,
    /// The sentence, verbatim.
    pub quote: String,
    /// Start offset of the quote in the text of the version, in characters.
    pub start_char: i64,
    /// End offset in characters, exclusive.
    pub end_char: i64,
}

/// The citations of an answer, in order, and the numbers that name no used chunk.
pub fn resolve(answer: &str, query: &str, chunks: &[QueryChunk]) -> (Vec<Citation>, HashSet<i64>) {
    let mut citations: Vec<Citation> = Vec::new();
    let mut unknown = HashSet::new();
    let mut claim_from = 0;
    for marker in markers(answer) {
        let claim = last_sentence(&answer[claim_from..marker.from]);
        claim_from = marker.to;
        for chunk_id in marker.numbers {
            let Some(chunk) = chunks.iter().find(|chunk| chunk.chunk_id == chunk_id) else {
                unknown.insert(chunk_id);
                continue;
            };

            let citation = cite(chunk, claim, query);
            if !citations.contains(&citation) {
                citations.push(citation);
            }
        }
    }

    (citations, unknown)
}

/// Chunk numbers in brackets, such as `[12]`, `[12, 14]` or `[Chunk 12]`.
struct Marker {
    from: usize,
    to: usize,
    numbers: Vec<i64>,
}

fn markers(answer: &str) -> Vec<Marker> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(open) = answer[at..].find('[') {
        let from = at + open;
        let Some(close) = answer[from..].find(']') else {
            break;
        };

        let to = from + close + 1;
        let number = |part: &str| {
            let part = part.trim();
            let part = part
                .strip_prefix("Chunk")
                .or_else(|| part.strip_prefix("chunk"))
                .unwrap_or(part);
            part.trim().parse::<i64>().ok()
        };
        let numbers: Option<Vec<i64>> = answer[from + 1..to - 1]
            .split([',', ';'])
            .map(number)
            .collect();
        match numbers {
            Some(numbers) => {
                found.push(Marker { from, to, numbers });
                at = to;
            }
            None => at = from + 1,
        }
    }

    found
}

/// The sentence before a number, which may stand before or after its full stop.
fn last_sentence(text: &str) -> &str {
    sentences(text)
        .filter(|sentence| sentence.chars().any(char::is_alphanumeric))
        .last()
        .unwrap_or(text)
}

/// The sentence of a chunk that shares most words with a claim, then with the query; the first of
/// equals.
fn cite(chunk: &QueryChunk, claim: &str, query: &str) -> Citation {
    let (claimed, asked) = (Highlighter::new(claim), Highlighter::new(query));
    let text = chunk.text_content.as_str();
    let mut best: Option<((usize, usize), &str)> = None;
    for line in text.split_inclusive('\n') {
        for sentence in sentences(line).filter(|one| one.chars().any(char::is_alphanumeric)) {
            let score = (claimed.shared(sentence), asked.shared(sentence));
            if best.is_none_or(|(most, _)| score > most) {
                best = Some((score, sentence));
            }
        }
    }

    let sentence = best.map_or(text, |(_, sentence)| sentence);
    let quote = sentence.trim();
    // The quote is a part of the text, so its address tells its position.
    let offset = quote.as_ptr() as usize - text.as_ptr() as usize;
    let count = |text: &str| i64::try_from(char_count(text)).unwrap_or(i64::MAX);
    let start_char = chunk.start_char + count(&text[..offset]);
    Citation {
        chunk_id: chunk.chunk_id,
        source_id: chunk.source_id.clone(),
        version: chunk.source_version,
        filename: chunk.filename.clone(),
        path: chunk.path.clone(),
        heading: chunk.heading.clone(),
        quote: quote.to_owned(),
        start_char,
        end_char: start_char + count(quote),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(chunk_id: i64, start_char: i64, text: &str) -> QueryChunk {
        QueryChunk {
            chunk_id,
            rank: 1,
            relevance: 1.0,
            text_content: text.to_owned(),
            category_path: Vec::new(),
            ranked_relevance: 1,
            path_relevance: 1.0,
            created_at: String::new(),
            source_id: "s".to_owned(),
            source_version: 2,
            filename: "a.md".to_owned(),
            path: "/a.md".to_owned(),
            heading: None,
            highlights: Vec::new(),
            start_char,
            end_char: start_char + i64::try_from(char_count(text)).unwrap(),
        }
    }

    #[test]
    fn quotes_the_sentence_that_carries_the_claim() {
        let chunks = [
            chunk(
                12,
                100,
                "Größe counts. Refunds take 14 days. Pets are welcome.",
            ),
            chunk(7, 0, "The shop opens at nine."),
        ];
        let answer = "Refunds take 14 days [12]. It opens at nine. [7][99] See [sic] and [2.5].";
        let (found, unknown) = resolve(answer, "How long do refunds take?", &chunks);
        let quotes: Vec<_> = found
            .iter()
            .map(|one| {
                (
                    one.chunk_id,
                    one.quote.as_str(),
                    one.start_char,
                    one.end_char,
                )
            })
            .collect();
        assert_eq!(
            quotes,
            [
                (12, "Refunds take 14 days.", 114, 135),
                (7, "The shop opens at nine.", 0, 23)
            ]
        );
        assert_eq!(unknown, HashSet::from([99]));
        assert_eq!(found[0].version, 2);
    }

    #[test]
    fn one_sentence_is_cited_once() {
        let chunks = [chunk(1, 0, "A lamp burns."), chunk(2, 0, "A bell rings.")];
        let (found, _) = resolve(
            "A lamp burns [1, 2]. The lamp burns [Chunk 1].",
            "",
            &chunks,
        );
        assert_eq!(
            found.iter().map(|one| one.chunk_id).collect::<Vec<_>>(),
            [1, 2]
        );
        assert_eq!(
            resolve("Nothing [", "", &chunks),
            (Vec::new(), HashSet::new())
        );
    }
}
