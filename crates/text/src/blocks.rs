//! Cuts a text into what a reader sees as one: paragraphs, list items with their wrapped lines, rows
//! of tables, code with its lines. Guarantees blocks in order, and linear time.

use std::borrow::Cow;

/// What a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockKind {
    Paragraph,
    /// An item of a list.
    Item,
    /// A row of a table, without the bars at its ends.
    Row,
    /// Code or data, without its fence.
    Code,
}

/// A block of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block<'t> {
    pub kind: BlockKind,
    /// Its lines; a comment of a program without its marks.
    pub text: Cow<'t, str>,
    /// Where its first line begins, in bytes.
    pub start: usize,
    /// The Markdown heading above it in this text.
    pub heading: Option<&'t str>,
}

/// Lines after which code goes on in a block of its own.
const MAX_CODE_LINES: usize = 60;
/// Marks that begin a line of a comment.
const COMMENTS: [&str; 5] = ["//!", "///", "//", "--", ";;"];
/// Words that begin a line of a program.
const KEYWORDS: [&str; 26] = [
    "fn ",
    "pub ",
    "let ",
    "use ",
    "impl ",
    "const ",
    "static ",
    "struct ",
    "enum ",
    "mod ",
    "match ",
    "def ",
    "class ",
    "import ",
    "return ",
    "return;",
    "function ",
    "var ",
    "async ",
    "await ",
    "#include",
    "#[",
    "SELECT ",
    "INSERT ",
    "UPDATE ",
    "CREATE ",
];

/// The blocks of a text, without headings and rulers.
#[must_use]
pub fn blocks(text: &str) -> Vec<Block<'_>> {
    let lines = lines(text);
    let mut found = Vec::new();
    let mut at = rest_of_code(text, &lines, &mut found);
    let mut heading = None;
    while at < lines.len() {
        let (line, before) = (lines[at].bare(), found.len());
        let end = if line.is_empty() || is_ruler(line) || is_heading(line) {
            at + 1
        } else if let Some(fence) = fence(line) {
            fenced(text, &lines, at, fence, &mut found)
        } else if line.starts_with('|') {
            let row = line.trim_matches('|').trim();
            push(&mut found, BlockKind::Row, row.into(), lines[at].start);
            at + 1
        } else if is_item(line) {
            let end = (at + 1..lines.len()).find(|next| begins_anew(lines[*next].bare()));
            let end = end.unwrap_or(lines.len());
            let item = text[lines[at].start..lines[end - 1].end].trim();
            push(&mut found, BlockKind::Item, item.into(), lines[at].start);
            end
        } else {
            paragraph(text, &lines, at, &mut found)
        };

        for block in &mut found[before..] {
            block.heading = heading;
        }
        if is_heading(line) {
            heading = Some(line.trim_start_matches('#').trim());
        }
        at = end;
    }

    found
}

/// A line of a text.
struct Line<'t> {
    text: &'t str,
    start: usize,
    end: usize,
}

impl<'t> Line<'t> {
    fn bare(&self) -> &'t str {
        self.text.trim()
    }
}

fn lines(text: &str) -> Vec<Line<'_>> {
    let mut start = 0;
    let each = text.split_inclusive('\n').map(|whole| {
        let line = Line {
            text: whole.trim_end_matches(['\n', '\r']),
            start,
            end: start + whole.len(),
        };
        start = line.end;
        line
    });
    each.collect()
}

fn push<'t>(found: &mut Vec<Block<'t>>, kind: BlockKind, text: Cow<'t, str>, start: usize) {
    if text.chars().any(char::is_alphanumeric) {
        found.push(Block {
            kind,
            text,
            start,
            heading: None,
        });
    }
}

