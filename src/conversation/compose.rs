//! Writes scored memories as a text in sections that fits a budget. Pure.

use memoir_text::framing;
use memoir_text::text::char_count;
use strum::IntoStaticStr;

use super::scoring::Scored;
use super::stages::RetrievalSource;
use crate::policy::steps::budget::{characters, cut};
use crate::policy::steps::deduplicate::FirstOfKey;

/// Characters of a memory that are shown.
const SHOWN_CHARS: usize = 300;
/// Characters by which duplicates are recognised.
const KEY_CHARS: usize = 100;
const CUT: &str = "\n[truncated]";

/// A section, its title and how many memories it shows.
const SECTIONS: [(RetrievalSource, &str, usize); 3] = [
    (RetrievalSource::CurrentThread, "Current Conversation", 7),
    (
        RetrievalSource::CrossThread,
        "Related Past Conversations",
        5,
    ),
    (RetrievalSource::Expansion, "User Context & Preferences", 3),
];

/// Why a memory is not in the text.
#[derive(Debug, Clone, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum LeftOut {
    /// It begins like this memory, which has a better score.
    Duplicate(String),
    SectionFull,
    OverBudget,
    /// It made room for a memory of the last stage.
    #[strum(serialize = "replaced_by_expansion")]
    Replaced,
}

/// A composed text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Composed {
    pub text: String,
    /// The ids of the memories in it, in order.
    pub shown: Vec<String>,
    pub left_out: Vec<(String, LeftOut)>,
    pub truncated: bool,
}

/// Keeps the best of memories that begin alike; returns the others with the id of the one kept.
pub fn deduplicate(scored: &[Scored]) -> (Vec<&Scored>, Vec<(String, LeftOut)>) {
    let mut seen = FirstOfKey::default();
    let (mut unique, mut others) = (Vec::new(), Vec::new());
    for one in scored {
        let id = one.memory.id.as_str();
        match seen.before(&prefix_key(&one.memory.content), id) {
            Some(first) => others.push((id.to_owned(), LeftOut::Duplicate(first))),
            None => unique.push(one),
        }
    }

    (unique, others)
}

/// Composes the memories that [`deduplicate`] kept.
pub fn compose(unique: &[&Scored], max_tokens: usize) -> Composed {
    let mut composed = Composed::default();
    let mut lines: Vec<(String, usize)> = Vec::new();
    let mut parts: Vec<String> = Vec::new();
    let mut chars = 0;
    for (source, title, most) in SECTIONS {
        let section: Vec<&&Scored> = unique.iter().filter(|one| one.source == source).collect();
        for one in section.iter().skip(most) {
            composed
                .left_out
                .push((one.memory.id.to_string(), LeftOut::SectionFull));
        }

        if section.is_empty() {
            continue;
        }

        let mut text = format!("## {title}:");
        if !parts.is_empty() {
            chars += 2;
        }

        for one in section.iter().take(most) {
            text.push('\n');
            lines.push((one.memory.id.to_string(), chars + char_count(&text)));
            text.push_str(&line(one, source == RetrievalSource::CrossThread));
        }

        chars += char_count(&text);
        parts.push(text);
    }

    let text = parts.join("\n\n");
    let (text, kept) = fit(text, max_tokens);
    composed.truncated = kept.is_some();
    for (id, start) in lines {
        if kept.is_none_or(|kept| start < kept) {
            composed.shown.push(id);
        } else {
            composed.left_out.push((id, LeftOut::OverBudget));
        }
    }

    composed.text = text;
    composed
}

fn line(one: &Scored, show_thread: bool) -> String {
    let content: String = one.memory.content.chars().take(SHOWN_CHARS).collect();
    let (role, content) = (one.memory.label(), framing::entry(&content));
    if show_thread {
        let thread = framing::name(one.thread_title.as_deref().unwrap_or("Untitled"));
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

/// Texts with the same key are duplicates.
fn prefix_key(content: &str) -> String {
    let prefix: String = content.chars().take(KEY_CHARS).collect();
    prefix.to_lowercase().trim().to_owned()
}
