//! Answers a query with matching sentences from the given chunks. Guarantees that every sentence is
//! quoted from a chunk, with its number, and that the answer says so if nothing matches.

use super::AnswerChunk;
use super::rank::{self, Rarity, Terms};
use super::sentences;

const NOTHING: &str = "The chunks found do not answer this question.";
/// Maximum sentences of an answer.
const SENTENCES: usize = 3;
/// Relevance below which a sentence is not an answer.
const ENOUGH: f32 = 0.22;
/// Share of the best relevance that a further sentence needs.
const CLOSE: f32 = 0.75;
/// Maximum characters of a quotation.
const LONGEST: usize = 400;

struct Found<'a> {
    chunk_id: i64,
    text: &'a str,
    terms: Terms,
}

/// The answering sentences, best first, each with the number of its chunk in brackets.
pub fn answer(query: &str, chunks: &[AnswerChunk<'_>]) -> String {
    let question = Terms::of(query);
    let found: Vec<Found<'_>> = chunks.iter().flat_map(sentences_of).collect();
    let rarity = Rarity::of(found.iter().map(|f| &f.terms));
    let mut scored: Vec<(f32, &Found<'_>)> = found
        .iter()
        .map(|f| (score(&rarity, &question, f), f))
        .collect();

    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    let Some(best) = scored
        .first()
        .map(|(score, _)| *score)
        .filter(|s| *s >= ENOUGH)
    else {
        return NOTHING.to_string();
    };

    let mut said: Vec<String> = Vec::new();
    for (_, sentence) in scored
        .iter()
        .take_while(|(s, _)| *s >= (best * CLOSE).max(ENOUGH))
    {
        let quoted = quote(sentence.text, sentence.chunk_id);
        if said.len() < SENTENCES && !said.contains(&quoted) {
            said.push(quoted);
        }
    }

    said.join(" ")
}

fn sentences_of<'a>(chunk: &AnswerChunk<'a>) -> Vec<Found<'a>> {
    let id = chunk.chunk_id;
    let pieces = sentences::split(chunk.text).into_iter();
    pieces
        .map(|text| Found {
            chunk_id: id,
            text,
            terms: Terms::of(text),
        })
        .collect()
}

/// A question is not an answer, and a heading or an exclamation says little.
fn score(rarity: &Rarity, question: &Terms, found: &Found<'_>) -> f32 {
    let asks = if found.text.contains(['?', '？']) {
        0.6
    } else {
        1.0
    };

    let words = found.text.split_whitespace().take(6).count();
    let brief = if words < 6 && found.text.is_ascii() {
        0.8
    } else {
        1.0
    };

    asks * brief * rank::relevance(rarity, question, &found.terms)
}

fn quote(sentence: &str, chunk_id: i64) -> String {
    let flat = sentences::cut(&sentences::flat(sentence), LONGEST);
    let bare = flat.trim_end_matches(['.', '!', '?', '。', ' ', ':', ';', ',']);
    format!("{bare} [{chunk_id}].")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOP: &str =
        "Our shop opens at nine. Refunds take 14 days after we get the parcel. Pets are welcome.";
    const WHALE: &str = "Call me Ishmael. The whale had a crooked jaw. Captain Ahab lost his leg to the white whale off Japan.";

    #[test]
    fn quotes_the_answering_sentence() {
        let chunks = [
            AnswerChunk {
                chunk_id: 12,
                path: "Shop",
                text: SHOP,
            },
            AnswerChunk {
                chunk_id: 7,
                path: "Novels",
                text: WHALE,
            },
        ];
        for (question, wanted) in [
            (
                "How long do refunds take?",
                "Refunds take 14 days after we get the parcel [12].",
            ),
            ("When does the shop open?", "Our shop opens at nine [12]."),
            (
                "How did Ahab lose his leg?",
                "Captain Ahab lost his leg to the white whale off Japan [7].",
            ),
        ] {
            assert!(
                answer(question, &chunks).starts_with(wanted),
                "{}",
                answer(question, &chunks)
            );
        }
    }

    #[test]
    fn says_so_if_the_chunks_do_not_answer() {
        let chunks = [AnswerChunk {
            chunk_id: 7,
            path: "",
            text: WHALE,
        }];

        assert_eq!(
            answer("What is the capital gains tax rate?", &chunks),
            NOTHING
        );

        assert_eq!(answer("", &chunks), NOTHING);
        assert_eq!(answer("Who?", &[]), NOTHING);
    }
}
