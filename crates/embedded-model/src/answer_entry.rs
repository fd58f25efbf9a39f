//! Answers a question about a version or a section as a whole with its entry: "What changed in tokio
//! 1.54.1?" with the list under the heading of that version.

use std::collections::HashSet;

use memoir_text::identifiers::{Identifiers, Naming};
use memoir_text::sentences;

use super::AnswerChunk;
use super::answer_section::{MAX_ITEMS, entry, items};
use super::question::Kind;
use super::rank;

/// What a question may say about the entry that it asks for.
const ASKING: [&str; 18] = [
    "change",
    "changes",
    "changed",
    "new",
    "news",
    "release",
    "releases",
    "released",
    "note",
    "notes",
    "version",
    "entry",
    "changelog",
    "happen",
    "happened",
    "say",
    "state",
    "contain",
];
/// The level of a heading that is not marked.
const UNMARKED: usize = 7;

/// The items of the entry that a question asks for, each with its chunk.
pub fn named(query: &str, kind: Kind, chunks: &[AnswerChunk<'_>]) -> Vec<(i64, String)> {
    let asked = Identifiers::of(query);
    if asked.is_empty() || !matches!(kind, Kind::Any | Kind::List) {
        return Vec::new();
    }

    let asking = asked.words().chain(ASKING).flat_map(rank::stems);
    let known: HashSet<String> = asking.collect();
    let others: Vec<String> = rank::stems(query).difference(&known).cloned().collect();
    let mut found: Vec<(i64, String)> = Vec::new();
    for chunk in chunks {
        let lines = lines(&asked, chunk);
        if lines.is_empty() || !is_about(&asked, &others, chunk) {
            continue;
        }

        for item in items(&lines) {
            let is_new = found.iter().all(|(_, known)| *known != item);
            if is_new && found.len() < MAX_ITEMS {
                found.push((chunk.chunk_id, item));
            }
        }
    }

    found
}

/// Whether the other words of a question stand above the entry, or in its heading or the title.
fn is_about(asked: &Identifiers, others: &[String], chunk: &AnswerChunk<'_>) -> bool {
    if others.is_empty() {
        return true;
    }

    let headings = chunk.text.lines();
    let headings =
        headings.filter(|line| line.starts_with("# ") || asked.naming(line) == Naming::AsHeading);
    let headings: Vec<&str> = headings.collect();
    let around = [chunk.path, chunk.about, &headings.join(" ")].join(" ");
    let around = rank::stems(&around);
    others.iter().all(|word| around.contains(word))
}

/// The lines of the entry, without the headings in it.
fn lines<'a>(asked: &Identifiers, chunk: &AnswerChunk<'a>) -> Vec<&'a str> {
    let all: Vec<&str> = chunk.text.lines().collect();
    let mut found = Vec::new();
    // The level of the entry's heading, while its lines are read.
    let mut open = (asked.naming(chunk.about) >= Naming::Exactly).then_some(UNMARKED);
    for (at, line) in all.iter().enumerate() {
        let next = all.get(at + 1).copied().unwrap_or_default();
        match level(line, next) {
            Some(level) if asked.naming(line) == Naming::AsHeading => open = Some(level),
            // A chunk that begins within an entry may have more of its headings.
            Some(level) if asked.differ_from(line) || open.is_some_and(|own| level <= own) => {
                let is_within = open == Some(UNMARKED) && !asked.differ_from(line);
                open = open.filter(|_| is_within);
            }
            None if open.is_some() && !is_underline(line) => found.push(*line),
            Some(_) | None => {}
        }
    }

    found
}

/// The level of a heading, which is marked, underlined, or a line by itself.
fn level(line: &str, next: &str) -> Option<usize> {
    if sentences::is_heading(line) {
        let bare = line.trim_start();
        return Some(bare.len() - bare.trim_start_matches('#').len());
    }

    let is_alone = next.trim().is_empty() || is_underline(next);
    let is_text = entry(line).is_some() || line.starts_with([' ', '\t']) || is_underline(line);
    let is_number = Identifiers::of(line).naming(line) == Naming::AsHeading;
    (is_alone && !is_text && is_number).then_some(UNMARKED)
}

fn is_underline(line: &str) -> bool {
    let bare = line.trim();
    bare.len() >= 3 && bare.chars().all(|c| c == '=' || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "# tokio\n\n## 1.54.2 (June)\n\n- Revert the fix of 1.54.1\n\n\
        ## 1.54.1 (May)\n\n### Fixed\n\n- A leak since 1.54.0\n\n### Added\n\n- Timers\n\n\
        ## 1.54.0 (April)\n\n- Tasks\n";

    fn listed(question: &str, about: &str, text: &str) -> Vec<String> {
        let chunk = AnswerChunk {
            chunk_id: 1,
            path: "",
            about,
            text,
        };
        let found = named(question, Kind::of(question), &[chunk]).into_iter();
        found.map(|(_, item)| item).collect()
    }

    #[test]
    fn the_entry_of_a_version_is_listed() {
        let both = ["A leak since 1.54.0", "Timers"];
        assert_eq!(listed("What changed in tokio 1.54.1?", "", LOG), both);
        assert_eq!(listed("What are the changes in 1.54.1?", "", LOG), both);
        let plain = "1.54.2\n======\n\n- Revert\n\n1.54.1\n======\n\n- A leak\n- Timers\n\n1.54.0\n======\n- No\n";
        let found = listed("What is new in tokio 1.54.1?", "tokio", plain);
        assert_eq!(found, ["A leak", "Timers"]);
        let rest = "- A leak\n\n### Added\n\n- Timers\n\n## 1.54.0\n\n- Tasks\n";
        let found = listed("What changed in tokio 1.54.1?", "tokio 1.54.1", rest);
        assert_eq!(found, ["A leak", "Timers"]);
        let law = "## § 11 Scope\n\nAll of it.\n\n## § 12 Liability\n\nNobody is liable.\n";
        assert_eq!(
            listed("What does § 12 say?", "", law),
            ["Nobody is liable."]
        );
    }

    #[test]
    fn other_questions_do_not_ask_for_the_entry() {
        for question in [
            "What changed in hyper 1.54.1?",
            "What changed in tokio 1.54.3?",
            "Which leak was fixed in tokio 1.54.1?",
            "When was tokio 1.54.1 released?",
            "What changed in tokio?",
        ] {
            assert_eq!(listed(question, "", LOG), [""; 0], "{question}");
        }
    }
}
