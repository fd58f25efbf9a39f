//! Splits a text into chunks: lossless, at the delimiters, within a range of tokens.
//!
//! Between the minimum and the maximum number of tokens, a cut falls after the last blank line,
//! else the last line break, else the last full stop before a space, else any delimiter; only if
//! there is none, between two tokens. Joined, the chunks are the text.

use std::ops::Range;

use memoir_text::text::char_count;
use memoir_text::tokens::TokenCounter;

use super::fragments::{CutQuality, Fragment, fragments};

/// The rules of cutting.
#[derive(Debug, Clone)]
pub struct ChunkRules {
    /// Strings after which a cut may fall.
    pub delimiters: Vec<String>,
    pub min_tokens: usize,
    pub max_tokens: usize,
}

/// A chunk of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextChunk {
    /// In bytes.
    pub range: Range<usize>,
    /// In characters; the end is exclusive.
    pub start_char: usize,
    pub end_char: usize,
    pub token_count: usize,
}

/// Cuts the text. An empty text has no chunks.
pub fn cut(text: &str, rules: &ChunkRules, counter: TokenCounter) -> Vec<TextChunk> {
    cut_at(
        text,
        &fragments(text, &rules.delimiters, counter),
        rules,
        counter,
    )
}

/// Cuts the text at the ends of its fragments.
pub(super) fn cut_at(
    text: &str,
    fragments: &[Fragment],
    rules: &ChunkRules,
    counter: TokenCounter,
) -> Vec<TextChunk> {
    let mut found: Vec<TextChunk> = Vec::new();
    let (mut start, mut next) = (0, 0);
    while start < text.len() {
        let (end, tokens) = next_cut(text, start, &fragments[next..], rules, counter);
        next += fragments[next..]
            .iter()
            .take_while(|fragment| fragment.end <= end)
            .count();

        found.push(chunk(text, start..end, tokens, found.last()));
        start = end;
    }

    join_short_tail(text, &mut found, rules, counter);
    found
}

fn chunk(
    text: &str,
    range: Range<usize>,
    token_count: usize,
    previous: Option<&TextChunk>,
) -> TextChunk {
    let start_char = previous.map_or(0, |previous| previous.end_char);
    let end_char = start_char + char_count(&text[range.clone()]);
    TextChunk {
        range,
        start_char,
        end_char,
        token_count,
    }
}

/// The end and the token count of the chunk that begins at `start`.
fn next_cut(
    text: &str,
    start: usize,
    fragments: &[Fragment],
    rules: &ChunkRules,
    counter: TokenCounter,
) -> (usize, usize) {
    let (places, whole) = places(text, start, fragments, rules, counter, false);
    let whole = whole
        .then(|| fitting(&text[start..], rules, counter))
        .flatten();
    if let Some(tokens) = whole {
        return (text.len(), tokens);
    }

    best_of(text, start, places, rules, counter)
        .or_else(|| {
            // The sums were too optimistic; searching further takes longer, and hardly any text
            // needs it.
            let (places, _) = self::places(text, start, fragments, rules, counter, true);
            best_of(text, start, places, rules, counter)
        })
        .unwrap_or_else(|| forced_cut(text, start, rules, counter))
}

/// The positions whose sums of tokens allow a cut, and whether the rest of the text may be one
/// chunk. Sums often exceed the count of the whole, because tokens merge across positions: with
/// `recount`, a sum that seems too large is counted exactly, and continues from there.
fn places(
    text: &str,
    start: usize,
    fragments: &[Fragment],
    rules: &ChunkRules,
    counter: TokenCounter,
    recount: bool,
) -> (Vec<(CutQuality, usize)>, bool) {
    let mut places = Vec::new();
    let mut tokens = 0;
    let mut from = start;

    for fragment in fragments {
        tokens += if from == fragment.start {
            fragment.tokens
        } else {
            rest(&text[from..fragment.end], rules, counter)
        };

        from = fragment.end;
        if tokens > rules.max_tokens && recount {
            tokens = rest(&text[start..from], rules, counter);
        }

        if tokens > rules.max_tokens {
            return (places, false);
        }

        // A sum may also be slightly too small.
        if recount || tokens >= rules.min_tokens {
            places.push((fragment.quality, fragment.end));
        }
    }

    (places, from == text.len())
}