/// Code that the text begins within: its first fence then closes it. Returns the line after it.
fn rest_of_code<'t>(text: &'t str, lines: &[Line<'t>], found: &mut Vec<Block<'t>>) -> usize {
    let mut fences = (0..lines.len()).filter(|at| fence(lines[*at].bare()).is_some());
    let Some(first) = fences.next() else {
        return 0;
    };
    let bare = lines[first].bare().chars().all(|c| matches!(c, '`' | '~'));
    let ends_code = fences.count() % 2 == 0 && bare && first > 0;
    if !ends_code || lines[..first].iter().any(|line| is_heading(line.bare())) {
        return 0;
    }

    let code = text[..lines[first].start].trim_end();
    push(found, BlockKind::Code, code.into(), 0);
    first + 1
}

/// A block between two fences. Returns the line after it.
fn fenced<'t>(
    text: &'t str,
    lines: &[Line<'t>],
    at: usize,
    fence: &str,
    found: &mut Vec<Block<'t>>,
) -> usize {
    let closes = |next: &usize| {
        let line = lines[*next].bare();
        line.starts_with(fence) && line.trim_start_matches(&fence[..1]).is_empty()
    };
    let end = (at + 1..lines.len()).find(closes).unwrap_or(lines.len());
    if end > at + 1 {
        let code = text[lines[at + 1].start..lines[end - 1].end].trim_end();
        push(found, BlockKind::Code, code.into(), lines[at + 1].start);
    }
    end + 1
}

/// A paragraph, a comment, or code up to the line that begins something else. Returns the line after
/// it.
fn paragraph<'t>(
    text: &'t str,
    lines: &[Line<'t>],
    at: usize,
    found: &mut Vec<Block<'t>>,
) -> usize {
    let start = lines[at].start;
    let is_code = is_code_from(lines, at);
    let ends = |next: &usize| {
        let line = lines[*next].bare();
        if is_code {
            line.is_empty() || fence(line).is_some()
        } else {
            begins_anew(line)
        }
    };
    let mut end = (at + 1..lines.len()).find(ends).unwrap_or(lines.len());
    if let Some(mark) = comment(&lines[at..end]) {
        let plain: Vec<&str> = lines[at..end]
            .iter()
            .map(|line| line.bare().trim_start_matches(mark).trim())
            .collect();
        push(found, BlockKind::Paragraph, plain.join("\n").into(), start);
        return end;
    }
    if !is_code {
        let prose = text[start..lines[end - 1].end].trim();
        push(found, BlockKind::Paragraph, prose.into(), start);
        return end;
    }

    // What is indented behind a blank line belongs to the code before it.
    while end + 1 < lines.len() && end - at < MAX_CODE_LINES {
        let next = &lines[end + 1];
        let goes_on = next.text.starts_with([' ', '\t']) && !next.bare().is_empty();
        if !lines[end].bare().is_empty() || !goes_on {
            break;
        }
        let blank = (end + 1..lines.len()).find(|next| lines[*next].bare().is_empty());
        end = blank.unwrap_or(lines.len());
    }
    let code = text[start..lines[end - 1].end].trim_end();
    push(found, BlockKind::Code, code.into(), start);
    end
}

