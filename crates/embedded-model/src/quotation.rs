//! Sentences as an answer quotes them: on one line, without marks that look like citations, with the
//! number of their chunk.

use memoir_text::sentences;

/// Maximum characters of a quotation.
pub const LONGEST: usize = 400;

/// The words of a sentence as far as it is quoted, so that it is recognised in an answer and in
/// another chunk.
pub fn quoted_words(sentence: &str) -> String {
    spoken_words(&quoted(sentence))
}

/// The words of a text, in lower case.
pub fn spoken_words(text: &str) -> String {
    let words = without_marks(text).to_lowercase();
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
        let inner = &rest[at + 1..];
        // Numbers have no bracket among them, so only the nearest one can close them.
        let end = inner.find(['[', ']']).unwrap_or(inner.len());
        match inner[end..].strip_prefix(']') {
            Some(after) if is_mark(&inner[..end]) => {
                kept.push_str(rest[..at].trim_end());
                rest = after;
            }
            _ => {
                kept.push_str(&rest[..=at]);
                rest = inner;
            }
        }
    }

    kept + rest
}

/// Whether what is in brackets may pass for the numbers of chunks: `1`, `1, 2`, `chunk 1`.
fn is_mark(inner: &str) -> bool {
    let separates = |c: char| {
        c.is_whitespace()
            || matches!(
                c,
                ',' | ';' | '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}'
            )
    };
    let mut parts = inner.split(separates).filter(|part| !part.is_empty());
    let mut has_number = false;
    let is_number = |part: &str| {
        let part = part.trim_start_matches(['c', 'C', 'h', 'u', 'n', 'k']);
        part.bytes().all(|byte| byte.is_ascii_digit())
    };
    parts.all(|part| {
        has_number |= part.ends_with(|c: char| c.is_ascii_digit());
        is_number(part)
    }) && has_number
}

/// A sentence on one line, without marks, shortened.
pub fn quoted(sentence: &str) -> String {
    sentences::cut(&sentences::flat(&without_marks(sentence)), LONGEST)
}

/// A sentence with the number of its chunk.
pub fn quote(sentence: &str, chunk_id: i64) -> String {
    let flat = quoted(sentence);
    let bare = flat.trim_end_matches(['.', '!', '?', '。', ' ', ':', ';', ',']);
    format!("{bare} [{chunk_id}].")
}

#[cfg(test)]
mod tests {
    use super::without_marks;

    #[test]
    fn numbers_in_brackets_are_left_out() {
        assert_eq!(without_marks("a [1] b [x] c[23]."), "a b [x] c.");
        assert_eq!(without_marks("a [] [[4] [5 [6]"), "a [] [ [5");
        assert_eq!(
            without_marks("a [1, 2] b [ 3;4 ] [chunk 5] [Chunk6]."),
            "a b."
        );
        assert_eq!(without_marks("a [\u{200b}1] [1\u{a0}2] b"), "a b");
        for kept in ["a [,] b", "[chunk] b", "a [2026-01-31]", "a [1.2]", "[v1]"] {
            assert_eq!(without_marks(kept), kept);
        }
    }
}