/// The last of the best positions, and the tokens up to there. The counts of parts do not add up
/// exactly, so the whole is counted once more and must be within the range.
fn best_of(
    text: &str,
    start: usize,
    mut places: Vec<(CutQuality, usize)>,
    rules: &ChunkRules,
    counter: TokenCounter,
) -> Option<(usize, usize)> {
    places.sort_unstable();
    // What lies before a position that is too near, or behind one that is too far, need not be
    // counted.
    let (mut near, mut far) = (start, usize::MAX);
    for (_, end) in places.into_iter().rev() {
        if end <= near || end >= far {
            continue;
        }

        let tokens = counter.count(&text[start..end]);
        if tokens > rules.max_tokens {
            far = end;
        } else if tokens < rules.min_tokens {
            near = end;
        } else {
            return Some((end, tokens));
        }
    }

    None
}

/// The tokens of what a forced cut left of a fragment; for a long one only that they are too many,
/// because it would be counted again after every cut.
fn rest(text: &str, rules: &ChunkRules, counter: TokenCounter) -> usize {
    let most = rules.max_tokens + 1;
    if counter.prefix(text, most) < text.len() {
        most
    } else {
        counter.count(text)
    }
}

/// The tokens of a text that is not too large.
fn fitting(text: &str, rules: &ChunkRules, counter: TokenCounter) -> Option<usize> {
    Some(counter.count(text)).filter(|tokens| *tokens <= rules.max_tokens)
}

/// The end of the maximum number of tokens; at least one character.
fn forced_cut(
    text: &str,
    start: usize,
    rules: &ChunkRules,
    counter: TokenCounter,
) -> (usize, usize) {
    let mut allowed = rules.max_tokens;
    while allowed > 0 {
        let end = start + counter.prefix(&text[start..], allowed);
        if end > start
            && let Some(tokens) = fitting(&text[start..end], rules, counter)
        {
            return (end, tokens);
        }
        allowed -= 1;
    }

    let end = start + text[start..].chars().next().map_or(0, char::len_utf8);
    (end, counter.count(&text[start..end]))
}

