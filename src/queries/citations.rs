//! Resolves the numbers in an answer to the sentences that carry its claims. Pure.

use std::collections::HashSet;

use memoir_text::headings::trail_within;
use memoir_text::sentences;
use memoir_text::text::char_count;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::result::{QueryChunk, QueryMemory};
use crate::retrieval::carrying_sentence;

/// A sentence that an answer is based on: of a chunk, or of a memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Citation {
    /// The number in the answer; for a chunk, its id.
    pub number: i64,
    /// The chunk, its source and its version; null if a memory is cited.
    pub chunk_id: Option<i64>,
    pub source_id: Option<String>,
    pub version: Option<i64>,
    pub filename: Option<String>,
    pub path: Option<String>,
    /// The headings above the sentence, highest first, separated by ` › `; null if there is none.
    pub heading: Option<String>,
    /// The memory; null if a chunk is cited.
    pub memory_id: Option<String>,
    /// The thread that the memory belongs to, if any.
    pub thread_id: Option<String>,
    /// The sentence, verbatim.
    pub quote: String,
    /// Start offset of the quote in the text of the version or of the memory, in characters.
    pub start_char: i64,
    /// End offset in characters, exclusive.
    pub end_char: i64,
}

/// The citations of an answer, in order, and the numbers that name no used chunk and no used
/// memory.
pub fn resolve(
    answer: &str,
    query: &str,
    chunks: &[QueryChunk],
    memories: &[QueryMemory],
) -> (Vec<Citation>, HashSet<i64>) {
    let mut citations: Vec<Citation> = Vec::new();
    let mut unknown = HashSet::new();
    let mut claim_from = 0;
    for marker in markers(answer) {
        let claim = last_sentence(&answer[claim_from..marker.from]);
        claim_from = marker.to;
        for number in marker.numbers {
            // A memory has a number that no chunk of the prompt has, but a chunk that did not fit may.
            let memory = memories.iter().find(|one| one.number == Some(number));
            let chunk = chunks.iter().find(|chunk| chunk.chunk_id == number);
            let citation = match (memory, chunk) {
                (Some(memory), _) => cite_memory(memory, number, claim, query),
                (None, Some(chunk)) => cite_chunk(chunk, claim, query),
                (None, None) => {
                    unknown.insert(number);
                    continue;
                }
            };

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
    let number = |part: &str| {
        let part = part.trim();
        let part = part
            .strip_prefix("Chunk")
            .or_else(|| part.strip_prefix("chunk"))
            .unwrap_or(part);
        part.trim().parse::<i64>().ok()
    };

    let mut found = Vec::new();
    let mut rest = 0;
    for (close, _) in answer.match_indices(']') {
        // Numbers have no bracket among them, so only the nearest one can open them.
        let open = answer[rest..close].rfind('[');
        let from = rest + open.unwrap_or_default();
        rest = close + 1;
        if open.is_none() {
            continue;
        }

        let parts = answer[from + 1..close].split([',', ';']);
        if let Some(numbers) = parts.map(number).collect() {
            let to = rest;
            found.push(Marker { from, to, numbers });
        }
    }

    found
}

/// The sentence before a number, which may stand before or after its full stop.
fn last_sentence(text: &str) -> &str {
    sentences::split(text).pop().unwrap_or(text)
}

fn cite_chunk(chunk: &QueryChunk, claim: &str, query: &str) -> Citation {
    let (quote, start) = carrying_sentence(&chunk.text_content, claim, query);
    let start_char = chunk.start_char + start;
    let within = usize::try_from(start).unwrap_or(0);
    Citation {
        number: chunk.chunk_id,
        chunk_id: Some(chunk.chunk_id),
        source_id: Some(chunk.source_id.clone()),
        version: Some(chunk.source_version),
        filename: Some(chunk.filename.clone()),
        path: Some(chunk.path.clone()),
        heading: trail_within(chunk.heading.as_deref(), &chunk.text_content, within),
        memory_id: None,
        thread_id: None,
        quote: quote.to_owned(),
        start_char,
        end_char: start_char + count(quote),
    }
}

fn cite_memory(memory: &QueryMemory, number: i64, claim: &str, query: &str) -> Citation {
    let (quote, start_char) = carrying_sentence(&memory.text_content, claim, query);
    Citation {
        number,
        chunk_id: None,
        source_id: None,
        version: None,
        filename: None,
        path: None,
        heading: None,
        memory_id: Some(memory.memory_id.clone()),
        thread_id: memory.thread_id.clone(),
        quote: quote.to_owned(),
        start_char,
        end_char: start_char + count(quote),
    }
}

fn count(text: &str) -> i64 {
    i64::try_from(char_count(text)).unwrap_or(i64::MAX)
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
        let (found, unknown) = resolve(answer, "How long do refunds take?", &chunks, &[]);
        let quotes: Vec<_> = found
            .iter()
            .map(|one| (one.number, one.quote.as_str(), one.start_char, one.end_char))
            .collect();
        assert_eq!(
            quotes,
            [
                (12, "Refunds take 14 days.", 114, 135),
                (7, "The shop opens at nine.", 0, 23)
            ]
        );
        assert_eq!(unknown, HashSet::from([99]));
        assert_eq!((found[0].chunk_id, found[0].version), (Some(12), Some(2)));
    }

    #[test]
    fn one_sentence_is_cited_once() {
        let chunks = [chunk(1, 0, "A lamp burns."), chunk(2, 0, "A bell rings.")];
        let (found, _) = resolve(
            "A lamp burns [1, 2]. The lamp burns [Chunk 1].",
            "",
            &chunks,
            &[],
        );
        assert_eq!(
            found.iter().map(|one| one.number).collect::<Vec<_>>(),
            [1, 2]
        );
        assert_eq!(
            resolve("Nothing [", "", &chunks, &[]),
            (Vec::new(), HashSet::new())
        );
    }

    #[test]
    fn quotes_the_sentence_of_a_memory() {
        let memory = QueryMemory {
            memory_id: "m".to_owned(),
            user_id: "u".to_owned(),
            thread_id: Some("t".to_owned()),
            kind: "message".to_owned(),
            role: "user".to_owned(),
            text_content: "Grüße! My budget is 900 euros. Trains are fine.".to_owned(),
            relevance: 1.0,
            created_at: String::new(),
            number: Some(101),
            cited: false,
        };
        let chunks = [chunk(1, 0, "A lamp burns.")];
        let answer = "The budget is 900 euros [101]. A lamp burns [1]. Nobody said so [102].";
        let (found, unknown) = resolve(answer, "", &chunks, std::slice::from_ref(&memory));
        assert_eq!(unknown, HashSet::from([102]));
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].memory_id.as_deref(), Some("m"));
        assert_eq!(found[0].thread_id.as_deref(), Some("t"));
        assert_eq!((found[0].number, found[0].chunk_id), (101, None));
        assert_eq!(found[0].quote, "My budget is 900 euros.");
        assert_eq!((found[0].start_char, found[0].end_char), (7, 30));
        assert_eq!(found[1].chunk_id, Some(1));
    }
}
