//! The headings of a text: Markdown, chapter lines, numbered sections, short lines in capitals that
//! stand alone, and the keys of JSON and YAML.

mod data;
mod lines;

pub use lines::is_number_in_words;

use lines::{Form, Line};

use super::text::{char_count, one_line};

/// A longer line is prose.
const MAX_CHARS: usize = 120;
/// What stands between the headings of a trail.
pub const SEPARATOR: &str = " › ";
/// Maximum characters of a trail; the deepest headings are kept.
const MAX_TRAIL_CHARS: usize = 300;
/// Where a heading ranks that seems to be above chapters, but only occurs within one.
const WITHIN: u8 = 5;
/// Chapters from which on a line in capitals is a shout or a sign rather than a heading.
const CHAPTERS: usize = 3;
/// Parts of a book that are headings even without a number.
const BACK: [&str; 9] = [
    "epilogue",
    "appendix",
    "conclusion",
    "notes",
    "glossary",
    "index",
    "postscript",
    "afterword",
    "bibliography",
];

/// A heading and where its line begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// In characters.
    pub start_char: usize,
    /// In bytes.
    pub start: usize,
    /// In bytes; after the line break, and after the title of a chapter if it has its own line.
    pub end: usize,
    /// 1 for the highest.
    pub level: u8,
    pub text: String,
}

/// All headings of a text, in order.
#[must_use]
pub fn headings(text: &str) -> Vec<Heading> {
    if let Some(found) = data::keys(text) {
        return found;
    }

    let lines = lines::split(text);
    let marked = lines.iter().any(|line| line.form() == Some(Form::Marked));
    let mut found: Vec<(Form, Heading)> = Vec::new();
    let mut fence = lines::Fences::default();
    let mut at = 0;
    while at < lines.len() {
        let line = &lines[at];
        at += 1;
        if fence.passes(line.bare) {
            continue;
        }

        let before = at.checked_sub(2).map_or("", |before| lines[before].bare);
        let after = lines.get(at).map_or("", |after| after.bare);
        if line.bare.is_empty() {
            continue;
        }

        let next = lines[at..].iter().find(|line| !line.bare.is_empty());
        let precedes_verses = next.is_some_and(|next| lines::is_first_verse(next.bare));
        let around = (before, after);
        let Some((form, level)) = line.heading(around, marked, precedes_verses) else {
            continue;
        };

        let title = match form {
            Form::Part => lines::title_below(line.bare, &lines[at..]),
            _ => None,
        };
        let text = lines::shown(line.bare, form, title.map(|(title, _)| title));
        if char_count(&text) > MAX_CHARS || !text.chars().any(char::is_alphanumeric) {
            continue;
        }

        at += title.map_or(0, |(_, lines)| lines);
        found.push((form, heading(&lines, line, at, level, &text)));
    }

    ranked(found)
}

fn heading(lines: &[Line<'_>], line: &Line<'_>, next: usize, level: u8, text: &str) -> Heading {
    Heading {
        start_char: line.start_char,
        start: line.start,
        end: lines
            .get(next)
            .map_or_else(|| lines.last().map_or(0, Line::end), |next| next.start),
        level,
        text: one_line(text),
    }
}

/// Drops lines in capitals within chapters, and ranks a `BOOK` within a chapter below it.
fn ranked(found: Vec<(Form, Heading)>) -> Vec<Heading> {
    let is_chapter = |(form, heading): &&(Form, Heading)| {
        matches!(form, Form::Part | Form::Numbered) && heading.level > 1
    };
    let chapters = found.iter().filter(is_chapter).count();
    let first = found
        .iter()
        .find(is_chapter)
        .map_or(usize::MAX, |(_, heading)| heading.start);
    let late = found
        .iter()
        .find(|(form, heading)| *form == Form::Part && heading.level == 1)
        .is_some_and(|(_, heading)| heading.start > first);

    found
        .into_iter()
        .filter(|(form, heading)| {
            *form != Form::Capitals
                || chapters < CHAPTERS
                || heading.start < first
                || BACK.contains(&heading.text.to_lowercase().trim_end_matches('.'))
        })
        .map(|(form, mut heading)| {
            if late && form == Form::Part && heading.level == 1 {
                heading.level = WITHIN;
            }

            // Beside chapters, a preface or an epilogue ranks as they do.
            if form == Form::Capitals && chapters >= CHAPTERS {
                heading.level = 2;
            }

            heading
        })
        .collect()
}

/// Walks through the headings of a text, to tell which stand above a position.
#[derive(Debug)]
pub struct Trail<'h> {
    rest: &'h [Heading],
    above: Vec<&'h Heading>,
}