/// The mark with which all these lines begin, if they are a comment.
fn comment(lines: &[Line<'_>]) -> Option<&'static str> {
    let first = lines.first()?.bare();
    let mark = COMMENTS.into_iter().find(|mark| first.starts_with(mark))?;
    let all = lines.iter().all(|line| line.bare().starts_with(mark));
    all.then_some(mark)
}

/// Whether most lines up to the next blank one look like code, or one declares something and another
/// opens or ends a block.
fn is_code_from(lines: &[Line<'_>], at: usize) -> bool {
    let here = lines[at..]
        .iter()
        .take_while(|line| !line.bare().is_empty());
    let (mut code, mut all) = (0, 0);
    let (mut declares, mut has_block) = (false, false);
    for line in here.take(MAX_CODE_LINES) {
        let line = line.bare();
        all += 1;
        code += usize::from(is_code_line(line));
        declares |= KEYWORDS.iter().any(|word| line.starts_with(word));
        has_block |= line.ends_with(['{', ';', '}']);
    }
    code * 2 > all || (declares && has_block)
}

/// Whether a line looks like code or data rather than prose.
fn is_code_line(line: &str) -> bool {
    let symbols = line
        .chars()
        .filter(|c| "{}[]();=<>|\\\"".contains(*c))
        .count();
    line.ends_with(['{', ';', '}'])
        || KEYWORDS.iter().any(|word| line.starts_with(word))
        || COMMENTS[..3].iter().any(|mark| line.starts_with(mark))
        || symbols * 8 > line.len()
}

fn begins_anew(line: &str) -> bool {
    line.is_empty()
        || is_item(line)
        || is_heading(line)
        || line.starts_with('|')
        || fence(line).is_some()
}

fn fence(line: &str) -> Option<&'static str> {
    ["```", "~~~"]
        .into_iter()
        .find(|fence| line.starts_with(fence))
}

fn is_heading(line: &str) -> bool {
    super::sentences::is_heading(line)
}

/// Whether a line only separates: dashes, or the line below the head of a table.
fn is_ruler(line: &str) -> bool {
    line.chars()
        .all(|c| matches!(c, '-' | '=' | '*' | '_' | '|' | ':' | ' '))
}

fn is_item(line: &str) -> bool {
    let Some((mark, _)) = line.split_once(' ') else {
        return false;
    };
    let number = mark.trim_end_matches(['.', ')']);
    let is_numbered = number.len() + 1 == mark.len()
        && (1..=3).contains(&number.len())
        && number.bytes().all(|b| b.is_ascii_digit());
    matches!(mark, "-" | "*" | "+" | "•") || is_numbered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<(BlockKind, String)> {
        let each = blocks(text).into_iter();
        each.map(|block| (block.kind, block.text.into_owned()))
            .collect()
    }

    #[test]
    fn wrapped_lines_belong_together() {
        use BlockKind::{Item, Paragraph, Row};
        let text = "# Lamp\n\nThe lamp burns\nwhale oil.\n\n- Trim the wick\n  every evening.\n- Fill it.\n1. Light it.\n\n\
                    | word | means |\n| --- | --- |\n| wick | burns |\n";
        assert_eq!(
            cut(text),
            [
                (Paragraph, "The lamp burns\nwhale oil.".to_owned()),
                (Item, "- Trim the wick\n  every evening.".to_owned()),
                (Item, "- Fill it.".to_owned()),
                (Item, "1. Light it.".to_owned()),
                (Row, "word | means".to_owned()),
                (Row, "wick | burns".to_owned()),
            ]
        );
    }

    #[test]
    fn code_that_the_text_begins_within_is_code() {
        use BlockKind::{Code, Paragraph};
        let wanted = [(Code, " find → hydrate"), (Paragraph, "They share it.")];
        let wanted = wanted.map(|(kind, text)| (kind, text.to_owned()));
        assert_eq!(cut(" find → hydrate\n```\n\nThey share it.\n"), wanted);
    }

    #[test]
    fn code_keeps_its_lines() {
        use BlockKind::{Code, Paragraph};
        let shell = "cargo test\n\ncargo run -- serve";
        let text = format!("Run it:\n\n```sh\n{shell}\n```\nIt listens.");
        let wanted = [
            (Paragraph, "Run it:"),
            (Code, shell),
            (Paragraph, "It listens."),
        ];
        assert_eq!(
            cut(&text),
            wanted.map(|(kind, text)| (kind, text.to_owned()))
        );

        let function =
            "/// Adds.\nfn add(a: u8, b: u8) -> u8 {\n    let sum = a + b;\n\n    sum\n}";
        let text = format!(
            "//! Sums of numbers,\n//! and nothing else.\n\n{function}\n\nconst ONE: u8 = 1;\n"
        );
        let wanted = [
            (Paragraph, "Sums of numbers,\nand nothing else."),
            (Code, function),
            (Code, "const ONE: u8 = 1;"),
        ];
        assert_eq!(
            cut(&text),
            wanted.map(|(kind, text)| (kind, text.to_owned()))
        );
    }
}
