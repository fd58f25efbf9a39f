//! Answers a query with matching sentences from the given chunks. Guarantees that every sentence is
//! quoted from a chunk, with its number, and that the answer says so if nothing matches.

use super::AnswerChunk;
use super::question::{self, Kind};
use super::rank::{self, Rarity, Terms};
use super::sentences;

const NOTHING: &str = "Not found in what is stored.";
/// Maximum sentences of an answer, and of a list.
const SENTENCES: usize = 3;
const ITEMS: usize = 8;
/// Relevance below which a sentence is not an answer.
const ENOUGH: f32 = 0.22;
/// Share of the best relevance that a further sentence needs, and a further item of a list.
const CLOSE: f32 = 0.75;
const CLOSE_ITEM: f32 = 0.6;
/// How much a sentence of another kind than the question asks for counts.
const OTHER_KIND: f32 = 0.8;
/// Share of the words of a question that a sentence must contain to be a yes or a no.
const SURE: f32 = 0.8;
/// Maximum characters of a quotation.
const LONGEST: usize = 400;

struct Found<'a> {
    chunk_id: i64,
    text: &'a str,
    /// The sentence before it, if this one cannot be understood without it.
    before: Option<&'a str>,
    /// The sentence after it.
    after: Option<&'a str>,
    terms: Terms,
}

/// The answering sentences, best first, each with the number of its chunk in brackets.
pub fn answer(query: &str, chunks: &[AnswerChunk<'_>]) -> String {
    let question = Terms::of(query);
    let (kind, code) = (Kind::of(query), question::wants_code(query));
    let found: Vec<Found<'_>> = chunks
        .iter()
        .flat_map(|chunk| sentences_of(chunk, code))
        .collect();
    let rarity = Rarity::of(found.iter().map(|f| &f.terms));
    let mut scored: Vec<(f32, &Found<'_>)> = found
        .iter()
        .map(|f| (score(&rarity, &question, kind, f), f))
        .collect();

    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    let Some((best, first)) = scored.first().filter(|(score, _)| *score >= ENOUGH) else {
        return NOTHING.to_string();
    };

    let (most, close) = match kind {
        Kind::List => (ITEMS, CLOSE_ITEM),
        _ => (SENTENCES, CLOSE),
    };
    let (mut said, mut spoken) = (Vec::new(), Vec::<String>::new());
    for (_, sentence) in scored
        .iter()
        .take_while(|(s, _)| *s >= (best * close).max(ENOUGH))
    {
        let (quoted, words) = (told(sentence, kind), spoken_words(sentence.text));
        let repeats = |before: &String| before.contains(&words) || words.contains(before);
        if said.len() < most && !spoken.iter().any(repeats) {
            said.push(quoted);
            spoken.push(words);
        }
    }

    if kind == Kind::List && said.len() > 1 {
        return said
            .iter()
            .map(|item| format!("- {item}"))
            .collect::<Vec<_>>()
            .join("\n");
    }

    let said = said.join(" ");
    let sure = kind == Kind::YesOrNo && rarity.shared(&question, &first.terms) >= SURE;
    match (sure, question::denies(first.text)) {
        (true, denies) if denies != question::denies(query) => format!("No. {said}"),
        (true, _) => format!("Yes. {said}"),
        (false, _) => said,
    }
}

/// A sentence with as much around it as is needed to understand it.
fn told(found: &Found<'_>, kind: Kind) -> String {
    let quoted = quote(found.text, found.chunk_id);
    if let Some(before) = found.before {
        return format!(
            "{} {quoted}",
            sentences::cut(&sentences::flat(before), LONGEST)
        );
    }

    match found.after {
        Some(after) if !kind.is_in(found.text) && kind.is_in(after) => {
            let first = sentences::cut(&sentences::flat(found.text), LONGEST);
            format!("{first} {}", quote(after, found.chunk_id))
        }
        _ => quoted,
    }
}

/// The sentences of a chunk; those of code and data only if they are asked for.
fn sentences_of<'a>(chunk: &AnswerChunk<'a>, code: bool) -> Vec<Found<'a>> {
    let id = chunk.chunk_id;
    let pieces: Vec<&str> = sentences::split(chunk.text)
        .into_iter()
        .filter(|piece| code || !is_code(piece))
        .collect();

    (0..pieces.len())
        .map(|at| {
            let text = pieces[at];
            let before = at.checked_sub(1).map(|before| pieces[before]);
            let after = pieces.get(at + 1).copied();
            Found {
                chunk_id: id,
                text,
                before: before.filter(|_| question::refers_back(text)),
                after: after.filter(|after| question::refers_back(after)),
                terms: Terms::of(text),
            }
        })
        .collect()
}

