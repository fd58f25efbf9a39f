//! Cuts a text into search chunks: longer than filed chunks, and overlapping, so that text at a
//! boundary is complete in one of the two.
//!
//! A chunk ends after a blank line, else a line break, else a sentence, else a word, in its last
//! quarter; the next begins about `overlap` tokens before that, at such a position too.

use memoir_text::text::char_count;
use memoir_text::tokens::TokenCounter;

use super::chunker::TextChunk;
use super::fragments::{CutQuality, Fragment};

/// Maximum tokens of a part that is not cut further: short enough to meet the overlap.
const LONGEST: usize = 64;

/// How often a position is searched again if the counts of parts do not add up.
const TRIES: usize = 6;

/// Where to cut, best positions first.
pub const DELIMITERS: [&str; 2] = [".", "\n"];

/// Cuts a text of fragments that end at [`DELIMITERS`]. An empty text has no chunks.
pub fn cut_overlapping(
    text: &str,
    fragments: &[Fragment],
    (max_tokens, overlap): (usize, usize),
    counter: TokenCounter,
) -> Vec<TextChunk> {
    let longest = if overlap == 0 {
        LONGEST
    } else {
        (overlap / 3).clamp(8, LONGEST)
    }
    .min(max_tokens.max(1));

    let mut units = Vec::with_capacity(fragments.len());
    for fragment in fragments {
        split(text, *fragment, longest, counter, &mut units);
    }

    let chars: Vec<usize> = units
        .iter()
        .map(|unit| char_count(&text[unit.start..unit.end]))
        .collect();

    let mut found: Vec<TextChunk> = Vec::new();
    let (mut first, mut start_char, mut covered) = (0, 0, 0);
    while first < units.len() {
        let (mut end, mut token_count) =
            end_of(text, &units, (first, covered), max_tokens, counter);
        if end <= covered {
            // The overlap leaves no space for more, so here they share nothing.
            start_char += chars[first..covered].iter().sum::<usize>();
            first = covered;
            (end, token_count) = end_of(text, &units, (first, covered), max_tokens, counter);
        }

        covered = end;
        let range = units[first].start..units[end - 1].end;
        let end_char = start_char + chars[first..end].iter().sum::<usize>();
        found.push(TextChunk {
            range,
            start_char,
            end_char,
            token_count,
        });

        if end == units.len() {
            break;
        }

        let next = begin_of(text, &units, first, end, overlap, counter);
        start_char += chars[first..next].iter().sum::<usize>();
        first = next;
    }

    found
}

/// The end and the token count of the chunk that begins with a unit; beyond what is covered, if
/// possible.
fn end_of(
    text: &str,
    units: &[Fragment],
    (first, covered): (usize, usize),
    max_tokens: usize,
    counter: TokenCounter,
) -> (usize, usize) {
    let count = |last: usize| counter.count(&text[units[first].start..units[last - 1].end]);
    let mut best = (0, 0);
    let mut limit = max_tokens;

    for _ in 0..TRIES {
        let last = end_within(units, (first, covered), limit);
        let tokens = count(last);
        if tokens <= max_tokens && last > best.0 {
            best = (last, tokens);
        }

        let short = tokens * 4 < max_tokens * 3 && last < units.len();
        if best.0 > covered && !short && tokens <= max_tokens {
            return best;
        }

        // The counts of parts do not add up exactly: the target moves by the error of the sum.
        let aim = limit.saturating_mul(max_tokens * 7 / 8) / tokens.max(1);
        if aim == limit || tokens > max_tokens && best.0 <= covered {
            break;
        }

        limit = aim.max(1);
    }

    if best.0 > covered {
        return best;
    }

    let mut last = end_within(units, (first, covered), max_tokens);
    loop {
        let tokens = count(last);
        if tokens <= max_tokens || last == first + 1 {
            return (last, tokens);
        }

        last -= 1;
    }
}

/// The best position in the last quarter of as many units as have at most `limit` tokens in sum.
fn end_within(units: &[Fragment], (first, covered): (usize, usize), limit: usize) -> usize {
    let mut sum = 0;
    let fitting = units[first..].iter().take_while(|unit| {
        sum += unit.tokens;
        sum <= limit
    });

    let last = first + fitting.count().max(1);
    if last == units.len() {
        return last;
    }

    let mut tokens = 0;
    let late = |(end, unit): &(usize, &Fragment)| {
        tokens += unit.tokens;
        tokens * 4 >= limit * 3 && *end > covered
    };

    let places = (first + 1..).zip(&units[first..last]).filter(late);
    places
        .max_by_key(|(end, unit)| (unit.quality, *end))
        .map_or(last, |(end, _)| end)
}

/// [`begin_within`], such that the two share about `overlap` tokens when counted together.
fn begin_of(
    text: &str,
    units: &[Fragment],
    first: usize,
    end: usize,
    overlap: usize,
    counter: TokenCounter,
) -> usize {
    let mut best = (end, overlap);
    let mut aim = overlap;
    for _ in 0..TRIES {
        let start = begin_within(units, first, end, aim);
        let Some(unit) = units.get(start).filter(|_| start < end) else {
            break;
        };
        let tokens = counter.count(&text[unit.start..units[end - 1].end]);
        let off = overlap.abs_diff(tokens);
        if off < best.1 || best.0 == end && tokens < overlap * 2 {
            best = (start, off);
        }

        if off * 4 <= overlap || tokens == 0 {
            break;
        }

        aim = aim * overlap / tokens;
    }

    best.0
}

