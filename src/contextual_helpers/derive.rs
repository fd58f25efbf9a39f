//! The title or headings at the head of a source, from which a helper is generated.

use memoir_text::text::{char_count, one_line};

/// Lines from the start that may contain a title.
const HEAD_LINES: usize = 40;
/// Headings to use: the source's own and those of its first sections.
const MAX_HEADINGS: usize = 3;
/// A longer line is prose.
const MAX_CHARS: usize = 120;

/// The headings or the title at the head of a text, on one line.
pub fn detect_title(text: &str) -> Option<String> {
    let text = text.trim_start_matches('\u{feff}');
    if let Some(title) = front_matter_title(text) {
        return Some(title);
    }

    let headings = headings(text);
    if !headings.is_empty() {
        return Some(headings.join("; "));
    }

    first_line_alone(text)
}

fn front_matter_title(text: &str) -> Option<String> {
    let mut lines = text.lines();
    if lines.next()?.trim() != "---" {
        return None;
    }

    let block = lines
        .take(HEAD_LINES)
        .take_while(|line| !matches!(line.trim(), "---" | "..."));
    let title = block
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("title"))?;
    fitting(title.1.trim().trim_matches(['"', '\'']))
}

/// Markdown headings, with marks before (`# …`) or below them (`===`).
fn headings(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().take(HEAD_LINES).map(str::trim).collect();
    let heading = |(at, line): (usize, &&str)| {
        let marked = line.trim_start_matches('#');
        let marks = line.len() - marked.len();
        if (1..=6).contains(&marks) && marked.starts_with(' ') {
            return fitting(marked.trim_end_matches('#'));
        }

        let under = lines
            .get(at + 1)
            .is_some_and(|next| next.len() >= 3 && next.chars().all(|c| c == '='));
        if under { fitting(line) } else { None }
    };

    lines
        .iter()
        .enumerate()
        .filter_map(heading)
        .take(MAX_HEADINGS)
        .collect()
}

/// A short first line, not a sentence, followed by a blank line.
fn first_line_alone(text: &str) -> Option<String> {
    let mut lines = text.trim_start().lines();
    let first = lines.next()?.trim();
    let alone = lines.next().is_some_and(|next| next.trim().is_empty());

    if alone && !first.ends_with(['.', ',', ';', ':']) {
        fitting(first)
    } else {
        None
    }
}

fn fitting(text: &str) -> Option<String> {
    let title = one_line(text);
    (!title.is_empty() && char_count(&title) <= MAX_CHARS).then_some(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_title_of_a_text() {
        for (text, wanted) in [
            (
                "---\ntitle: \"The Plan\"\ndate: 2024\n---\n# Other\n",
                Some("The Plan"),
            ),
            ("# One\n\ntext\n\n## Two ##\n", Some("One; Two")),
            ("The Plan\n========\ntext", Some("The Plan")),
            (
                "A Letter Home\n\nDear all, it rains.",
                Some("A Letter Home"),
            ),
            ("It was raining.\n\nThen it stopped.", None),
            ("plain prose that goes on\nand on", None),
            ("#hashtag is no heading\n", None),
            ("", None),
        ] {
            assert_eq!(detect_title(text).as_deref(), wanted, "{text:?}");
        }
    }
}
