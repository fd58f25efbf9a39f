//! Takes entries while their tokens fit, cuts the first that does not, and drops the rest.

use memoir_text::text::char_count;
use memoir_text::tokens::quarter_estimate;

use super::super::candidate::Entry;
use super::super::explain::{Effect, Reason, Step};
use super::clip::ELLIPSIS;

pub const NAME: &str = "token_budget";

/// Characters that one token stands for in the estimate.
const CHARACTERS_PER_TOKEN: usize = 4;

pub fn apply(entries: &mut Vec<Entry>, max_tokens: usize) -> Step {
    let before = entries.len();
    let mut effects = Vec::new();
    let mut left = max_tokens;
    let mut full = false;

    entries.retain_mut(|entry| {
        let tokens = quarter_estimate(entry.content());
        if !full && tokens <= left {
            left -= tokens;
            return true;
        }

        let cut = if full {
            None
        } else {
            cut_to(entry.content(), left)
        };
        full = true;
        let Some(cut) = cut else {
            let reason = Reason::BeyondBudget {
                tokens,
                tokens_left: left,
            };
            effects.push(Effect::new(entry.id(), reason));
            return false;
        };

        let reason = Reason::CutToBudget {
            tokens,
            tokens_left: left,
        };
        effects.push(Effect::new(entry.id(), reason));
        entry.candidate.content = cut;
        left = 0;
        true
    });

    Step {
        name: NAME,
        before,
        after: entries.len(),
        effects,
    }
}

/// The beginning of a text that fills the tokens left, its `...` included; `None` if nothing fits.
fn cut_to(text: &str, tokens: usize) -> Option<String> {
    cut(text, characters(tokens), ELLIPSIS)
}

/// The characters that so many tokens stand for.
pub fn characters(tokens: usize) -> usize {
    tokens.saturating_mul(CHARACTERS_PER_TOKEN)
}

/// The beginning of a text with a marker, at most so many characters in all; `None` if not even the
/// marker fits.
pub fn cut(text: &str, most: usize, marker: &str) -> Option<String> {
    let kept = most.checked_sub(char_count(marker))?;
    let mut cut: String = text.chars().take(kept).collect();
    cut.push_str(marker);
    Some(cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_text_fills_the_tokens_with_its_ellipsis() {
        assert_eq!(cut_to("abcdefghij", 2).as_deref(), Some("abcde..."));
        assert_eq!(cut_to("abcdefghij", 1).as_deref(), Some("a..."));
        assert_eq!(cut_to("abcdefghij", 0), None);
        assert_eq!(
            cut_to("你好世界再见朋友们", 2).as_deref(),
            Some("你好世界再...")
        );
    }
}