/// Where the next chunk begins: after the best position about `overlap` tokens, in sum, before the
/// end of this one.
fn begin_within(units: &[Fragment], first: usize, end: usize, overlap: usize) -> usize {
    let mut tokens = 0;
    let mut best = (end, CutQuality::Delimiter, overlap);
    for start in (first + 1..end).rev() {
        tokens += units[start].tokens;
        if tokens * 4 > overlap * 5 {
            break;
        }

        let (quality, off) = (units[start - 1].quality, overlap.abs_diff(tokens));
        let near = tokens * 4 >= overlap * 3;

        // Any position is better than none; among the near ones the best, and of these the nearest.
        if !near
            || best.0 == end
            || best.2 * 4 > overlap
            || (quality, std::cmp::Reverse(off)) > (best.1, std::cmp::Reverse(best.2))
        {
            best = (start, quality, off);
        }
    }

    best.0
}

/// Splits a fragment at words, or between two tokens, until no part is too long.
fn split(
    text: &str,
    fragment: Fragment,
    longest: usize,
    counter: TokenCounter,
    units: &mut Vec<Fragment>,
) {
    if fragment.tokens <= longest {
        units.push(fragment);
        return;
    }

    let mut start = fragment.start;
    while start < fragment.end {
        let rest = &text[start..fragment.end];
        let cut = counter.prefix(rest, longest);
        let first = rest.chars().next().map_or(rest.len(), char::len_utf8);
        let mut end = cut.max(first);
        if end < rest.len()
            && let Some(space) = rest[..end]
                .rfind(char::is_whitespace)
                .filter(|space| *space > 0)
        {
            end = space;
        }
        let whole = start + end == fragment.end;
        let quality = if whole {
            fragment.quality
        } else {
            CutQuality::Delimiter
        };
        units.push(Fragment {
            start,
            end: start + end,
            tokens: counter.count(&rest[..end]),
            quality,
        });

        start += end;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy, prop, prop_assert, prop_assert_eq, proptest};

    use super::super::fragments::fragments;
    use super::*;

    fn counter() -> TokenCounter {
        TokenCounter::for_model(None)
    }

    fn cut(text: &str, max_tokens: usize, overlap: usize) -> Vec<TextChunk> {
        let fragments = fragments(text, &DELIMITERS.map(str::to_owned), counter());
        cut_overlapping(text, &fragments, (max_tokens, overlap), counter())
    }

    #[test]
    fn long_texts_overlap_as_much_as_they_should() {
        let prose =
            "The harbour lay still that morning, and nobody spoke of the storm. ".repeat(600);
        let lines = "one line of a list without a stop\n".repeat(1500);
        let bare = "word ".repeat(6000);
        let solid = "漢字".repeat(5000);
        let contents = format!("Chapter One {} 12\n", ".".repeat(60)).repeat(1000);
        let spoken = "\"No.\"\"Yes.\"\"...\"".repeat(3000);
        let dots = ".".repeat(400_000);

        for text in [prose, lines, bare, solid, contents, spoken, dots] {
            let found = cut(&text, 1024, 200);
            assert!(found.len() > 3);
            assert!(found.iter().all(|chunk| chunk.token_count <= 1024));

            for two in found.windows(2) {
                let shared = counter().count(&text[two[1].range.start..two[0].range.end]);
                assert!((150..=250).contains(&shared), "{shared}: {:?}", &text[..20]);
                assert!(two[0].token_count >= 700, "{two:?}");
            }

            assert_eq!(found.last().unwrap().range.end, text.len());
        }
    }

    #[test]
    fn a_short_text_is_one_chunk() {
        let found = cut("A short note.\nNo more.", 1024, 200);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].start_char, found[0].end_char), (0, 22));
        assert!(cut("", 1024, 200).is_empty());
    }

    fn any_text() -> impl Strategy<Value = String> {
        let word = prop::sample::select(vec![
            "alpha", "b", ".", ". ", "\n", "\n\n", " ", "é", "你好", "🦀", "\r\n", "3.5",
        ]);
        prop::collection::vec(word, 0..300).prop_map(|words| words.concat())
    }

    proptest! {
        #[test]
        fn chunks_cover_the_text_and_each_starts_later(text in any_text(), max in 16_usize..60, part in 0_usize..3) {
            let found = cut(&text, max, max * part / 4);
            let mut covered = 0;
            for (place, chunk) in found.iter().enumerate() {
                prop_assert!(chunk.range.start <= covered && chunk.range.end > covered);
                prop_assert!(place == 0 || chunk.range.start > found[place - 1].range.start);
                covered = chunk.range.end;
                prop_assert_eq!(chunk.start_char, char_count(&text[..chunk.range.start]));
                prop_assert_eq!(chunk.end_char, char_count(&text[..chunk.range.end]));

                prop_assert!(chunk.token_count <= max, "{chunk:?}");
            }

            prop_assert_eq!(covered, text.len());
        }
    }
}
