//! What an identifier is made of: its number, and the label before it. Every look at the text around
//! a number is limited to a few characters.

use std::ops::Range;

/// Maximum characters between a label and its number.
const MAX_JOINERS: usize = 6;
/// How far a line is read in each direction, in bytes, and how many words a heading has at most, and
/// before the number.
const LINE_BYTES: usize = 120;
const HEADING_WORDS: usize = 8;
const WORDS_BEFORE: usize = 1;
/// Maximum characters of a label.
const MAX_LABEL: usize = 40;

/// Words that announce a number of what is named before them: "order no. 5678".
const NUMBER_WORDS: [&str; 8] = ["no", "nos", "nr", "num", "number", "nummer", "id", "ref"];
/// Words and marks that say the same of a number.
const ALTERNATIVES: [&[&str]; 5] = [
    &["§", "section", "sec", "paragraph", "para", "abschnitt"],
    &["article", "art", "artikel"],
    &["chapter", "ch", "kapitel"],
    &["v", "version", "ver", "release"],
    &["pr", "pull", "mr"],
];
/// Words whose number is an identifier in any case of letters.
const NOUNS: [&str; 41] = [
    "account",
    "act",
    "appendix",
    "booking",
    "bug",
    "case",
    "claim",
    "clause",
    "contract",
    "cve",
    "customer",
    "din",
    "docket",
    "error",
    "file",
    "invoice",
    "isbn",
    "iso",
    "issue",
    "item",
    "job",
    "lot",
    "model",
    "order",
    "parcel",
    "part",
    "pep",
    "policy",
    "receipt",
    "request",
    "rfc",
    "room",
    "rule",
    "serial",
    "shipment",
    "ticket",
    "tracking",
    "bestellung",
    "rechnung",
    "auftrag",
    "vorgang",
];

/// What stands before a number and says what it counts as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// As it is written; empty for a mark alone.
    word: String,
    folded: String,
    has_number_sign: bool,
    has_section_sign: bool,
}

impl Label {
    /// In lower case.
    pub fn folded(&self) -> &str {
        &self.folded
    }

    /// Whether it always makes a number an identifier.
    pub fn is_known(&self) -> bool {
        self.has_number_sign
            || self.has_section_sign
            || NOUNS.contains(&&*self.folded)
            || alternatives(&self.folded).is_some()
    }

    /// Whether it may be a name: it begins with a capital.
    pub fn is_name(&self) -> bool {
        self.word.starts_with(char::is_uppercase)
    }

    pub fn is_version(&self) -> bool {
        ALTERNATIVES[3].contains(&&*self.folded)
    }

    /// The words and marks that say the same.
    pub fn into_alternatives(self) -> Vec<String> {
        let word = if self.has_section_sign {
            "§"
        } else {
            self.folded.as_str()
        };
        let mut all: Vec<String> = match alternatives(word) {
            Some(same) => same.iter().map(ToString::to_string).collect(),
            None if word.is_empty() => Vec::new(),
            None => vec![word.to_owned()],
        };
        if self.has_number_sign || NOUNS.contains(&word) {
            all.push("#".to_owned());
        }
        all
    }
}

fn alternatives(word: &str) -> Option<&'static [&'static str]> {
    ALTERNATIVES.into_iter().find(|same| same.contains(&word))
}

/// The numbers of a text, each with what is joined to its end: `1.54.0-rc.1`, `12a`, `12:30`.
pub fn numbers(text: &str) -> impl Iterator<Item = Range<usize>> {
    let bytes = text.as_bytes();
    let mut next = 0;
    std::iter::from_fn(move || {
        let start = next + bytes[next..].iter().position(u8::is_ascii_digit)?;
        let mut end = start;
        while let Some(byte) = bytes.get(end) {
            let after = bytes.get(end + 1).copied().unwrap_or(b' ');
            let is_joined = match byte {
                b'.' | b',' | b':' => after.is_ascii_digit(),
                b'-' | b'_' => after.is_ascii_alphanumeric(),
                _ => byte.is_ascii_alphanumeric(),
            };
            if !is_joined {
                break;
            }
            end += 1;
        }

        next = end;
        Some(start..end)
    })
}

/// The letters that are joined to the beginning of a number: `PROJ` in `PROJ-123`, `K` in `K4711`.
pub fn attached_label(text: &str, start: usize) -> Option<Label> {
    let head = &text[..start];
    let head = head.strip_suffix(['-', '_']).unwrap_or(head);
    let word = last_word(head);
    (!word.is_empty()).then(|| label(word))
}

