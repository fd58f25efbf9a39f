//! What should stay together in a chunk: a heading and its text, a code fence, a row of a table.

use memoir_text::headings::headings;

use super::fragments::CutQuality;

/// The stretches of a text in which a cut should not fall, and the positions of its headings. Asked
/// in the order of the text.
pub struct Blocks {
    /// Start and end of headings, in bytes.
    headings: Vec<(usize, usize)>,
    /// Start and end of code fences and of rows of tables, and whether it is a fence.
    kept: Vec<(usize, usize, bool)>,
    heading: usize,
    block: usize,
}

impl Blocks {
    pub fn of(text: &str) -> Self {
        let headings = headings(text)
            .into_iter()
            .map(|heading| (heading.start, heading.end))
            .collect();

        Self {
            headings,
            kept: kept(text),
            heading: 0,
            block: 0,
        }
    }

    /// How good a position is, given how good its delimiter makes it.
    pub fn judge(&mut self, text: &str, at: usize, quality: CutQuality) -> CutQuality {
        while self
            .kept
            .get(self.block)
            .is_some_and(|(_, end, _)| *end <= at)
        {
            self.block += 1;
        }

        if let Some((start, _, fence)) = self.kept.get(self.block)
            && *start < at
        {
            let whole_line = quality >= CutQuality::Line;
            return match (fence, whole_line) {
                (true, true) => CutQuality::InsideFence,
                _ => CutQuality::Inside,
            };
        }

        // The last heading that begins before the position, and the next one.
        while self
            .headings
            .get(self.heading)
            .is_some_and(|(start, _)| *start < at)
        {
            self.heading += 1;
        }

        let blank = |from: usize, to: usize| text[from..to].trim().is_empty();
        let above = self.heading.checked_sub(1).map(|last| self.headings[last]);
        if above.is_some_and(|(_, end)| end >= at || blank(end, at)) {
            return CutQuality::Inside;
        }

        match self.headings.get(self.heading) {
            Some((start, _)) if quality >= CutQuality::Line && blank(at, *start) => {
                CutQuality::Section
            }
            _ => quality,
        }
    }
}

fn kept(text: &str) -> Vec<(usize, usize, bool)> {
    let mut found = Vec::new();
    let mut fence: Option<(usize, &str)> = None;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let (bare, end) = (line.trim(), start + line.len());
        let mark = ["```", "~~~"]
            .into_iter()
            .find(|mark| bare.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some((start, mark)),
            (Some((begun, open)), Some(mark)) if open == mark => {
                found.push((begun, end, true));
                fence = None;
            }
            (None, None) if bare.starts_with('|') => found.push((start, end, false)),
            _ => {}
        }

        start = end;
    }

    found
}
