//! Answers a question that names a heading with what stands under it: "What are the next steps?"
//! with the list under "Next steps".

use super::AnswerChunk;
use super::question::Kind;
use super::rank::Terms;
use crate::base::sentences;

/// Maximum entries of the list, and sentences of a section without one.
const MOST_ITEMS: usize = 12;
const MOST_SENTENCES: usize = 3;
/// Maximum words of a line that is a heading without being marked as one.
const HEADING_WORDS: usize = 6;
/// Share of the question's other words that the chunk must contain.
const COVERED: f32 = 0.5;

/// What stands under a heading.
pub struct Section {
    pub chunk_id: i64,
    pub items: Vec<String>,
}

/// The section whose heading the question names; of several, the one whose chunk contains most of
/// the question's other words, and then the one of the most relevant chunk.
pub fn named(question: &Terms, kind: Kind, chunks: &[AnswerChunk<'_>]) -> Option<Section> {
    let mut best: Option<(f32, Section)> = None;
    for chunk in chunks {
        for (heading, lines) in sections(chunk.text) {
            let named = Terms::of(heading).stems;
            let is_asked = !named.is_empty() && named.is_subset(&question.stems);
            let is_all = named.len() == question.stems.len();
            if !is_asked || !(kind == Kind::List || (kind == Kind::Any && is_all)) {
                continue;
            }

            let around = Terms::of(&format!("{} {}", chunk.path, chunk.text)).stems;
            let others: Vec<&String> = question.stems.difference(&named).collect();
            let have = others.iter().filter(|stem| around.contains(**stem)).count();
            let covered = share(have, others.len());
            let is_better = best.as_ref().is_none_or(|(most, _)| covered > *most);
            let items = items(&lines);
            if covered >= COVERED && is_better && !items.is_empty() {
                let chunk_id = chunk.chunk_id;
                best = Some((covered, Section { chunk_id, items }));
            }
        }
    }

    best.map(|(_, section)| section)
}

#[expect(clippy::cast_precision_loss, reason = "words of a question")]
fn share(have: usize, all: usize) -> f32 {
    if all == 0 {
        1.0
    } else {
        have as f32 / all as f32
    }
}

/// The headings of a text, each with the lines up to the next one.
fn sections(text: &str) -> Vec<(&str, Vec<&str>)> {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let marked = sentences::is_heading(line);
        let before_list = || {
            let words = line.split_whitespace().count();
            let next = lines.get(at + 1).copied().unwrap_or_default();
            let continues = line.starts_with(' ') || entry(line).is_some();
            words <= HEADING_WORDS && !continues && entry(next).is_some()
        };
        if marked || before_list() {
            let name = line
                .trim()
                .trim_start_matches('#')
                .trim_matches([':', ' ', '*']);
            found.push((name, Vec::new()));
        } else if let Some((_, under)) = found.last_mut() {
            under.push(line);
        }
    }

    found
}

/// The text of an entry of a list.
fn entry(line: &str) -> Option<&str> {
    let bare = line.trim_start();
    let marked = ["- ", "* ", "+ ", "• "]
        .iter()
        .find_map(|mark| bare.strip_prefix(mark));
    let numbered = || {
        let rest = bare.trim_start_matches(|c: char| c.is_ascii_digit());
        let rest = rest.strip_prefix(['.', ')'])?.strip_prefix(' ')?;
        (rest.len() < bare.len() - 2).then_some(rest)
    };
    marked.or_else(numbered).map(str::trim)
}

/// The entries of a list, each with the lines that continue it; without a list, the first sentences.
fn items(lines: &[&str]) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for line in lines {
        match (entry(line), items.last_mut()) {
            (Some(text), _) => items.push(text.to_owned()),
            (None, Some(last)) if line.starts_with(' ') => {
                last.push(' ');
                last.push_str(line.trim());
            }
            // What follows a list is not part of it.
            (None, Some(_)) => break,
            (None, None) => {}
        }
    }

    if items.is_empty() {
        let text = lines.join("\n");
        let first = sentences::split(&text).into_iter().take(MOST_SENTENCES);
        return first.map(ToOwned::to_owned).collect();
    }

    items.truncate(MOST_ITEMS);
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEETING: &str = "# Minutes: the new catalogue\n\n## Decisions\n\nWe keep the old one until May.\n\n\
        ## Next steps\n\n- Lena asks for\n  three offers\n- Tom exports the cards\n\nThe next meeting is in June.\n";
    const CAKE: &str =
        "Plum cake\n\nIngredients:\n- 500 g plums\n- 2 eggs\n\nRoll it out on a tray.\n";

    fn asked(question: &str, texts: &[&str]) -> Option<(i64, Vec<String>)> {
        let chunks: Vec<AnswerChunk<'_>> = (1..)
            .zip(texts)
            .map(|(chunk_id, text)| AnswerChunk {
                chunk_id,
                path: "",
                text,
            })
            .collect();
        named(&Terms::of(question), Kind::of(question), &chunks)
            .map(|section| (section.chunk_id, section.items))
    }

    #[test]
    fn the_list_under_a_heading_is_the_answer() {
        let (id, items) = asked(
            "What are the next steps for the catalogue?",
            &["It has 168 steps.", MEETING],
        )
        .unwrap();
        assert_eq!(id, 2);
        assert_eq!(
            items,
            ["Lena asks for three offers", "Tom exports the cards"]
        );

        let (_, items) = asked("What are the ingredients of the plum cake?", &[CAKE]).unwrap();
        assert_eq!(items, ["500 g plums", "2 eggs"]);
        let (_, items) = asked("What are the decisions?", &[MEETING]).unwrap();
        assert_eq!(items, ["We keep the old one until May."]);
        assert!(asked("Next steps?", &[MEETING]).is_some());
    }

    #[test]
    fn the_section_is_of_what_is_asked_about() {
        let other = "# Walnut bread\n\nIngredients:\n- flour\n";
        let (id, _) = asked("What are the ingredients of the plum cake?", &[other, CAKE]).unwrap();
        assert_eq!(id, 2);
        assert!(asked("What are the ingredients of the lentil soup?", &[CAKE]).is_none());
        assert!(asked("Who decides on the next steps?", &[MEETING]).is_none());
    }
}
