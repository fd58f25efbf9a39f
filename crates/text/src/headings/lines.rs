//! The lines of a text, and which of them are headings.

use crate::text::char_count;

/// Maximum words and characters of a numbered section's title.
const MAX_TITLE_WORDS: usize = 12;
const MAX_TITLE_CHARS: usize = 80;

/// Words that begin the heading of a numbered part, and their level.
const PARTS: [(&str, u8); 16] = [
    ("volume", 1),
    ("book", 1),
    ("part", 1),
    ("act", 1),
    ("actus", 1),
    ("chapter", 2),
    ("letter", 2),
    ("canto", 2),
    ("kapitel", 2),
    ("chapitre", 2),
    ("section", 3),
    ("scene", 3),
    ("scena", 3),
    ("scaena", 3),
    ("scoena", 3),
    ("appendix", 2),
];

/// Numbers in words, as some chapters have.
const NUMBERS: [&str; 12] = [
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve",
];

/// Numbers in Latin, as old plays have; the endings vary.
const LATIN: [&str; 10] = [
    "prim", "secund", "terti", "quart", "quint", "sext", "septim", "octav", "non", "decim",
];

/// How a heading is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Markdown.
    Marked,
    Underlined,
    /// `CHAPTER IV`.
    Part,
    /// The name of a book that is divided into verses.
    Book,
    /// `IV. The Lamp`, `2.1 Methods`.
    Numbered,
    Capitals,
}

/// A line, with its position.
#[derive(Debug, Clone, Copy)]
pub struct Line<'t> {
    pub bare: &'t str,
    pub start: usize,
    pub start_char: usize,
    length: usize,
}

pub fn split(text: &str) -> Vec<Line<'_>> {
    let (mut start, mut start_char) = (0, 0);
    text.split_inclusive('\n')
        .map(|line| {
            let found = Line {
                bare: line.trim(),
                start,
                start_char,
                length: line.len(),
            };
            start += line.len();
            start_char += char_count(line);
            found
        })
        .collect()
}

/// Code fences, line by line.
#[derive(Debug, Default)]
pub struct Fences {
    open: Option<&'static str>,
}

impl Fences {
    /// Whether this line opens, closes or lies within a fence.
    pub fn passes(&mut self, bare: &str) -> bool {
        let mark = ["```", "~~~"]
            .into_iter()
            .find(|mark| bare.starts_with(mark));
        match (self.open, mark) {
            (None, None) => false,
            (None, Some(mark)) => {
                self.open = Some(mark);
                true
            }
            (Some(open), Some(mark)) if open == mark => {
                self.open = None;
                true
            }
            (Some(_), _) => true,
        }
    }
}

impl Line<'_> {
    pub fn end(&self) -> usize {
        self.start + self.length
    }

    /// The form that a line has by itself.
    pub fn form(&self) -> Option<Form> {
        marks(self.bare).map(|_| Form::Marked)
    }

    /// The form and the level, if the line is a heading between these two. In a text with marks,
    /// a numbered line is an item of a list. What stands before the verse 1:1 is the name of a book.
    pub fn heading(
        &self,
        (before, after): (&str, &str),
        marked: bool,
        precedes_verses: bool,
    ) -> Option<(Form, u8)> {
        let line = self.bare;
        if let Some(marks) = marks(line) {
            return Some((Form::Marked, marks));
        }

        let underlined = |mark: char| after.len() >= 3 && after.chars().all(|c| c == mark);
        if !before.is_empty() || line.is_empty() {
            return None;
        }

        if underlined('=') || (underlined('-') && !line.contains(':')) {
            return Some((Form::Underlined, if underlined('=') { 1 } else { 2 }));
        }

        if let Some((level, _)) = part(line) {
            return Some((Form::Part, level));
        }

        if precedes_verses {
            return Some((Form::Book, 1));
        }

        if !after.is_empty() {
            return None;
        }

        if !marked && let Some(level) = numbered(line) {
            return Some((Form::Numbered, level));
        }

        is_in_capitals(line).then_some((Form::Capitals, 4))
    }
}

fn marks(line: &str) -> Option<u8> {
    let marked = line.trim_start_matches('#');
    let marks = line.len() - marked.len();
    let marks = u8::try_from(marks)
        .ok()
        .filter(|marks| (1..=6).contains(marks))?;
    marked.starts_with(' ').then_some(marks)
}

