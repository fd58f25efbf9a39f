//! Sentences as an answer quotes them: on one line, without marks that look like citations, with the
//! number of their chunk.

use memoir_text::sentences;

/// Maximum characters of a quotation.
pub const LONGEST: usize = 400;

/// The words of a sentence, so that the same sentence of another chunk is recognised.
pub fn spoken_words(sentence: &str) -> String {
    let words = without_marks(sentence).to_lowercase();
    let words = words.split(|c: char| !c.is_alphanumeric());
    words
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// The text without numbers in brackets, which would look like citations of other chunks.
pub fn without_marks(text: &str) -> String {
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

/// A sentence with the number of its chunk.
pub fn quote(sentence: &str, chunk_id: i64) -> String {
    let flat = sentences::cut(&sentences::flat(&without_marks(sentence)), LONGEST);
    let bare = flat.trim_end_matches(['.', '!', '?', '。', ' ', ':', ';', ',']);
    format!("{bare} [{chunk_id}].")
}

#[cfg(test)]
mod tests {
    use super::without_marks;

    #[test]
    fn numbers_in_brackets_are_left_out() {
        assert_eq!(without_marks("a [1] b [x] c[23]."), "a b [x] c.");
    }
}
