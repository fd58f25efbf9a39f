//! Where a text may be cut, and the fragments between them, each counted once.

use memoir_text::tokens::TokenCounter;

use super::blocks::Blocks;

/// How good a position is for a cut, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CutQuality {
    /// Between a heading and its text, or within a row of a table or a line of code.
    Inside,
    /// Between two lines of code in a fence.
    InsideFence,
    Delimiter,
    Sentence,
    Line,
    BlankLine,
    /// Before a heading.
    Section,
}

/// The text between two possible cuts.
#[derive(Debug, Clone, Copy)]
pub struct Fragment {
    pub start: usize,
    pub end: usize,
    pub tokens: usize,
    pub quality: CutQuality,
}

/// Maximum bytes of a run of delimiters before it may be cut: long enough to be counted together,
/// short enough to be counted quickly.
const LONGEST_RUN: usize = 256;

/// The text between possible cuts, each part counted once.
pub fn fragments(text: &str, delimiters: &[String], counter: TokenCounter) -> Vec<Fragment> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut delimiters: Vec<Delimiter<'_>> = delimiters
        .iter()
        .filter_map(|mark| Delimiter::first(text, mark))
        .collect();

    let mut blocks = Blocks::of(text);
    while let Some((end, quality)) = next_cut(text, start, &mut delimiters) {
        let quality = blocks.judge(text, end, quality);
        found.push(Fragment {
            start,
            end,
            tokens: counter.count(&text[start..end]),
            quality,
        });
        start = end;
    }

    if start < text.len() {
        let (end, tokens) = (text.len(), counter.count(&text[start..]));
        found.push(Fragment {
            start,
            end,
            tokens,
            quality: CutQuality::Delimiter,
        });
    }

    found
}

/// A delimiter and its next end; searched again only once that is passed.
struct Delimiter<'d> {
    mark: &'d str,
    end: usize,
}

impl<'d> Delimiter<'d> {
    fn first(text: &str, mark: &'d str) -> Option<Self> {
        let at = text.find(mark).filter(|_| !mark.is_empty())?;
        Some(Self {
            mark,
            end: at + mark.len(),
        })
    }

    /// Moves on to the first end after `start`; `false` if there is none.
    fn advance(&mut self, text: &str, start: usize) -> bool {
        while self.end <= start {
            match text[self.end..].find(self.mark) {
                Some(at) => self.end += at + self.mark.len(),
                None => return false,
            }
        }
        true
    }
}

/// The first possible cut after `start`. An unbroken run of delimiters or of line breaks counts as
/// one, because a run, for example of dots, has far fewer tokens than its parts.
fn next_cut(
    text: &str,
    start: usize,
    delimiters: &mut Vec<Delimiter<'_>>,
) -> Option<(usize, CutQuality)> {
    delimiters.retain_mut(|delimiter| delimiter.advance(text, start));
    let mut end = delimiters.iter().map(|delimiter| delimiter.end).min()?;
    let most = end.saturating_add(LONGEST_RUN);
    let ends_line = |end: usize| text[..end].ends_with('\n');

    while end < most
        && !ends_line(end)
        && let Some(next) = delimiters
            .iter()
            .find(|delimiter| text[end..].starts_with(delimiter.mark))
    {
        end += next.mark.len();
    }
    let sentence = text[..end].ends_with('.') && text[end..].starts_with(char::is_whitespace);
    let mut breaks = usize::from(ends_line(end));

    // Blank lines may contain spaces; any other character ends the run.
    while end < most && (breaks > 0 || delimiters.iter().any(|delimiter| delimiter.mark == "\n")) {
        let spaces = text[end..].len() - text[end..].trim_start_matches([' ', '\t', '\r']).len();
        if !text[end + spaces..].starts_with('\n') {
            break;
        }

        end += spaces + 1;
        breaks += 1;
    }

    let quality = match breaks {
        0 if sentence => CutQuality::Sentence,
        0 => CutQuality::Delimiter,
        1 => CutQuality::Line,
        _ => CutQuality::BlankLine,
    };

    Some((end, quality))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_delimiters_is_one_split_point() {
        for (text, wanted) in [
            (
                "a... b",
                vec![
                    ("a...", CutQuality::Sentence),
                    (" b", CutQuality::Delimiter),
                ],
            ),
            (
                "a...b",
                vec![
                    ("a...", CutQuality::Delimiter),
                    ("b", CutQuality::Delimiter),
                ],
            ),
            (
                "a.\r\nb",
                vec![("a.\r\n", CutQuality::Line), ("b", CutQuality::Delimiter)],
            ),
            (
                "a. \n \n.b",
                vec![
                    ("a. \n \n", CutQuality::BlankLine),
                    (".", CutQuality::Delimiter),
                    ("b", CutQuality::Delimiter),
                ],
            ),
        ] {
            let found = fragments(
                text,
                &[".".into(), "\n".into()],
                TokenCounter::for_model(None),
            );
            let found: Vec<_> = found
                .iter()
                .map(|fragment| (&text[fragment.start..fragment.end], fragment.quality))
                .collect();
            assert_eq!(found, wanted);
        }
    }
}