/// Whether this is a code fence, JSON or a row of a table rather than a sentence.
fn is_code(piece: &str) -> bool {
    let bare = piece.trim_start();
    let symbols = piece
        .chars()
        .filter(|c| "{}[]();=<>|\\\"".contains(*c))
        .count();
    bare.starts_with(['{', '[', '|', '}']) || piece.contains("```") || symbols * 8 > piece.len()
}

/// A question is not an answer, and a heading or an exclamation says little.
fn score(rarity: &Rarity, question: &Terms, kind: Kind, found: &Found<'_>) -> f32 {
    let asks = if found.text.contains(['?', '？']) {
        0.6
    } else {
        1.0
    };

    let words = found.text.split_whitespace().take(6).count();
    let brief = if words < 6 && found.text.is_ascii() && kind != Kind::List {
        0.8
    } else {
        1.0
    };

    let of_kind = kind.is_in(found.text) || found.after.is_some_and(|after| kind.is_in(after));
    let fitting = if of_kind { 1.0 } else { OTHER_KIND };

    asks * brief * fitting * rank::relevance(rarity, question, &found.terms)
}

/// The words of a sentence, so that the same sentence of another chunk is recognised.
fn spoken_words(sentence: &str) -> String {
    let words = without_marks(sentence).to_lowercase();
    let words = words.split(|c: char| !c.is_alphanumeric());
    words
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// The text without numbers in brackets, which would look like citations of other chunks.
fn without_marks(text: &str) -> String {
    let (mut kept, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('[') {
        let is_number =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let mark = rest[at + 1..].split_once(']');
        if let Some((_, after)) = mark.filter(|(mark, _)| is_number(mark)) {
            kept.push_str(rest[..at].trim_end());
            rest = after;
        } else {
            kept.push_str(&rest[..=at]);
            rest = &rest[at + 1..];
        }
    }

    kept + rest
}

fn quote(sentence: &str, chunk_id: i64) -> String {
    let flat = sentences::cut(&sentences::flat(&without_marks(sentence)), LONGEST);
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
    fn a_sentence_that_several_chunks_have_is_said_once() {
        let chunk = |chunk_id, text| AnswerChunk {
            chunk_id,
            path: "",
            text,
        };
        let chunks = [
            chunk(1, "The lighthouse on the cape was built in 1843."),
            chunk(2, "The lighthouse on the cape was built in 1843 [7]."),
            chunk(
                3,
                "0.961 /notes/cape.md [50] The lighthouse on the cape was built in 1843.",
            ),
        ];
        assert_eq!(
            answer("When was the lighthouse built?", &chunks),
            "The lighthouse on the cape was built in 1843 [1]."
        );
        assert_eq!(without_marks("a [1] b [x] c[23]."), "a b [x] c.");
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

    #[test]
    fn respects_the_kind_of_a_question() {
        let says = |text: &str, question: &str| {
            answer(
                question,
                &[AnswerChunk {
                    chunk_id: 3,
                    path: "",
                    text,
                }],
            )
        };

        let mill = "The mill was built by the river. It was finished in 1843. The mill grinds flour for the town.";
        assert!(
            says(mill, "When was the mill built?").contains("It was finished in 1843 [3]."),
            "{}",
            says(mill, "When was the mill built?")
        );

        let shop = "The shop is not open on Sunday. The shop sells bread.";
        let said = says(shop, "Is the shop open on Sunday?");
        assert!(
            said.starts_with("No. The shop is not open on Sunday [3]."),
            "{said}"
        );

        let data =
            "{\"colour\": \"red\", \"size\": 4}\n\nThe lamp has a red colour, says the keeper.";
        let said = says(data, "What colour has the lamp?");
        assert!(!said.contains('{'), "{said}");
    }
}