/// A tail that is too short joins the previous chunk, if that stays within its limit.
fn join_short_tail(
    text: &str,
    found: &mut Vec<TextChunk>,
    rules: &ChunkRules,
    counter: TokenCounter,
) {
    let [.., before, tail] = found.as_slice() else {
        return;
    };
    let range = before.range.start..tail.range.end;
    if tail.token_count >= rules.min_tokens {
        return;
    }

    if let Some(tokens) = fitting(&text[range.clone()], rules, counter) {
        found.truncate(found.len() - 2);
        let joined = chunk(text, range, tokens, found.last());
        found.push(joined);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy, prop, prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn rules(delimiters: &[&str], min_tokens: usize, max_tokens: usize) -> ChunkRules {
        ChunkRules {
            delimiters: delimiters.iter().map(ToString::to_string).collect(),
            min_tokens,
            max_tokens,
        }
    }

    fn texts<'t>(text: &'t str, rules: &ChunkRules) -> Vec<&'t str> {
        cut(text, rules, TokenCounter::for_model(None))
            .into_iter()
            .map(|chunk| &text[chunk.range])
            .collect()
    }

    #[test]
    fn splits_at_the_best_delimiter() {
        let usual = ["." as &str, "\n"];
        for (text, delimiters, min, max, wanted) in [
            ("", &usual[..], 3, 6, vec![]),
            ("one two", &usual, 3, 6, vec!["one two"]),
            (
                "a b c d.\n\ne f g h. i j",
                &usual,
                3,
                8,
                vec!["a b c d.\n\n", "e f g h. i j"],
            ),
            (
                "a b c. d e f. g h i. j k",
                &usual,
                3,
                9,
                vec!["a b c. d e f.", " g h i. j k"],
            ),
            (
                "v1.2.3 a b c d. e f g h",
                &usual,
                4,
                12,
                vec!["v1.2.3 a b c d.", " e f g h"],
            ),
            ("a; b. c; d", &[";"], 1, 4, vec!["a;", " b. c;", " d"]),
        ] {
            assert_eq!(
                texts(text, &rules(delimiters, min, max)),
                wanted,
                "{text:?}"
            );
        }
    }

    #[test]
    fn keeps_headings_code_and_rows_together() {
        let usual = ["." as &str, "\n"];
        let prose = "one two three four five six. ".repeat(3);
        let code = "let a = 1.\n".repeat(6);
        for (text, wanted) in [
            (
                format!("{prose}\n\n# Next\n\n{prose}\n"),
                vec![format!("{prose}\n\n"), format!("# Next\n\n{prose}\n")],
            ),
            (
                format!("a b c d e.\n\n```\n{code}```\n\nmore text here\n"),
                vec![
                    "a b c d e.\n\n".to_owned(),
                    format!("```\n{code}```\n\n"),
                    "more text here\n".to_owned(),
                ],
            ),
            (
                "| a. b. c. d. e. f. | x. y. z. a. b. |\n| a. b. c. d. e. f. | x. y. z. a. b. |\n"
                    .to_owned(),
                vec!["| a. b. c. d. e. f. | x. y. z. a. b. |\n".to_owned(); 2],
            ),
        ] {
            assert_eq!(texts(&text, &rules(&usual, 6, 40)), wanted, "{text:?}");
        }
    }

    #[test]
    fn splits_text_without_delimiters() {
        let rules = rules(&[".", "\n"], 300, 500);
        for text in [
            "word ".repeat(2000),
            "你好世界".repeat(2000),
            "a".repeat(50_000),
            "🦀".repeat(3000),
        ] {
            let found = cut(&text, &rules, TokenCounter::for_model(None));
            assert!(
                found.len() >= 2 && found.iter().all(|chunk| chunk.token_count <= 500),
                "{}",
                found.len()
            );
            assert_eq!(
                found
                    .iter()
                    .map(|chunk| &text[chunk.range.clone()])
                    .collect::<String>(),
                text
            );
        }
    }

    #[test]
    fn chunks_of_prose_tables_and_quotations_keep_to_their_range() {
        let prose = "The harbour lay still that morning, and nobody spoke. ".repeat(400);
        let contents = format!("Chapter One {} 12\n", ".".repeat(60)).repeat(400);
        let spoken = "\"No.\"\"Yes.\"\"...\"".repeat(1500);
        let dots = ".".repeat(100_000);

        for text in [prose, contents, spoken, dots] {
            let found = cut(
                &text,
                &rules(&[".", "\n"], 300, 500),
                TokenCounter::for_model(None),
            );

            let (last, others) = found.split_last().unwrap();
            assert!(others.len() > 1);
            assert!(
                others
                    .iter()
                    .all(|chunk| (300..=500).contains(&chunk.token_count)),
                "{found:?}"
            );

            assert!(last.token_count <= 500);
            assert_eq!(last.end_char, char_count(&text));
        }
    }

    fn any_text() -> impl Strategy<Value = String> {
        let word = prop::sample::select(vec![
            "alpha", "b", ".", ". ", "\n", "\n\n", " ", "é", "你好", "🦀", ";", "\r\n", "e.g.",
            "3.50", "\"", "......",
        ]);
        prop::collection::vec(word, 0..120).prop_map(|words| words.concat())
    }

    proptest! {
        #[test]
        fn joined_chunks_are_the_text_and_never_too_large(text in any_text(), min in 1_usize..12, more in 1_usize..12) {
            let rules = rules(&[".", "\n"], min, min + more);
            let found = cut(&text, &rules, TokenCounter::for_model(None));
            let joined: String = found.iter().map(|chunk| &text[chunk.range.clone()]).collect();
            prop_assert_eq!(&joined, &text);
            let mut at = 0;

            for chunk in &found {
                let part = &text[chunk.range.clone()];
                prop_assert_eq!((chunk.start_char, chunk.end_char), (at, at + char_count(part)));
                at = chunk.end_char;
                prop_assert_eq!(chunk.token_count, TokenCounter::for_model(None).count(part));

                // A single character may have more tokens than that.
                prop_assert!(chunk.token_count <= min + more || char_count(part) == 1, "{chunk:?}");
            }
        }

        #[test]
        fn chunks_are_large_enough_where_delimiters_allow(text in any_text(), min in 1_usize..12, more in 1_usize..12) {
            let (rules, counter) = (rules(&[".", "\n"], min, min + more), TokenCounter::for_model(None));
            let fragments = fragments(&text, &rules.delimiters, counter);
            let found = cut(&text, &rules, counter);

            for chunk in found.iter().take(found.len().saturating_sub(1)) {
                let at_a_place = fragments.iter().any(|fragment| fragment.end == chunk.range.end);
                if at_a_place && chunk.token_count >= min {
                    continue;
                }

                for fragment in fragments.iter().filter(|fragment| fragment.end > chunk.range.start) {
                    let tokens = counter.count(&text[chunk.range.start..fragment.end]);
                    prop_assert!(!(min..=min + more).contains(&tokens), "{chunk:?} {fragment:?}");
                }
            }
        }
    }
}
