//! The title of a source: as given, from its front matter or headers, its first heading or first
//! line, or else its file name. Guarantees a name that can be shown.

use super::collection;
use super::headers::Headers;
use super::helper::without_reply_marks;
use super::names;
use super::outline::OutlineInput;
use super::project;
use super::sections;

/// Bytes of a text that may contain its title.
const HEAD: usize = 4_000;
/// Lines before a heading that may still be the title.
const ABOVE: usize = 12;
/// Maximum characters and words of a first line that is a title.
const LONGEST_LINE: usize = 80;
const MAX_WORDS: usize = 10;

/// A title, and whether it says what the source is about: written in the source, given by the user,
/// or a file name of several words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Title {
    pub text: String,
    pub is_written: bool,
}

/// The title of a source. What many projects have one of has the name of its project too, so that
/// their changelogs are not taken for one.
pub fn of(input: &OutlineInput<'_>) -> Option<Title> {
    let title = written_or_given(input)?;
    if input.title.is_some() || !collection::is_project_file(&title.text) {
        return Some(title);
    }

    let of_project = project::name(input)
        .and_then(|project| names::title(&format!("{project} {}", title.text.to_lowercase())));
    Some(Title {
        text: of_project.unwrap_or(title.text),
        is_written: true,
    })
}

fn written_or_given(input: &OutlineInput<'_>) -> Option<Title> {
    let written = |text: &str| {
        Some(Title {
            text: names::title(without_reply_marks(text))?,
            is_written: true,
        })
    };
    let head = head(input.text);
    let headers = Headers::read(head);
    let fields = || headers.first(&["title", "subject", "betreff", "objet"]);
    let bracket = || {
        headers
            .first(&["heading"])
            .filter(|_| head.trim_start().starts_with('['))
    };

    input
        .title
        .and_then(written)
        .or_else(|| bracket().and_then(written))
        .or_else(|| data_title(head).and_then(written))
        .or_else(|| fields().filter(|_| !is_data(head)).and_then(written))
        .or_else(|| first_heading(input, head).and_then(written))
        .or_else(|| letter(head).as_deref().and_then(written))
        .or_else(|| first_line(head).and_then(written))
        .or_else(|| {
            let text = from_file_name(input.filename.or(input.path)?)?;
            let telling = text.split(' ').filter(|word| is_word(word)).count() > 1;
            Some(Title {
                text,
                is_written: telling,
            })
        })
}

fn is_word(word: &str) -> bool {
    word.chars().count() >= 3 && word.chars().all(char::is_alphabetic)
}

fn head(text: &str) -> &str {
    let mut end = text.len().min(HEAD);
    while !text.is_char_boundary(end) {
        end -= 1;
    }

    text[..end].trim_start_matches('\u{feff}')
}

fn is_data(head: &str) -> bool {
    head.trim_start().starts_with(['{', '['])
}

/// `"title": "…"` at the start of JSON.
fn data_title(head: &str) -> Option<&str> {
    if !head.trim_start().starts_with('{') {
        return None;
    }

    let value = |key: &str| {
        let (_, rest) = head.split_once(&format!("\"{key}\""))?;
        let rest = rest.trim_start().strip_prefix(':')?.trim_start();
        let (value, _) = rest.strip_prefix('"')?.split_once('"')?;
        (!value.trim().is_empty()).then_some(value)
    };

    ["title", "name", "subject", "heading"]
        .into_iter()
        .find_map(value)
}

/// The first heading, if little stands above it and it is the highest.
fn first_heading<'a>(input: &OutlineInput<'a>, head: &str) -> Option<&'a str> {
    let first = input.headings.first()?;
    let above = head.get(..first.start)?.lines().count();
    let alone = input.headings.len() == 1
        || input.headings[1..]
            .iter()
            .all(|other| other.level > first.level);
    let says_something = !is_data(head) && !sections::is_part_number(&first.text);
    (above <= ABOVE && alone && says_something).then_some(first.text.as_str())
}

/// "Dear Anna," as "Letter to Anna".
fn letter(head: &str) -> Option<String> {
    let first = head.trim_start().lines().next()?.trim();
    let (dear, name) = first.split_once(' ')?;
    let name = name.trim_end_matches([',', ':', '!', '.', ' ']);
    let person = name.starts_with(char::is_uppercase) && name.split_whitespace().count() <= 4;
    (dear.eq_ignore_ascii_case("dear") && person).then(|| format!("Letter to {name}"))
}