/// `CHAPTER IV. The Lamp`, `Part 2`: its level, and what follows the number.
fn part(line: &str) -> Option<(u8, &str)> {
    let (word, rest) = line.split_once(char::is_whitespace)?;
    let (_, level) = PARTS
        .iter()
        .find(|(part, _)| word.eq_ignore_ascii_case(part))?;
    let rest = rest.trim_start();
    let (number, title) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let bare = number.trim_end_matches(['.', ':', ',', '-', '—']);
    let roman = |c: char| "IVXLCDM".contains(c);
    let counts = !bare.is_empty()
        && (bare.chars().all(|c| c.is_ascii_digit())
            || bare.chars().all(roman)
            || is_number_in_words(bare));

    (counts && char_count(line) <= 120).then_some((*level, title.trim()))
}

/// `One`, `Primus`, `Secunda`.
#[must_use]
pub fn is_number_in_words(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    if NUMBERS.contains(&lower.as_str()) {
        return true;
    }

    let stem = lower.strip_suffix("us").or_else(|| lower.strip_suffix('a'));
    stem.is_some_and(|stem| LATIN.contains(&stem))
}

/// Whether a verse is the first of a book.
pub fn is_first_verse(line: &str) -> bool {
    line.strip_prefix("1:1")
        .is_some_and(|rest| rest.starts_with(' '))
}

/// The level of `IV. The Lamp` (2) or `2.1 Methods` (3).
fn numbered(line: &str) -> Option<u8> {
    let (number, title) = line.split_once(char::is_whitespace)?;
    let title = title.trim();
    let bare = number.trim_end_matches(['.', ')']);
    let roman = number.ends_with('.') && bare.chars().all(|c| "IVXLCDM".contains(c));
    let digits = bare
        .split('.')
        .all(|part| (1..=3).contains(&part.len()) && part.chars().all(|c| c.is_ascii_digit()));

    let words = title.split_whitespace().count();
    let titled = title.starts_with(char::is_uppercase)
        && !title.ends_with(['.', ',', ';', ':'])
        && (1..=MAX_TITLE_WORDS).contains(&words)
        && char_count(title) <= MAX_TITLE_CHARS;

    if bare.is_empty() || !titled || !(roman || digits) {
        return None;
    }

    let dots = u8::try_from(bare.matches('.').count()).unwrap_or(0);
    Some(2 + dots.min(4))
}

fn is_in_capitals(line: &str) -> bool {
    let letters = line.chars().filter(|c| c.is_alphabetic()).count();
    letters >= 3
        && !line.starts_with(['"', '\'', '“', '‘', '(', '*', '-'])
        && !line.chars().any(char::is_lowercase)
        && line.chars().any(char::is_uppercase)
}

/// The title of a chapter whose line has only its number, and how many lines it takes.
pub fn title_below<'t>(line: &str, after: &[Line<'t>]) -> Option<(&'t str, usize)> {
    part(line).filter(|(_, title)| title.is_empty())?;
    let blank = after.iter().take_while(|line| line.bare.is_empty()).count();
    let title = after.get(blank)?.bare;
    let alone = after.get(blank + 1).is_none_or(|next| next.bare.is_empty());
    let short = char_count(title) <= MAX_TITLE_CHARS
        && title.split_whitespace().count() <= MAX_TITLE_WORDS
        && title.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit())
        && !title.ends_with([',', ';', ':'])
        && !title.contains([':', '?', '"'])
        && !title.contains(". ");

    let set_off = (1..=3).contains(&blank) || blank == 0 && !title.ends_with('.');
    let text_follows = after.get(blank + 2).is_some();
    (alone && short && set_off && text_follows && part(title).is_none())
        .then_some((title, blank + 1))
}

/// A heading as it is shown.
pub fn shown(line: &str, form: Form, title: Option<&str>) -> String {
    let line = match form {
        Form::Marked => line.trim_matches('#').trim(),
        _ => line,
    };

    match title {
        Some(title) => {
            let line = line.trim_end_matches(['.', ':']);
            format!("{line}. {}", title.trim_end_matches('.'))
        }
        None => line.to_owned(),
    }
}
