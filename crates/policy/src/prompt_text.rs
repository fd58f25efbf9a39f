//! The entries as text for a system prompt.

use std::fmt::Write;

use memoir_text::framing;

use super::candidate::{Entry, MemoryType};

/// Empty without entries; otherwise one group for each type that occurs, in a fixed order.
pub fn prompt_text(entries: &[Entry], query_time_ms: u64) -> String {
    if entries.is_empty() {
        return String::new();
    }

    let mut text = String::from("## Relevant Context from Previous Conversations\n\n");
    group(
        &mut text,
        entries,
        MemoryType::Message,
        "### Previous Messages",
        |text, entry| {
            let candidate = &entry.candidate;
            let speaker = candidate
                .speaker
                .map_or("user", |speaker| speaker.into_str());
            let time = utc_seconds(candidate.timestamp_micros);
            let content = framing::entry(&candidate.content);
            let _ = writeln!(text, "[{time}] {speaker}: {content}");
        },
    );
    group(
        &mut text,
        entries,
        MemoryType::Fact,
        "### Known Facts",
        |text, entry| {
            let (content, score) = (framing::entry(entry.content()), entry.candidate.score);
            let _ = writeln!(text, "- {content} (confidence: {score:.2})");
        },
    );
    group(
        &mut text,
        entries,
        MemoryType::Summary,
        "### Conversation Summaries",
        |text, entry| {
            let _ = writeln!(text, "- {}", framing::entry(entry.content()));
        },
    );

    let count = entries.len();
    let _ = writeln!(text, "_Retrieved {count} memories in {query_time_ms}ms_");
    text
}

fn group(
    text: &mut String,
    entries: &[Entry],
    memory_type: MemoryType,
    heading: &str,
    line: impl Fn(&mut String, &Entry),
) {
    let mut members = entries
        .iter()
        .filter(|e| e.candidate.memory_type == memory_type)
        .peekable();
    if members.peek().is_none() {
        return;
    }

    text.push_str(heading);
    text.push('\n');
    members.for_each(|entry| line(text, entry));
    text.push('\n');
}

/// `2026-11-15 09:30:00 UTC`: the same on every machine, whatever its locale.
fn utc_seconds(micros: i64) -> String {
    let Ok(time) = jiff::Timestamp::from_microsecond(micros) else {
        return "out of range".to_owned();
    };

    let iso = time.to_string();
    match (iso.get(..10), iso.get(11..19)) {
        (Some(day), Some(second)) => format!("{day} {second} UTC"),
        _ => iso,
    }
}

#[cfg(test)]
mod tests {
    use super::super::candidate::{Candidate, Speaker};
    use super::*;

    fn entry(memory_type: MemoryType, speaker: Option<Speaker>, content: &str) -> Entry {
        Entry::new(Candidate {
            id: content.into(),
            content: content.into(),
            score: 0.876,
            timestamp_micros: 1_794_735_000_500_000,
            session_id: "s".into(),
            message_id: None,
            memory_type,
            speaker,
        })
    }

    #[test]
    fn every_type_has_its_group() {
        let entries = [
            entry(MemoryType::Summary, None, "Talked about tea."),
            entry(MemoryType::Message, None, "I drink tea."),
            entry(MemoryType::Fact, None, "Likes tea"),
            entry(MemoryType::Message, Some(Speaker::Assistant), "Noted."),
        ];

        assert_eq!(
            prompt_text(&entries, 12),
            "## Relevant Context from Previous Conversations\n\n\
             ### Previous Messages\n\
             [2026-11-15 09:30:00 UTC] user: I drink tea.\n\
             [2026-11-15 09:30:00 UTC] assistant: Noted.\n\n\
             ### Known Facts\n\
             - Likes tea (confidence: 0.88)\n\n\
             ### Conversation Summaries\n\
             - Talked about tea.\n\n\
             _Retrieved 4 memories in 12ms_\n"
        );
    }

    #[test]
    fn without_entries_there_is_no_text() {
        assert_eq!(prompt_text(&[], 12), "");
    }
}
