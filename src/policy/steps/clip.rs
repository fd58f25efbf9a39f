//! Keeps the first sentences of each entry.

use memoir_text::text::sentences;

use super::super::candidate::Entry;
use super::super::explain::{Effect, Reason, Step};

pub const NAME: &str = "clipping";

/// What follows a text that was cut.
pub const ELLIPSIS: &str = "...";

pub fn apply(entries: &mut [Entry], most: usize) -> Step {
    let before = entries.len();
    let mut effects = Vec::new();

    for entry in entries.iter_mut() {
        let (clipped, sentences) = clip(entry.content(), most);
        entry.candidate.content = clipped;
        if sentences > most {
            let reason = Reason::Clipped {
                sentences,
                kept: most,
            };
            effects.push(Effect::new(entry.id(), reason));
        }
    }

    Step {
        name: NAME,
        before,
        after: before,
        effects,
    }
}

/// The first sentences, and how many there were.
///
/// A rest without a full stop counts as a sentence, and a point inside `$3.50` ends none.
fn clip(text: &str, most: usize) -> (String, usize) {
    let sentences: Vec<&str> = sentences(text)
        .map(str::trim)
        .filter(|sentence| !sentence.is_empty())
        .collect();
    let mut clipped = sentences[..most.min(sentences.len())].join(" ");
    if sentences.len() > most {
        clipped.push_str(ELLIPSIS);
    }

    (clipped, sentences.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_sentences_stay() {
        for (text, most, clipped) in [
            ("One. Two! Three?", 2, "One. Two!..."),
            ("One. Two!", 2, "One. Two!"),
            ("No full stop", 1, "No full stop"),
            ("One. and a rest", 1, "One...."),
            (
                "It costs $3.50 today. Or not.",
                1,
                "It costs $3.50 today....",
            ),
            (
                "Mrs. Hill paid Dr. Lamb. He left.",
                1,
                "Mrs. Hill paid Dr. Lamb....",
            ),
            ("你好。世界！再见", 2, "你好。 世界！..."),
            ("  One.\n\nTwo.  ", 2, "One. Two."),
            ("", 2, ""),
        ] {
            assert_eq!(clip(text, most).0, clipped, "{text}");
        }
    }
}
