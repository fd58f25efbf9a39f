//! Splits a chunk into sentences and joins them again as one paragraph. Guarantees slices of the
//! chunk in order, none of them empty, for any script.

/// Words that end with a full stop without ending a sentence.
const ABBREVIATIONS: [&str; 22] = [
    "mr", "mrs", "ms", "dr", "prof", "st", "vs", "etc", "e.g", "i.e", "no", "fig", "jr", "sr",
    "inc", "ltd", "co", "u.s", "approx", "dept", "gen", "vol",
];

/// The sentences of a chunk. Blank lines, headings and list items end one too.
pub fn split(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut chars = text.char_indices().peekable();

    while let Some((at, c)) = chars.next() {
        let after = at + c.len_utf8();
        let next = chars.peek().map(|(_, n)| *n);
        let ends = match c {
            '。' | '！' | '？' => true,
            '.' | '!' | '?' | '…' => {
                next.is_none_or(|n| n.is_whitespace() || n == '"' || n == '”')
                    && !(c == '.' && is_abbreviation(&text[start..at]))
            }
            '\n' => {
                next.is_none_or(|n| matches!(n, '\n' | '-' | '*' | '#' | '•'))
                    || heading(&text[start..at])
            }
            _ => false,
        };

        if ends {
            push(&mut found, &text[start..after]);
            start = after;
        }
    }

    push(&mut found, &text[start..]);
    found
}

fn push<'t>(found: &mut Vec<&'t str>, piece: &'t str) {
    let piece = piece.trim_matches(|c: char| c.is_whitespace() || c == '"' || c == '”');
    if piece.chars().any(char::is_alphanumeric) {
        found.push(piece);
    }
}

fn heading(piece: &str) -> bool {
    piece.trim_start().starts_with('#')
}

fn is_abbreviation(before: &str) -> bool {
    let word = before
        .rsplit(|c: char| c.is_whitespace() || c == '(')
        .next()
        .unwrap_or("");

    let initial = word.chars().count() == 1 && word.chars().all(char::is_uppercase);
    initial || ABBREVIATIONS.iter().any(|a| a.eq_ignore_ascii_case(word))
}

/// A sentence on one line: white space becomes single spaces, and list and heading marks at its
/// start are removed.
pub fn flat(sentence: &str) -> String {
    let bare = sentence.trim_start_matches(['#', '*', '-', '>', '•', ' ', '\t']);
    bare.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// At most `limit` characters of a text, cut between words if there are words.
pub fn cut(text: &str, limit: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(limit) else {
        return text.to_string();
    };
    let head = &text[..end];
    let whole = text[end..].starts_with(char::is_whitespace);
    match head.rfind(char::is_whitespace) {
        Some(space) if !whole && space > end / 2 => head[..space].trim_end().to_string(),
        _ => head.trim_end().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_many_kinds_of_sentences() {
        for (text, wanted) in [
            ("One. Two! Three?", vec!["One.", "Two!", "Three?"]),
            (
                "Mr. Smith met J. Doe. He left.",
                vec!["Mr. Smith met J. Doe.", "He left."],
            ),
            (
                "It costs 3.50 now. Good.",
                vec!["It costs 3.50 now.", "Good."],
            ),
            ("你好。世界！", vec!["你好。", "世界！"]),
            (
                "# Title\nBody text\ngoes on.",
                vec!["# Title", "Body text\ngoes on."],
            ),
            ("- a thing\n- b thing", vec!["- a thing", "- b thing"]),
            ("", vec![]),
            ("...", vec![]),
        ] {
            assert_eq!(split(text), wanted, "{text}");
        }
    }

    #[test]
    fn shortened_texts_keep_to_the_limit() {
        for (text, limit, wanted) in [
            ("short", 10, "short"),
            ("one two three", 8, "one two"),
            ("one two three", 7, "one two"),
            ("nospaces", 3, "nos"),
            ("机器学习", 2, "机器"),
        ] {
            assert_eq!(cut(text, limit), wanted);
        }
    }
}