/// A short first line that is no sentence, before a blank line or longer lines.
fn first_line(head: &str) -> Option<&str> {
    let mut lines = head.trim_start().lines();
    let first = lines.next()?.trim();
    let next = lines.next()?.trim();
    let words = first.split_whitespace().count();
    let short = first.chars().count() <= LONGEST_LINE && (1..=MAX_WORDS).contains(&words);
    let plain = !first.ends_with(['.', ',', ';', ':', '!', '?', '{', '>'])
        && !first.starts_with(['{', '[', '<', '-', '*', '|', '"', '>', '`'])
        && !first.contains(": ")
        && !first.to_lowercase().starts_with("dear ")
        && first.starts_with(|c: char| c.is_alphabetic());

    // A text without a title begins with its first part.
    let is_part = sections::is_part_number(first);

    // A letter's first line is longer than its title only by chance; a blank line is no chance.
    let set_off = next.is_empty() || next.chars().all(|c| matches!(c, '=' | '-'));
    (short && plain && set_off && !is_part).then_some(first)
}

/// "2024-05-03_boiler-service.md" as "Boiler service".
pub fn from_file_name(name: &str) -> Option<String> {
    let name = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let stem = match name.rsplit_once('.') {
        Some((stem, kind)) if !stem.is_empty() && kind.len() <= 5 => stem,
        _ => name,
    };

    let words: String = stem
        .chars()
        .map(|c| {
            if matches!(c, '_' | '-' | '.' | '+' | '~') {
                ' '
            } else {
                c
            }
        })
        .collect();
    let told: Vec<&str> = words
        .split_whitespace()
        .skip_while(|word| word.chars().all(|c| c.is_ascii_digit()))
        .collect();
    let words = if told.is_empty() {
        words
    } else {
        told.join(" ")
    };
    let shouted = words.len() > 4 && !words.chars().any(char::is_lowercase);
    names::title(&if shouted { words.to_lowercase() } else { words })
}

#[cfg(test)]
mod tests {
    use memoir_text::headings::headings;

    use super::*;

    fn title(filename: &str, text: &str) -> Option<String> {
        let found = headings(text);
        of(&OutlineInput {
            filename: Some(filename),
            path: None,
            title: None,
            text,
            headings: &found,
            chunks: &[],
            depth: 3,
            most_sections: 8,
        })
        .map(|title| title.text)
    }

    #[test]
    fn finds_the_title_of_many_kinds_of_sources() {
        for (filename, text, wanted) in [
            (
                "carroll-alice.txt",
                "[Alice's Adventures in Wonderland by Lewis Carroll 1865]\n\nCHAPTER I. Down\n\nText\n\nCHAPTER II. Up\n\nText",
                "Alice's Adventures in Wonderland",
            ),
            (
                "a.md",
                "---\ntitle: \"The plan\"\n---\n# Other\n",
                "The plan",
            ),
            (
                "a.md",
                "# Boiler service\n\nText.\n\n## Parts\n\nText.\n",
                "Boiler service",
            ),
            (
                "a.eml",
                "From: a@b.org\nSubject: Re: New pumps\n\nDear Bob,\n",
                "New pumps",
            ),
            (
                "a.json",
                "{\n  \"title\": \"Carrot soup\",\n  \"serves\": 4\n}\n",
                "Carrot soup",
            ),
            (
                "a.txt",
                "Cello lesson\n\nWe played scales.\n",
                "Cello lesson",
            ),
            (
                "2024-05-03_boiler-service.txt",
                "The man came. He left.\n",
                "Boiler service",
            ),
            ("CHANGELOG.md", "Nothing.\n", "Changelog"),
            (
                "the-sea.txt",
                "VOLUME I\n\nCHAPTER I\n\nIt rained.\n",
                "The sea",
            ),
            ("x.txt", "Dear Anna,\n\nit rains.\n", "Letter to Anna"),
        ] {
            assert_eq!(title(filename, text).as_deref(), Some(wanted), "{text}");
        }
    }
}