/// The word or the mark before a number, and spaces and punctuation: `order` in `order no. 5678`.
pub fn label_before(text: &str, start: usize) -> Option<Label> {
    let (head, between) = before_joiners(&text[..start]);
    let mut found = label(last_word(head));
    let mut ends_sentence = between.contains('.');
    if NUMBER_WORDS.contains(&&*found.folded) {
        let (head, between) = before_joiners(&head[..head.len() - found.word.len()]);
        found = label(last_word(head));
        found.has_number_sign = true;
        ends_sentence = between.contains('.');
    }

    // "Sec. 12", but not "in Oslo. 12 people".
    if ends_sentence && !found.is_known() {
        found = label("");
    }

    found.has_number_sign |= between.contains(['#', '№']);
    found.has_section_sign = between.contains('§');
    let is_none = found.word.is_empty() && !found.has_number_sign && !found.has_section_sign;
    (!is_none).then_some(found)
}

fn label(word: &str) -> Label {
    Label {
        word: word.to_owned(),
        folded: word.to_lowercase(),
        has_number_sign: false,
        has_section_sign: false,
    }
}

/// The letters at the end of a text; none if they are too many for a label.
fn last_word(text: &str) -> &str {
    let letters = text.char_indices().rev();
    let mut letters = letters
        .take_while(|(_, c)| c.is_alphabetic())
        .take(MAX_LABEL + 1);
    let Some((mut from, _)) = letters.next() else {
        return "";
    };
    let mut count = 1;
    for (at, _) in letters {
        (from, count) = (at, count + 1);
    }

    if count > MAX_LABEL { "" } else { &text[from..] }
}

/// A text without the joiners at its end, and these.
fn before_joiners(text: &str) -> (&str, &str) {
    let joins = |c: char| " \t\u{a0}#№§:(.-_|\"'=[*".contains(c);
    let joiners = text.char_indices().rev().take(MAX_JOINERS);
    let first = joiners.take_while(|(_, c)| joins(*c)).last();
    text.split_at(first.map_or(text.len(), |(at, _)| at))
}

/// Whether one of some labels stands before a number of a text in lower case. A Markdown heading may
/// begin with the number of its section.
pub fn is_labelled(text: &str, start: usize, labels: &[String]) -> bool {
    let has = |label: &str| labels.iter().any(|one| one == label);
    let is_one =
        |word: &str| !word.is_empty() && (has(word) || word.strip_suffix('s').is_some_and(has));
    if let Some(label) = attached_label(text, start) {
        return is_one(label.folded());
    }

    let (head, between) = before_joiners(&text[..start]);
    let is_numbered_heading = || {
        let marks = between.trim_end_matches(' ');
        let marks = marks.strip_prefix('\n').unwrap_or(marks);
        (head.is_empty() || head.ends_with('\n'))
            && marks.len() < between.len()
            && !marks.is_empty()
            && marks.bytes().all(|mark| mark == b'#')
    };
    if has("§") && (between.contains('§') || is_numbered_heading()) {
        return true;
    }
    if has("#") && between.contains(['#', '№']) && !is_numbered_heading() {
        return true;
    }

    let word = last_word(head);
    if NUMBER_WORDS.contains(&word) {
        let (head, _) = before_joiners(&head[..head.len() - word.len()]);
        return is_one(last_word(head));
    }
    is_one(word)
}

/// How many dots are between the numbers that a number begins with.
pub fn dots(number: &str) -> usize {
    let leading = number.find(|c: char| !(c.is_ascii_digit() || c == '.'));
    let leading = &number[..leading.unwrap_or(number.len())];
    leading.trim_end_matches('.').matches('.').count()
}

/// Whether a number has at most a letter at its end: `12a`.
pub fn is_simple(number: &str) -> bool {
    let digits = number.trim_end_matches(|c: char| c.is_ascii_lowercase());
    number.len() - digits.len() <= 1 && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a number may be a year.
pub fn is_year(number: &str) -> bool {
    let is_century = || number.starts_with("20") || ("15".."20").contains(&&number[..2]);
    number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit()) && is_century()
}

/// Whether a number is a year, or a range of years.
pub fn has_only_years(number: &str) -> bool {
    number.split('-').all(is_year)
}

