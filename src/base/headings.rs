//! The headings of a text: Markdown, chapter lines, and short lines in capitals that stand alone.

use super::text::{char_count, one_line};

/// A longer line is prose.
const MOST_CHARS: usize = 120;

/// Words that begin the heading of a numbered part.
const PARTS: [&str; 9] = [
    "chapter", "book", "part", "section", "appendix", "act", "scene", "letter", "kapitel",
];

/// A heading and where its line begins, in characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    pub start_char: usize,
    pub text: String,
}

/// All headings of a text, in order.
#[must_use]
pub fn headings(text: &str) -> Vec<Heading> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut found = Vec::new();
    let mut start_char = 0;
    let mut fenced = false;
    for (at, line) in lines.iter().enumerate() {
        let bare = line.trim();
        if bare.starts_with("```") || bare.starts_with("~~~") {
            fenced = !fenced;
        }

        let before = at.checked_sub(1).map_or("", |before| lines[before].trim());
        let after = lines.get(at + 1).map_or("", |after| after.trim());
        if !fenced && let Some(text) = heading(bare, before, after) {
            found.push(Heading { start_char, text });
        }

        start_char += char_count(line);
    }

    found
}

/// The last heading that begins at or before a position.
#[must_use]
pub fn above(headings: &[Heading], start_char: usize) -> Option<&Heading> {
    let after = headings.partition_point(|heading| heading.start_char <= start_char);
    headings[..after].last()
}

fn heading(line: &str, before: &str, after: &str) -> Option<String> {
    let marked = line.trim_start_matches('#');
    let marks = line.len() - marked.len();
    if (1..=6).contains(&marks) && marked.starts_with(' ') {
        return fitting(marked.trim_end_matches('#'));
    }

    let underlined = |mark: char| after.len() >= 3 && after.chars().all(|c| c == mark);
    if before.is_empty() && !line.is_empty() && (underlined('=') || underlined('-')) {
        return fitting(line);
    }

    let alone = before.is_empty() && (after.is_empty() || is_numbered(line));
    let telling = is_numbered(line) || is_in_capitals(line);
    if alone && telling {
        fitting(line)
    } else {
        None
    }
}

/// `CHAPTER IV. The Lamp`, `Part 2`.
fn is_numbered(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let part = words.next().unwrap_or_default().to_lowercase();
    let number = words.next().unwrap_or_default();
    let number = number.trim_end_matches(['.', ':', ',', '-', '—']);
    let roman = |c: char| "IVXLCDM".contains(c);
    PARTS.contains(&part.as_str())
        && !number.is_empty()
        && (number.chars().all(|c| c.is_ascii_digit()) || number.chars().all(roman))
}

fn is_in_capitals(line: &str) -> bool {
    let letters = line.chars().filter(|c| c.is_alphabetic()).count();
    letters >= 3 && !line.chars().any(char::is_lowercase) && line.chars().any(char::is_uppercase)
}

fn fitting(line: &str) -> Option<String> {
    let line = one_line(line);
    let fits = char_count(&line) <= MOST_CHARS && line.chars().any(char::is_alphanumeric);
    fits.then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        headings(text).into_iter().map(|one| one.text).collect()
    }

    #[test]
    fn finds_the_usual_forms() {
        let text = "# One #\nText.\n\nTwo\n---\n\nCHAPTER I. Down the Hole\n\nPart 2\nText.\n\nTHE WHALE\n\nText.\n";
        let wanted = [
            "One",
            "Two",
            "CHAPTER I. Down the Hole",
            "Part 2",
            "THE WHALE",
        ];
        assert_eq!(texts(text), wanted);
    }

    #[test]
    fn prose_and_code_are_no_headings() {
        let text = "```\n# a comment\n```\nPart of it was gone.\nNO BLANK LINES\nhere\n\n#hashtag\n\n---\n";
        assert_eq!(texts(text), [""; 0]);
    }

    #[test]
    fn the_heading_above_a_position_counts_characters() {
        let text = "# Ä\nerste\n# B\nzweite\n";
        let found = headings(text);
        let at = |position: usize| above(&found, position).map(|one| one.text.as_str());
        assert_eq!(
            (at(0), at(9), at(10), at(40)),
            (Some("Ä"), Some("Ä"), Some("B"), Some("B"))
        );
        assert_eq!(above(&[], 3), None);
    }
}
