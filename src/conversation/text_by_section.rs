//! Writes the memories of `rank: search` and `rank: staged` as a text of sections, each with a limit
//! of its own, and cuts it to its budget. Pure.

use memoir_policy::steps::budget::{characters, cut};
use memoir_text::framing;
use memoir_text::text::char_count;

use super::scoring::ContextItem;
use super::stages::RetrievalSource;
use crate::model::memory::Memory;

/// Characters of a memory that are shown.
const SHOWN_CHARS: usize = 300;
/// Characters by which duplicates are recognised.
const KEY_CHARS: usize = 100;
const CUT: &str = "\n[truncated]";

/// A section, its title and how many memories it shows.
pub const SECTIONS: [(RetrievalSource, &str, usize); 3] = [
    (RetrievalSource::CurrentThread, "Current Conversation", 7),
    (
        RetrievalSource::CrossThread,
        "Related Past Conversations",
        5,
    ),
    (RetrievalSource::Expansion, "User Context & Preferences", 3),
];

/// Why a memory is not in the text: it begins like a better one.
pub const DUPLICATE: &str = "duplicate";
/// Its section shows as many memories as it may.
pub const SECTION_FULL: &str = "section_full";
pub const OVER_BUDGET: &str = "over_budget";

/// The beginning of a memory; those that begin alike are duplicates.
pub fn beginning(memory: &Memory) -> String {
    let prefix: String = memory.content.chars().take(KEY_CHARS).collect();
    prefix.to_lowercase().trim().to_owned()
}

/// The section of a memory, by its place in `SECTIONS`.
pub fn section(item: &ContextItem) -> usize {
    let source = item.scores.source;
    let place = SECTIONS.iter().position(|section| section.0 == source);
    place.unwrap_or(SECTIONS.len() - 1)
}

/// Writes the memories that are kept, and drops those that have no place in the text. Returns the
/// text, and whether its end was cut off.
pub fn compose(items: &mut [ContextItem], max_tokens: usize) -> (String, bool) {
    let mut parts: Vec<String> = Vec::new();
    // Where the lines begin, in characters.
    let mut lines: Vec<(usize, usize)> = Vec::new();
    let mut chars = 0;
    for (source, title, most) in SECTIONS {
        let of_section = (0..items.len())
            .filter(|place| items[*place].is_kept() && items[*place].scores.source == source);
        let mut of_section: Vec<usize> = of_section.collect();
        for place in of_section.drain(most.min(of_section.len())..) {
            items[place].drop("section", SECTION_FULL);
        }

        if of_section.is_empty() {
            continue;
        }

        let mut text = format!("## {title}:");
        if !parts.is_empty() {
            chars += 2;
        }

        for place in of_section {
            text.push('\n');
            lines.push((place, chars + char_count(&text)));
            let shows_thread = source == RetrievalSource::CrossThread;
            text.push_str(&line(&items[place], shows_thread));
        }

        chars += char_count(&text);
        parts.push(text);
    }

    let (text, kept) = fit(parts.join("\n\n"), max_tokens);
    for (place, start) in lines {
        if kept.is_some_and(|kept| start >= kept) {
            items[place].drop("budget", OVER_BUDGET);
        }
    }

    (text, kept.is_some())
}

fn line(item: &ContextItem, shows_thread: bool) -> String {
    let memory = &item.found;
    let content: String = memory.content.chars().take(SHOWN_CHARS).collect();
    let (role, content) = (memory.label(), framing::entry(&content));
    if shows_thread {
        let thread = framing::name(item.scores.thread_title.as_deref().unwrap_or("Untitled"));
        return format!("- [{role}] (from: {thread}) {content}");
    }

    format!("- [{role}] {content}")
}

/// Cuts a text to a budget, marker included; also returns how many characters stayed, if it was cut.
fn fit(text: String, max_tokens: usize) -> (String, Option<usize>) {
    let most = characters(max_tokens);
    if char_count(&text) <= most {
        return (text, None);
    }

    let kept = most.saturating_sub(char_count(CUT));
    (cut(&text, most, CUT).unwrap_or_default(), Some(kept))
}