/// Whether a number is a date, or begins with one: `2024-05-03t10`, `3.5.2024`.
pub fn is_date(number: &str) -> bool {
    let is_short =
        |part: &str| matches!(part.len(), 1 | 2) && part.bytes().all(|byte| byte.is_ascii_digit());
    let by_dash: Vec<&str> = number.splitn(3, '-').collect();
    let by_dot: Vec<&str> = number.splitn(4, '.').collect();
    let begins = match by_dash[..] {
        [year, month, ..] => is_year(year) && is_short(month),
        _ => false,
    };
    let ends = match by_dot[..] {
        [day, month, year] => is_short(day) && is_short(month) && is_year(year),
        _ => false,
    };
    begins || ends
}

/// Whether the dots of a number may separate thousands: `1.000`, but not `192.168.100.200`.
pub fn is_thousands(number: &str) -> bool {
    let parts: Vec<&str> = number.split('.').collect();
    let (first, groups) = (parts[0], &parts[1..]);
    first.len() <= 3 && groups.len() <= 2 && groups.iter().all(|group| group.len() == 3)
}

/// Whether a sign of a currency or of a share stands beside a number.
pub fn is_amount(text: &str, start: usize, end: usize) -> bool {
    let is_currency = |c: char| matches!(c, '$' | '€' | '£' | '¥');
    let after = text[end..].trim_start_matches(' ');
    text[..start].trim_end_matches(' ').ends_with(is_currency)
        || after.starts_with(is_currency)
        || after.starts_with(['%', '°'])
}

/// Whether a number at this place of a text in lower case is not the end of a longer one.
pub fn begins_whole(text: &str, start: usize, is_version: bool, labels: &[String]) -> bool {
    let head = &text[..start];
    let mut before = head.chars().rev();
    let (last, second) = (before.next().unwrap_or(' '), before.next().unwrap_or(' '));
    match last {
        '.' => !second.is_ascii_digit(),
        '-' | ',' | ':' => is_version || !second.is_ascii_digit(),
        '$' | '€' | '£' | '¥' => is_version,
        // A release is often named with the project: `go1.21.3`.
        _ if last.is_alphabetic() => {
            let word = last_word(head);
            let is_label = !word.is_empty() && (is_version || labels.iter().any(|one| one == word));
            let start = start - word.len();
            is_label && !text[..start].ends_with(|c: char| c.is_ascii_digit())
        }
        _ => !last.is_alphanumeric(),
    }
}

/// Whether a number that ends at this place goes on with a dot: `1.54` in `1.54.1`.
pub fn goes_on(text: &str, end: usize) -> bool {
    let mut after = text[end..].chars();
    after.next() == Some('.') && after.next().is_some_and(|c| c.is_ascii_digit())
}

/// Whether a number that ends at this place is not the beginning of a longer one.
pub fn ends_whole(text: &str, end: usize, is_version: bool) -> bool {
    let mut after = text[end..].chars();
    let (first, second) = (after.next().unwrap_or(' '), after.next().unwrap_or(' '));
    match first {
        '.' => !second.is_ascii_digit(),
        '-' | '_' => !second.is_alphanumeric(),
        ',' | ':' => is_version || !second.is_ascii_digit(),
        '%' | '€' => is_version,
        _ => !first.is_alphanumeric(),
    }
}

/// Whether the line with a number is a heading, and the number is the first one in it.
pub fn is_heading(text: &str, start: usize, end: usize) -> bool {
    let from = text.floor_char_boundary(start.saturating_sub(LINE_BYTES));
    let to = text.floor_char_boundary((end + LINE_BYTES).min(text.len()));
    let line_start = match text[from..start].rfind('\n') {
        Some(at) => from + at + 1,
        None if from == 0 => 0,
        None => return false,
    };
    let line_end = match text[end..to].find('\n') {
        Some(at) => end + at,
        None if to == text.len() => to,
        None => return false,
    };

    let (line, before) = (text[line_start..line_end].trim(), &text[line_start..start]);
    if before.contains(|c: char| c.is_ascii_digit()) {
        return false;
    }
    if line.starts_with('#') {
        let level = line.len() - line.trim_start_matches('#').len();
        return line[level..].starts_with(' ');
    }

    let is_item = line.starts_with(['-', '*', '+', '>', '|', '•']) && !line.starts_with("**");
    !is_item
        && !line.ends_with(['.', ',', ';', '!', '?'])
        && line.split_whitespace().count() <= HEADING_WORDS
        && before.split_whitespace().count() <= WORDS_BEFORE
}
