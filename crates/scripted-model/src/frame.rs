//! Parses memoir's prompts: labelled lines, lists, and texts between lines of three quotes. Only
//! lines outside such texts have a meaning; inside, three quotes are escaped.

const FENCE: &str = r#"""""#;

/// A `Chunk …:` heading and the text under it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) id: String,
    /// What follows the id in the heading, without the colon.
    pub(super) note: String,
    pub(super) text: String,
}

/// A user message, split into the lines of the prompt and its chunks.
#[derive(Debug, Default)]
pub(super) struct Frame<'a> {
    /// The lines outside texts, in order.
    pub(super) lines: Vec<&'a str>,
    pub(super) chunks: Vec<Chunk>,
}

impl<'a> Frame<'a> {
    pub(super) fn read(text: &'a str) -> Self {
        let mut frame = Self::default();
        let mut inside: Option<Vec<&str>> = None;
        // Not `lines()`: a carriage return belongs to the text.
        for line in text.split('\n') {
            inside = match (line == FENCE, inside) {
                (true, Some(held)) => {
                    frame.close(&held);
                    None
                }
                (true, None) => Some(Vec::new()),
                (false, Some(mut held)) => {
                    held.push(line);
                    Some(held)
                }
                (false, None) => {
                    frame.lines.push(line);
                    None
                }
            };
        }
        frame
    }

    /// Texts under another heading (the excerpt for a helper) are not chunks.
    fn close(&mut self, held: &[&str]) {
        let Some(heading) = self
            .lines
            .last()
            .and_then(|line| line.strip_prefix("Chunk "))
        else {
            return;
        };
        let heading = heading.trim_end().trim_end_matches(':');
        let (id, note) = heading.split_once(' ').unwrap_or((heading, ""));
        let text = unescaped(&held.join("\n"));
        self.chunks.push(Chunk {
            id: id.to_owned(),
            note: note.to_owned(),
            text,
        });
    }

    /// The rest of the first line that starts with `label`.
    pub(super) fn value(&self, label: &str) -> Option<&'a str> {
        self.lines
            .iter()
            .find_map(|line| line.strip_prefix(label))
            .map(str::trim)
    }

    /// The entries of the list under the line `heading`.
    pub(super) fn list(&self, heading: &str) -> Vec<&'a str> {
        let below = self
            .lines
            .iter()
            .skip_while(|line| line.trim_end() != heading)
            .skip(1);
        below.map_while(|line| line.strip_prefix("- ")).collect()
    }

    fn first_line(&self) -> &'a str {
        self.lines
            .iter()
            .find(|line| !line.trim().is_empty())
            .copied()
            .unwrap_or_default()
    }

    /// The stage of this prompt, for requests that do not name it.
    pub(super) fn stage(&self) -> &'static str {
        let has = |label: &str| self.lines.iter().any(|line| line.starts_with(label));
        if has("new categories:") || (has("parent:") && has("level:")) {
            "classify"
        } else if has("select: at most") {
            "select"
        } else if self.lines.iter().any(|line| line.contains("target_chars=")) {
            "summarize"
        } else if self.first_line().starts_with("filename:") {
            "helper"
        } else if self.first_line().starts_with("query:") {
            "answer"
        } else {
            ""
        }
    }
}

/// The text before runs of three or more quotes were escaped.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(r#"\"\"\""#) {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        while let Some(after) = rest.strip_prefix(r#"\""#) {
            plain.push('"');
            rest = after;
        }
    }
    plain + rest
}

/// The first run of digits in `text`.
pub(super) fn first_number(text: &str) -> Option<u64> {
    let from = text.find(|c: char| c.is_ascii_digit())?;
    let digits = text[from..].split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SELECT: &str = "contextual_helper: none\nquery: filename: x\nlevel: 1 of 3\nselect: at most 4\n\
                          options:\n- Art\n- Sea and land\n";

    #[test]
    fn reads_lists_and_values() {
        let frame = Frame::read(SELECT);
        assert_eq!(frame.stage(), "select");
        assert_eq!(frame.list("options:"), ["Art", "Sea and land"]);
        assert_eq!(frame.value("level:").and_then(first_number), Some(1));
    }

    #[test]
    fn each_stage_is_recognised_by_its_prompt() {
        let stage = |text: &str| Frame::read(text).stage();
        assert_eq!(
            stage("contextual_helper: none\nnew categories: allowed\nChunk 1:"),
            "classify"
        );

        assert_eq!(
            stage("Chunk 3 (original_chars=9, target_chars=4):\n\"\"\"\nx\n\"\"\"\nShorten."),
            "summarize"
        );

        assert_eq!(stage("filename: a.txt\nquery: no"), "helper");
        assert_eq!(stage("query: why?"), "answer");
        assert_eq!(stage("Are you there?"), "");
    }

    #[test]
    fn escaped_quotes_are_restored() {
        for (sent, text) in [
            (r#"\"\"\"\"\"x"#, r#""""""x"#),
            (r#"a\"\"b"#, r#"a\"\"b"#),
            (r#"\"\"\"y\"\"\""#, r#""""y""""#),
        ] {
            assert_eq!(unescaped(sent), text);
        }
    }

    #[test]
    fn labels_inside_texts_are_ignored() {
        let text = "query: why?\nChunk 7 [A / B]:\n\"\"\"\nnew categories: allowed\n\\\"\\\"\\\"\n\"\"\"\n";
        let frame = Frame::read(text);
        assert_eq!(frame.stage(), "answer");
        let chunk = Chunk {
            id: "7".into(),
            note: "[A / B]".into(),
            text: "new categories: allowed\n\"\"\"".into(),
        };
        assert_eq!(frame.chunks, [chunk]);
    }
}
