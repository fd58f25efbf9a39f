//! The keys of JSON and YAML, as headings of what they hold.

use super::lines::{Line, split};
use super::{Heading, heading};

/// Lines of which most must look like YAML.
const LOOKED_AT: usize = 60;

/// The keys at the highest level that hold a list or an object, if the text is JSON or YAML.
pub fn keys(text: &str) -> Option<Vec<Heading>> {
    let bare = text.trim();
    let json = bare.starts_with('{') && bare.ends_with('}') && bare.contains("\":");
    if !json && !is_yaml(text) {
        return None;
    }

    let lines = split(text);
    let first_level = first_indent(text);
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let key = if json {
            json_key(text, line)
                .filter(|(_, indent)| Some(*indent) == first_level)
                .map(|(key, _)| key)
        } else {
            yaml_key(text, line, lines.get(at + 1))
        };

        if let Some(key) = key {
            found.push(heading(&lines, line, at + 1, 2, key));
        }
    }

    Some(found)
}

/// Whether most lines are keys, items or comments, and the first are not those of a mail or of a
/// document with front matter.
pub fn is_yaml(text: &str) -> bool {
    let mut lines = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .take(LOOKED_AT)
        .peekable();

    if lines.peek().is_some_and(|line| line.starts_with("# ")) && text.contains("\n\n") {
        // A comment or the title of a Markdown text: the next lines decide.
        lines.next();
    }

    let (mut all, mut like, mut nested) = (0, 0, false);
    for line in lines {
        all += 1;
        let item = line.trim_start();
        let inside = line.len() > item.len();
        let item = item.strip_prefix("- ").unwrap_or(item);
        let key = item
            .split_once(':')
            .is_some_and(|(key, rest)| is_key(key) && (rest.is_empty() || rest.starts_with(' ')));
        nested |= inside && (key || line.trim_start().starts_with("- "));
        let plain = inside && line.trim_start().starts_with("- ");
        like += usize::from(key || plain || line.trim_start().starts_with('#'));
    }

    nested && all >= 3 && like * 10 >= all * 9
}

fn is_key(key: &str) -> bool {
    let key = key.trim_matches(['"', '\'']);
    !key.is_empty()
        && key.len() <= 40
        && key
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'))
}

/// The key of `  "scripts": {`, and its indentation.
fn json_key<'t>(text: &'t str, line: &Line<'t>) -> Option<(&'t str, usize)> {
    let whole = &text[line.start..line.end()];
    let indent = whole.len() - whole.trim_start_matches([' ', '\t']).len();
    let (key, rest) = line.bare.strip_prefix('"')?.split_once("\":")?;
    let opens = matches!(rest.trim(), "{" | "[");
    ((1..=4).contains(&indent) && indent != 3 && opens).then_some((key, indent))
}

/// The indentation of the first key.
fn first_indent(text: &str) -> Option<usize> {
    let mut lines = text.lines();
    let first = lines.find(|line| line.trim_start().starts_with('"'))?;
    Some(first.len() - first.trim_start().len())
}

/// `services:` before an indented block.
fn yaml_key<'t>(text: &'t str, line: &Line<'t>, next: Option<&Line<'t>>) -> Option<&'t str> {
    let whole = &text[line.start..line.end()];
    let key = line.bare.strip_suffix(':')?;
    let next = next?;
    let below = &text[next.start..next.end()];
    (whole.starts_with(key)
        && is_key(key)
        && (below.starts_with([' ', '\t']) || below.starts_with("- ")))
    .then_some(key)
}
