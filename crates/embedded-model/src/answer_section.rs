//! Answers a question that names a heading with what stands under it: "What are the next steps?"
//! with the list under "Next steps".

use std::cell::OnceCell;
use std::collections::HashSet;

use memoir_text::sentences;

use super::AnswerChunk;
use super::question::Kind;
use super::rank;

/// Maximum entries of the list, and sentences of a section without one.
pub const MAX_ITEMS: usize = 20;
const MAX_SENTENCES: usize = 3;
/// Maximum words of a line that is a heading without being marked as one.
const HEADING_WORDS: usize = 6;
/// Share of the question's other words that the chunk must contain.
const COVERED: f32 = 0.6;
const PREPOSITIONS: [&str; 8] = [
    " of ", " for ", " in ", " on ", " at ", " from ", " with ", " by ",
];

/// What stands under a heading.
pub struct Section {
    pub chunk_id: i64,
    pub items: Vec<String>,
    /// The words of its heading.
    pub stems: HashSet<String>,
    /// The words of the source and of the headings above its chunk.
    pub above: HashSet<String>,
}

/// The section whose heading the question asks for; of several, the one whose chunk contains most of
/// the question's other words, and then the one of the most relevant chunk.
pub fn named(query: &str, kind: Kind, chunks: &[AnswerChunk<'_>]) -> Option<Section> {
    let question = rank::stems(query);
    let wanted = rank::stems(asked_for(query));
    let mut best: Option<(f32, Section)> = None;
    for chunk in chunks {
        let around = OnceCell::new();
        let stems_around = || {
            let all = [chunk.path, chunk.about, chunk.text];
            rank::stems(&all.join(" "))
        };
        for (heading, lines) in sections(chunk.text) {
            let named = rank::stems(heading);
            let is_asked = named.is_subset(&question) && !named.is_disjoint(&wanted);
            let is_all = named.len() == question.len();
            if !is_asked || !(kind == Kind::List || (kind == Kind::Any && is_all)) {
                continue;
            }

            let around = around.get_or_init(stems_around);
            let others: Vec<&String> = question.difference(&named).collect();
            let have = others.iter().filter(|stem| around.contains(**stem)).count();
            let covered = share(have, others.len());
            let is_better = best.as_ref().is_none_or(|(most, _)| covered > *most);
            let items = items(&lines);
            if covered >= COVERED && is_better && !items.is_empty() {
                let section = Section {
                    chunk_id: chunk.chunk_id,
                    items,
                    stems: named,
                    above: rank::stems(chunk.about),
                };
                best = Some((covered, section));
            }
        }
    }

    best.map(|(_, section)| section)
}

/// The words before the first preposition: the ingredients, and not the cake that they are for.
fn asked_for(query: &str) -> &str {
    let lower = query.to_lowercase();
    let first = PREPOSITIONS
        .iter()
        .filter_map(|word| lower.find(word))
        .min();
    first.and_then(|at| query.get(..at)).unwrap_or(query)
}

#[expect(clippy::cast_precision_loss, reason = "words of a question")]
fn share(have: usize, all: usize) -> f32 {
    if all == 0 {
        1.0
    } else {
        have as f32 / all as f32
    }
}

/// The headings of a text, each with the lines up to the next one. A short line before a list is a
/// heading too; if it comes first in a section, it may only introduce the list, which then belongs
/// to both.
fn sections(text: &str) -> Vec<(&str, Vec<&str>)> {
    let lines: Vec<&str> = text.lines().collect();
    let is_blank = |line: &&str| line.trim().is_empty();
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    // The first of the sections that the next lines belong to.
    let mut open = 0;
    for (at, line) in lines.iter().enumerate() {
        let marked = sentences::is_heading(line);
        let before_list = || {
            let words = line.split_whitespace().count();
            let first = at == 0 || is_blank(&lines[at - 1]);
            let short = (1..=HEADING_WORDS).contains(&words) && entry(line).is_none();
            // Only now, because it reads all blank lines that follow.
            let next = || lines[at + 1..].iter().find(|line| !is_blank(line));
            first && short && next().is_some_and(|next| entry(next).is_some())
        };
        if marked || before_list() {
            let introduces = || {
                found
                    .last()
                    .is_some_and(|(_, under)| under.iter().all(is_blank))
            };
            if marked || !introduces() {
                open = found.len();
            }
            let name = line.trim().trim_start_matches('#');
            found.push((name.trim_matches([':', ' ', '*']), Vec::new()));
        } else {
            for (_, under) in found.iter_mut().skip(open) {
                under.push(line);
            }
        }
    }

    found
}

/// The text of an entry of a list.
pub fn entry(line: &str) -> Option<&str> {
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
pub fn items(lines: &[&str]) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    let mut after_blank = false;
    for line in lines {
        if line.trim().is_empty() {
            after_blank = true;
            continue;
        }

        match (entry(line), items.last_mut()) {
            (Some(text), _) => items.push(text.to_owned()),
            (None, Some(last)) if line.starts_with([' ', '\t']) || !after_blank => {
                last.push(' ');
                last.push_str(line.trim());
            }
            // What follows a list is not part of it.
            (None, Some(_)) => break,
            (None, None) => {}
        }
        after_blank = false;
    }

    items.retain(|item| !item.is_empty());
    if items.is_empty() {
        let text = lines.join("\n");
        let first = sentences::split(&text).into_iter().take(MAX_SENTENCES);
        return first.map(ToOwned::to_owned).collect();
    }

    items.truncate(MAX_ITEMS);
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEETING: &str = "# Minutes: the new catalogue\n\n## Decisions\n\nWe keep the old one until May.\n\n\
        ## Next steps\n\n- Lena asks for\n  three offers\n- Tom exports the cards\n\nThe next meeting is in June.\n";
    const CAKE: &str =
        "# Plum cake\n\nIngredients:\n\n- 500 g\nplums\n- 2 eggs\n\nRoll it out on a tray.\n";

    fn asked(question: &str, texts: &[&str]) -> Option<(i64, Vec<String>)> {
        let chunks: Vec<AnswerChunk<'_>> = (1..)
            .zip(texts)
            .map(|(chunk_id, text)| AnswerChunk {
                chunk_id,
                path: "",
                about: "",
                text,
            })
            .collect();
        named(question, Kind::of(question), &chunks)
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
        let introduced = "## Next steps\n\nWe agreed:\n- a guide\n";
        let (_, items) = asked("What are the next steps?", &[introduced]).unwrap();
        assert_eq!(items, ["a guide"]);
    }

    #[test]
    fn the_section_is_of_what_is_asked_about() {
        let other = "# Walnut bread\n\nIngredients:\n- flour\n";
        let (id, _) = asked("What are the ingredients of the plum cake?", &[other, CAKE]).unwrap();
        assert_eq!(id, 2);
        assert!(asked("What are the ingredients of the plum jam?", &[CAKE]).is_none());
        assert!(asked("Who decides on the next steps?", &[MEETING]).is_none());
    }
}