impl<'h> Trail<'h> {
    #[must_use]
    pub fn new(headings: &'h [Heading]) -> Self {
        Self {
            rest: headings,
            above: Vec::new(),
        }
    }

    /// The last heading that begins at or before a position, and those that it belongs to, highest
    /// first. Positions are in characters, and must not decrease.
    pub fn at(&mut self, start_char: usize) -> &[&'h Heading] {
        while let Some((next, rest)) = self
            .rest
            .split_first()
            .filter(|(next, _)| next.start_char <= start_char)
        {
            self.above.retain(|above| above.level < next.level);
            self.above.push(next);
            self.rest = rest;
        }

        &self.above
    }
}

/// A trail on one line.
#[must_use]
pub fn joined(trail: &[&Heading]) -> Option<String> {
    let mut rest = trail;
    loop {
        let texts: Vec<&str> = rest.iter().map(|heading| heading.text.as_str()).collect();
        let line = texts.join(SEPARATOR);
        if char_count(&line) <= MAX_TRAIL_CHARS || rest.len() <= 1 {
            return (!line.is_empty()).then_some(line);
        }

        rest = &rest[1..];
    }
}

/// The headings above a position inside a part of a text, if `trail` stands above the part. Only
/// Markdown headings count, and none if a code fence is cut: other forms are recognised by the whole
/// text. The level of the last heading of the trail is known if the part begins with it; otherwise
/// the highest counts as level 1.
#[must_use]
pub fn trail_within(trail: Option<&str>, part: &str, start_char: usize) -> Option<String> {
    let is_cut = part.matches("```").count() % 2 == 1 || part.matches("~~~").count() % 2 == 1;
    let mut found = headings(part);
    found.retain(|heading| !is_cut && part[heading.start..].trim_start().starts_with('#'));
    let mut inner = Trail::new(&found);
    let above = inner.at(start_char);
    let Some(highest) = above.first() else {
        return trail.map(str::to_owned);
    };

    let outer: Vec<&str> = trail.map_or_else(Vec::new, |trail| trail.split(SEPARATOR).collect());
    let begins = |first: &&Heading| {
        part[..first.start].trim().is_empty() && outer.last() == Some(&first.text.as_str())
    };
    let levels = match found.first().filter(begins) {
        Some(first) => usize::from(first.level),
        None => outer.len(),
    };

    // Everything from the level of the inner heading on ends where that begins.
    let ended = (levels + 1).saturating_sub(usize::from(highest.level));
    let kept = outer.len().saturating_sub(ended);
    let texts = above.iter().map(|heading| heading.text.as_str());
    let whole: Vec<&str> = outer[..kept].iter().copied().chain(texts).collect();
    Some(whole.join(SEPARATOR))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        headings(text).into_iter().map(|one| one.text).collect()
    }

    #[test]
    fn finds_the_usual_forms() {
        for (text, wanted) in [
            (
                "# One #\nText.\n\nTwo\n---\n\nCHAPTER I. Down the Hole\n\nPart 2\nText.\n\nTHE WHALE\n\nText.\n",
                vec![
                    "One",
                    "Two",
                    "CHAPTER I. Down the Hole",
                    "Part 2",
                    "THE WHALE",
                ],
            ),
            (
                "CHAPTER 30\n\nThe Pipe.\n\nWhen Stubb had departed, Ahab stood.\n",
                vec!["CHAPTER 30. The Pipe"],
            ),
            (
                "I. The Absence\n\nText goes on.\n\nII. The Duel of Dr Hirsch\n\nText.\n",
                vec!["I. The Absence", "II. The Duel of Dr Hirsch"],
            ),
            (
                "Actus Primus. Scoena Prima.\n\nEnter two.\n\nScena Secunda.\n\nExit one.\n",
                vec!["Actus Primus. Scoena Prima.", "Scena Secunda."],
            ),
            (
                "The Book of Ruth\n\n\n1:1 Now it came to pass.\n\n1:2 And so.\n\nEzra\n\n1:1 Now.\n",
                vec!["The Book of Ruth", "Ezra"],
            ),
            (
                "1 Introduction\n\nText.\n\n2.1 Methods used\n\nText.\n",
                vec!["1 Introduction", "2.1 Methods used"],
            ),
            (
                "{\n  \"name\": \"x\",\n  \"scripts\": {\n    \"a\": 1\n  },\n  \"items\": [\n    1\n  ]\n}\n",
                vec!["scripts", "items"],
            ),
            (
                "name: x\nservices:\n  web:\n    image: y\nvolumes:\n  - data\n",
                vec!["services", "volumes"],
            ),
        ] {
            assert_eq!(texts(text), wanted);
        }
    }

    #[test]
    fn prose_and_code_are_no_headings() {
        for text in [
            "```\n# a comment\n```\nPart of it was gone.\nNO BLANK LINES\nhere\n\n#hashtag\n\n---\n",
            "# a\n".strip_prefix("# a\n").unwrap(),
            "It was late.\n\n12 men came in and sat down by the fire, and nobody spoke.\n\nThen they left.\n",
            "He wrote: nothing\nmore came\n",
        ] {
            assert_eq!(texts(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_sign_within_a_chapter_is_no_heading() {
        let text = "PREFACE\n\nText.\n\nCHAPTER 1\n\nIt began. It went on.\n\nDRINK ME\n\nText.\n\nCHAPTER 2\n\nIt rained. It snowed.\n\nBOOK I\n\nIt said: whales.\n\nCHAPTER 3\n\nIt ended. It was late.\n\nEPILOGUE\n\nText.\n";
        let found = headings(text);
        let shown: Vec<(&str, u8)> = found
            .iter()
            .map(|one| (one.text.as_str(), one.level))
            .collect();
        assert_eq!(
            shown,
            [
                ("PREFACE", 2),
                ("CHAPTER 1", 2),
                ("CHAPTER 2", 2),
                ("BOOK I", 5),
                ("CHAPTER 3", 2),
                ("EPILOGUE", 2)
            ]
        );
    }

    #[test]
    fn a_trail_counts_characters_and_lists_what_a_position_belongs_to() {
        let text = "# Ä\nerste\n## B\nzweite\n## C\n# D\n";
        let found = headings(text);
        let at = |position: usize| joined(Trail::new(&found).at(position));
        assert_eq!(at(0).as_deref(), Some("Ä"));
        assert_eq!(at(9).as_deref(), Some("Ä"));
        assert_eq!(at(10).as_deref(), Some("Ä › B"));
        assert_eq!(at(22).as_deref(), Some("Ä › C"));
        assert_eq!(at(40).as_deref(), Some("D"));
        assert_eq!(joined(Trail::new(&[]).at(3)), None);
    }

    #[test]
    fn a_sentence_belongs_to_the_last_heading_before_it() {
        let part = "## B\none\n### C\ntwo\n## D\nthree\n# E\nfour\n";
        let of = |trail, part: &str, word: &str| {
            let at = part.find(word).map_or(0, |at| part[..at].chars().count());
            trail_within(trail, part, at)
        };
        for (word, wanted) in [
            ("one", "A › B"),
            ("two", "A › B › C"),
            ("three", "A › D"),
            ("four", "E"),
        ] {
            assert_eq!(of(Some("A › B"), part, word).as_deref(), Some(wanted));
        }

        // The part begins with text: the trail is taken from level 1 on.
        let part = "more\n\n## D\nthree\n";
        assert_eq!(of(Some("A › B"), part, "more").as_deref(), Some("A › B"));
        assert_eq!(of(Some("A › B"), part, "three").as_deref(), Some("A › D"));
        assert_eq!(of(Some("A"), part, "three").as_deref(), Some("A › D"));
        assert_eq!(of(None, part, "three").as_deref(), Some("D"));
        assert_eq!(of(None, "Text.", "Text"), None);

        // Only the whole text tells whether these are headings.
        for part in [
            "apt update\n# install\napt install x\n```\n\nlast\n",
            "It read:\n\nDRINK ME\n\nlast\n",
        ] {
            assert_eq!(of(Some("A"), part, "last").as_deref(), Some("A"), "{part}");
        }
    }

    #[test]
    fn a_heading_ends_where_its_text_begins() {
        let text = "CHAPTER 30\n\nThe Pipe.\n\nWhen Stubb had departed.\n";
        let found = headings(text);
        assert_eq!(
            &text[found[0].start..found[0].end],
            "CHAPTER 30\n\nThe Pipe.\n"
        );
    }
}
