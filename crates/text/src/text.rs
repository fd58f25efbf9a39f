//! Text rules that several layers share.

use unicode_normalization::UnicodeNormalization as _;

use super::sentences::is_abbreviation;

/// Counts characters as memoir does everywhere: Unicode scalar values.
#[must_use]
pub fn char_count(text: &str) -> usize {
    text.chars().count()
}

/// The last segment of a path, with Unix or Windows separators.
#[must_use]
pub fn basename(path: &str) -> &str {
    path.rsplit(['/', '\\'])
        .find(|segment| !segment.is_empty())
        .unwrap_or("")
}

/// Whether a path is absolute: `/a`, `C:\a`, `C:/a` or `\\host\share`.
#[must_use]
pub fn is_absolute_path(path: &str) -> bool {
    let drive = |p: &[u8]| {
        p.len() >= 3 && p[0].is_ascii_alphabetic() && p[1] == b':' && matches!(p[2], b'/' | b'\\')
    };
    path.starts_with('/') || path.starts_with("\\\\") || drive(path.as_bytes())
}

/// Whether the text contains a control character (including line breaks and tabs), which no name
/// may.
#[must_use]
pub fn has_control(text: &str) -> bool {
    text.chars().any(char::is_control)
}

/// Whether the text contains a control character other than line breaks and tabs.
#[must_use]
pub fn has_control_but_breaks(text: &str) -> bool {
    text.chars()
        .any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
}

/// The key by which category names are equal: NFKC, case folded, white space collapsed.
#[must_use]
pub fn name_key(name: &str) -> String {
    // Most names are ASCII, and keys are computed for every list that a model chooses from.
    if name.is_ascii() {
        one_line(&name.to_ascii_lowercase())
    } else {
        folded(name)
    }
}

fn folded(name: &str) -> String {
    // Upper and then lower case folds what lower case alone does not, such as ß and SS.
    one_line(
        &name
            .nfkc()
            .collect::<String>()
            .to_uppercase()
            .to_lowercase(),
    )
    .nfkc()
    .collect()
}

/// The text on one line, with every run of white space as one space.
#[must_use]
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A category name as it is stored: on one line, and without the separator of paths.
#[must_use]
pub fn category_name(name: &str) -> String {
    one_line(name).replace(" / ", "/")
}

/// Maximum characters of a category name.
pub const MAX_NAME_CHARS: usize = 100;
/// Maximum characters of its key; some letters fold to several.
const MAX_KEY_CHARS: usize = 400;

/// What is wrong with a category name.
#[must_use]
pub fn name_fault(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("must not be empty".to_owned());
    }

    if char_count(name) > MAX_NAME_CHARS || char_count(&name_key(name)) > MAX_KEY_CHARS {
        return Some(format!("must have at most {MAX_NAME_CHARS} characters"));
    }

    if has_control(name) {
        return Some("must not contain control characters".to_owned());
    }

    (!name.chars().any(char::is_alphanumeric))
        .then(|| "must contain a letter or a digit".to_owned())
}

/// Sentences, each with the white space that follows it; joined, they are the text.
///
/// A sentence ends with `.`, `!` or `?` before white space or the end, or with `。`, `！` or `？`;
/// the full stop of an abbreviation ends none.
pub fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }

        let (sentence, after) = rest.split_at(sentence_end(rest));
        rest = after;
        Some(sentence)
    })
}

fn sentence_end(text: &str) -> usize {
    // Where the marks begin that may end the sentence.
    let mut marks: Option<usize> = None;
    for (index, c) in text.char_indices() {
        match (c, marks) {
            ('.' | '!' | '?' | '。' | '！' | '？', _) => marks = marks.or(Some(index)),
            ('"' | '\'' | ')' | '”' | '’', Some(_)) => {}
            (_, Some(at)) if c.is_whitespace() => {
                let (sentence, space) = text.split_at(index);
                if &sentence[at..] == "." && is_abbreviation(&sentence[..at], space) {
                    marks = None;
                    continue;
                }

                return index + (space.len() - space.trim_start().len());
            }
            // Without a space, only the full-width marks end a sentence: not `3.50` or `e.g.x`.
            (_, Some(_)) if text[..index].ends_with(['。', '！', '？']) => return index,
            _ => marks = None,
        }
    }

    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_the_same_have_one_key() {
        for (one, other) in [
            (" FINANCE ", "Finance"),
            ("Ｆｉｎａｎｃｅ", "finance"),
            ("Card  delivery", "card delivery"),
            ("ÉCOLE", "école"),
        ] {
            assert_eq!(name_key(one), name_key(other), "{one} {other}");
        }

        assert_ne!(name_key("Cafe"), name_key("Café"));
        assert_eq!(category_name(" A / B\nC "), "A/B C");
    }

    #[test]
    fn the_fast_path_gives_the_same_key() {
        let all: String = (0..128_u8).map(char::from).collect();
        for name in [
            all.as_str(),
            " Card\tDelivery\r\n2 ",
            "",
            "A/B",
            &all.repeat(2),
        ] {
            assert_eq!(name_key(name), folded(name), "{name:?}");
        }
    }

    #[test]
    fn splits_sentences_as_a_reader_would() {
        for (text, wanted) in [
            ("One. Two! Three?", vec!["One. ", "Two! ", "Three?"]),
            (
                "It is $3.50 now. No tail",
                vec!["It is $3.50 now. ", "No tail"],
            ),
            (
                "He said \"no.\" Then left.",
                vec!["He said \"no.\" ", "Then left."],
            ),
            (
                "\"Mrs. Hill met J. R. R. Tolkien. and left.\" No. Well.",
                vec![
                    "\"Mrs. Hill met J. R. R. Tolkien. ",
                    "and left.\" ",
                    "No. ",
                    "Well.",
                ],
            ),
            ("你好。世界！", vec!["你好。", "世界！"]),
            ("", vec![]),
        ] {
            assert_eq!(sentences(text).collect::<Vec<_>>(), wanted);
        }
    }

    #[test]
    fn the_basename_is_the_last_segment() {
        for (path, name) in [
            ("a/b/c.md", "c.md"),
            ("C:\\x\\y.txt", "y.txt"),
            ("plain", "plain"),
            ("/", ""),
            ("", ""),
            ("a/b/", "b"),
        ] {
            assert_eq!(basename(path), name, "{path}");
        }
    }

    #[test]
    fn recognises_absolute_paths_of_unix_and_windows() {
        for path in ["/a", "C:\\a", "c:/a", "\\\\host\\share"] {
            assert!(is_absolute_path(path), "{path}");
        }
        for path in ["a", "./a", "../a", "C:a", ""] {
            assert!(!is_absolute_path(path), "{path}");
        }
    }
}
