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
        let behind = inner.trim_start_matches(|c: char| c.is_ascii_digit());
        match behind.strip_prefix(']') {
            Some(after) if behind.len() < inner.len() => {
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
    }
}
