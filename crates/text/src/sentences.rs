//! Splits prose into sentences the way a reader would: abbreviations, quotations and wrapped lines
//! do not end one; headings, list items and lines of data do. Guarantees slices of the text in
//! order, none of them empty, for any script. Also writes a sentence on one line and shortens it.

/// Words that end with a full stop without ending a sentence, in several languages. Letters with
/// full stops between them (`e.g.`, `z.B.`, `J.R.R.`) need no entry.
const ABBREVIATIONS: [&str; 58] = [
    "mr", "mrs", "ms", "mx", "dr", "prof", "st", "messrs", "rev", "hon", "pres", "gov", "sen",
    "rep", "gen", "col", "maj", "capt", "cpt", "lt", "sgt", "jr", "sr", "vs", "etc", "inc", "ltd",
    "co", "corp", "dept", "approx", "ca", "cf", "hr", "hrn", "fr", "frl", "bzw", "vgl", "evtl",
    "ggf", "inkl", "zzgl", "sog", "geb", "dipl", "ing", "mme", "mlle", "mgr", "env", "sra", "srta",
    "dra", "dott", "sig", "al", "resp",
];
/// Words that do so before a number only: "No. 5", but "No. He left."
const BEFORE_NUMBERS: [&str; 17] = [
    "no", "nos", "nr", "num", "fig", "figs", "abb", "vol", "bd", "p", "pp", "art", "abs", "sec",
    "ch", "eq", "tab",
];
/// Dotted letters that end a sentence as often as not.
const TIMES: [&str; 2] = ["a.m", "p.m"];
/// The longest of them, in bytes.
const LONGEST_ABBREVIATION: usize = 16;
/// Longest key of a line such as `hotel limit: 120`, in words.
const KEY_WORDS: usize = 4;

/// The sentences of a text.
pub fn split(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut first_line = true;
    let mut chars = text.char_indices().peekable();

    while let Some((at, c)) = chars.next() {
        let mut after = at + c.len_utf8();
        let ends = match c {
            '。' | '！' | '？' => true,
            '.' | '!' | '?' | '…' => {
                while let Some((at, mark)) = chars.next_if(|(_, next)| closes(*next)) {
                    after = at + mark.len_utf8();
                }
                ends_here(&text[after..])
                    && !(c == '.' && is_abbreviation(&text[start..at], &text[after..]))
            }
            '\n' => {
                // A heading ends with its line, so no later line has to look back to it.
                let heading = first_line && is_heading(&text[start..at]);
                first_line = false;
                heading || starts_anew(&text[after..])
            }
            _ => false,
        };

        if ends {
            push(&mut found, &text[start..after]);
            start = after;
            first_line = true;
        }
    }

    push(&mut found, &text[start..]);
    found
}

/// Whether a piece is a Markdown heading.
pub fn is_heading(piece: &str) -> bool {
    let bare = piece.trim_start();
    let level = bare.len() - bare.trim_start_matches('#').len();
    (1..=6).contains(&level) && bare[level..].starts_with(' ')
}

fn push<'t>(found: &mut Vec<&'t str>, piece: &'t str) {
    let piece = piece.trim();
    if piece.chars().any(char::is_alphanumeric) {
        found.push(piece);
    }
}

/// Marks that may stand between the end of a sentence and the space after it, or repeat the end.
fn closes(c: char) -> bool {
    matches!(
        c,
        '"' | '\'' | '”' | '’' | ')' | ']' | '»' | '.' | '!' | '?' | '…'
    )
}

/// A sentence ends before a space, unless it goes on in lower case: `"Stop!" she said.`
fn ends_here(rest: &str) -> bool {
    let next = rest.trim_start();
    next.is_empty() || (next.len() < rest.len() && !next.starts_with(char::is_lowercase))
}

