//! Shortens chunks by keeping their most informative sentences. Guarantees the limit in characters,
//! and a summary for every chunk that is not empty.

use memoir_text::sentences;

use super::clean;
use super::rank;

/// Maximum characters of a chunk that are read; more would hardly change a summary.
const READ: usize = 60_000;

/// A summary of each (id, text, maximum characters), in the same order.
pub fn summarize(chunks: &[(i64, &str, usize)]) -> Vec<(i64, String)> {
    chunks
        .iter()
        .map(|(id, text, target)| (*id, shorten(text, *target)))
        .collect()
}

fn shorten(text: &str, target: usize) -> String {
    if text.is_empty() || target == 0 {
        return String::new();
    }

    let flat = sentences::cut(&sentences::flat(text), target.max(READ));
    if flat.chars().count() <= target && !flat.is_empty() {
        return flat;
    }

    let told = telling(text);
    let digest = rank::digest(&told, target, |s| s.chars().count());
    [
        digest,
        sentences::cut(&sentences::flat(&told), target),
        sentences::cut(&flat, target),
        raw(text, target),
    ]
    .into_iter()
    .find(|s| !s.is_empty())
    .unwrap_or_default()
}

/// A summary for chunks that contain only list marks or white space.
fn raw(text: &str, target: usize) -> String {
    let visible = text.trim();
    let shown = if visible.is_empty() {
        "(blank)"
    } else {
        visible
    };

    shown
        .chars()
        .filter(|c| !c.is_control())
        .take(target)
        .collect()
}

/// The chunk without routing lines, limited in length, with separate paragraphs.
pub fn telling(text: &str) -> String {
    let mut told = String::new();
    let mut blank = false;
    for line in text.lines() {
        if line.trim().is_empty() {
            blank = true;
        }

        for kept in clean::telling_lines(line) {
            told.push_str(if blank { "\n\n" } else { "\n" });
            blank = false;
            told.push_str(kept);
        }

        if told.len() > READ {
            break;
        }
    }

    sentences::cut(told.trim_start(), READ)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_keep_to_the_limit_and_are_not_empty() {
        let long = "word ".repeat(5_000);
        let giant = "x".repeat(1_000_000);
        let mail = "From: a@b.org\nDate: today\n\nThe refund was paid on Monday. It took two weeks. We are sorry for the delay in this matter.";
        let chinese = "机器学习是人工智能的一个分支。它很有用。".repeat(20);

        for text in ["a", "  \n ", "---", "Tiny.", mail, &long, &giant, &chinese] {
            for target in [1, 5, 40, 200] {
                let out = shorten(text, target);
                assert!(out.chars().count() <= target, "{target}: {out}");
                assert!(!out.is_empty(), "{target}: {text:.20}");
                assert!(!out.contains('\n'));
            }
        }

        assert_eq!(shorten("", 10), "");
        assert_eq!(shorten("text", 0), "");
    }

    #[test]
    fn the_most_informative_sentences_stay() {
        let text = "The harbour of Hull handles grain. Hm. Grain ships leave the harbour daily. \
                    My aunt likes tea. The harbour exports grain to many ports.";
        let out = shorten(text, 80);
        assert!(out.contains("harbour") && !out.contains("aunt"), "{out}");
    }
}
