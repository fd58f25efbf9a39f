//! Fills the budget with chunks one by one, best first.

use super::{PromptTokens, Size};

/// Which chunks stay: each in turn, if it still fits. The chunks are in order of relevance.
pub fn fill(prompt: &PromptTokens, budget: i64) -> Vec<bool> {
    let mut used = vec![false; prompt.helpers.len()];
    let mut tokens = prompt.base.tokens;
    let mut any_helper = false;
    let mut kept = Vec::with_capacity(prompt.items.len());
    for item in &prompt.items {
        let line = |known: Option<Size>| known.map_or(0, |line| line.tokens);
        let line_tokens = if used[item.source] {
            0
        } else {
            line(prompt.helpers[item.source])
        };

        // The line that says that there is no helper stands until there is one.
        let none = if any_helper || line_tokens > 0 {
            0
        } else {
            prompt.no_helper.tokens
        };

        let more = item.frame.tokens + item.sent + line_tokens;
        let fits = tokens + more + none <= budget;
        if fits {
            tokens += more;
            used[item.source] = true;
            any_helper |= line_tokens > 0;
        }

        kept.push(fits);
    }

    kept
}

#[cfg(test)]
mod tests {
    use super::super::{ChunkTokens, ModeTokens};
    use super::*;

    fn prompt(items: &[(usize, i64)], helpers: Vec<Option<i64>>) -> PromptTokens {
        let size = |tokens| Size { tokens, chars: 0 };
        let item = |(source, tokens): &(usize, i64)| ChunkTokens {
            path: 0,
            source: *source,
            frame: size(1),
            text: size(*tokens),
            sent: *tokens,
        };

        PromptTokens {
            base: size(10),
            query: size(2),
            mode: ModeTokens::default(),
            no_helper: size(2),
            helpers: helpers.into_iter().map(|tokens| tokens.map(size)).collect(),
            items: items.iter().map(item).collect(),
        }
    }

    #[test]
    fn the_best_chunks_that_fit_are_kept() {
        let prompt = prompt(&[(0, 20), (0, 50), (0, 9)], vec![None]);
        let kept = fill(&prompt, 10 + 2 + 21 + 10);
        assert_eq!(kept, [true, false, true]);
        assert_eq!(prompt.tokens(&kept), 10 + 2 + 21 + 10, "as a whole");
        assert_eq!(fill(&prompt, 10 + 2 + 21 + 9), [true, false, false]);
        assert_eq!(fill(&prompt, 10), [false, false, false]);
    }

    #[test]
    fn a_helper_counts_once_and_only_with_a_chunk() {
        let prompt = prompt(&[(0, 20), (1, 20), (1, 20)], vec![None, Some(5)]);
        let whole = 10 + 5 + 3 * 21;
        assert_eq!(fill(&prompt, whole), [true, true, true]);
        assert_eq!(prompt.tokens(&[true, true, true]), whole);
        assert_eq!(fill(&prompt, 10 + 5 + 2 * 21), [true, true, false]);
    }
}