/// Whether the next line is not the rest of a wrapped sentence: it is blank, an item of a list, a
/// heading, a row of a table, or `key: value`.
fn starts_anew(rest: &str) -> bool {
    let line = rest.lines().next().unwrap_or_default().trim();
    let mark = line.split(' ').next().unwrap_or_default();
    let number = mark.trim_end_matches(['.', ')']);
    let numbered = number.len() < mark.len()
        && !number.is_empty()
        && number.bytes().all(|b| b.is_ascii_digit());

    line.is_empty()
        || matches!(mark, "-" | "*" | "•" | "+" | ">")
        || line.starts_with(['#', '|'])
        || numbered
        || is_data(line)
}

/// Whether a line is `key: value`.
fn is_data(line: &str) -> bool {
    line.split_once(':').is_some_and(|(key, value)| {
        let letters = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | ' ' | '"' | '\'');
        !key.is_empty()
            && key.split(' ').count() <= KEY_WORDS
            && key.chars().all(letters)
            && (value.is_empty() || value.starts_with(' '))
    })
}

/// Whether the full stop between these two belongs to an abbreviation or to an initial.
pub(super) fn is_abbreviation(before: &str, rest: &str) -> bool {
    let next = rest.trim_start();
    if next.is_empty() {
        return false;
    }

    let opens =
        |c: char| c.is_whitespace() || matches!(c, '(' | '[' | '"' | '\'' | '“' | '„' | '‘' | '«');
    let word = before.rsplit(opens).next().unwrap_or("");
    if word.len() > LONGEST_ABBREVIATION {
        return false;
    }

    let lower = word.to_lowercase();
    let single = |part: &str| part.chars().count() == 1 && part.chars().all(char::is_alphabetic);
    let initial = single(word) && word.chars().all(char::is_uppercase);
    let dotted = word.contains('.') && word.split('.').all(single) && !TIMES.contains(&&*lower);
    let numbered =
        BEFORE_NUMBERS.contains(&&*lower) && next.starts_with(|c: char| c.is_ascii_digit());
    initial || dotted || numbered || ABBREVIATIONS.contains(&&*lower)
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
    fn splits_as_a_reader_would() {
        for (text, wanted) in [
            ("One. Two! Three?", vec!["One.", "Two!", "Three?"]),
            (
                "It is tuned by Mr. Hašek. J. Doe pays.",
                vec!["It is tuned by Mr. Hašek.", "J. Doe pays."],
            ),
            (
                "It costs 3.50 now. Good.",
                vec!["It costs 3.50 now.", "Good."],
            ),
            (
                "'What frames there must be!' thought\nAlice. She left.",
                vec!["'What frames there must be!' thought\nAlice.", "She left."],
            ),
            (
                "\"Go.\" He went. (See below.) Then?!",
                vec!["\"Go.\"", "He went.", "(See below.)", "Then?!"],
            ),
            (
                "\"Mrs. Hill, (Dr. Lamb) and M. Dupont.\" She left.",
                vec!["\"Mrs. Hill, (Dr. Lamb) and M. Dupont.\"", "She left."],
            ),
            (
                "Did he? No. He read No. 5, e.g. J. R. R. Tolkien. Z.B. J.R.R. Tolkien. Good.",
                vec![
                    "Did he?",
                    "No.",
                    "He read No. 5, e.g. J. R. R. Tolkien.",
                    "Z.B. J.R.R. Tolkien.",
                    "Good.",
                ],
            ),
            (
                "We met at 5 p.m. The train left.",
                vec!["We met at 5 p.m.", "The train left."],
            ),
            ("你好。世界！", vec!["你好。", "世界！"]),
            (
                "# Title\nBody text\ngoes on.",
                vec!["# Title", "Body text\ngoes on."],
            ),
            (
                "A list:\n- a thing\n2. b thing",
                vec!["A list:", "- a thing", "2. b thing"],
            ),
            (
                "hotel_limit: 120\nmeal limit: 30\n",
                vec!["hotel_limit: 120", "meal limit: 30"],
            ),
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
