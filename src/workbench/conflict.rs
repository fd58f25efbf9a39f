//! Two texts that contradict each other: both sides, and which one counts.

use serde::Serialize;
use utoipa::ToSchema;

use super::files::InjectedFile;
use super::history::Statement;
use crate::base::clock::Timestamp;

/// How a conflict names the injected files.
pub const FILES: &str = "❖ FILES";
/// Characters of a text that a conflict shows.
const SHOWN_CHARS: usize = 300;

/// Two texts that contradict each other.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Conflict {
    /// Both sides; the first is the chunk, or the message that a file contradicts; of two chunks, the
    /// one that is not used.
    pub sides: Vec<ConflictSide>,
    /// The side that counts: `chunk`, `chat`, `file` or `❖ FILES`.
    pub winner: String,
    pub reason: String,
}

impl Conflict {
    /// Whether both name the same two texts.
    pub fn is_between(&self, other: &Self) -> bool {
        let sides = |one: &Self| {
            let each = one.sides.iter();
            let mut each: Vec<_> = each
                .map(|side| (side.kind.clone(), side.id.clone()))
                .collect();
            each.sort_unstable();
            each
        };
        sides(self) == sides(other)
    }
}

/// One side of a conflict.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = ConflictSideResponse)]
pub struct ConflictSide {
    /// `chunk`, `chat`, `file` or `❖ FILES`.
    pub kind: String,
    /// The id of the chunk, the memory or the source.
    pub id: String,
    /// The beginning of its text.
    pub text: String,
    /// When it was said or last changed.
    pub time: Option<String>,
}

impl ConflictSide {
    /// A side, with the beginning of its text.
    pub fn new(kind: &str, id: String, text: &str, time: Option<Timestamp>) -> Self {
        Self {
            kind: kind.to_owned(),
            id,
            text: beginning(text),
            time: time.map(|time| time.to_string()),
        }
    }

    /// An injected file, with what it says.
    pub fn of_file(file: &InjectedFile, text: &str) -> Self {
        Self::new(FILES, file.source_id.clone(), text, Some(file.mtime))
    }

    /// Something that was said in the chat.
    pub fn of_statement(said: &Statement) -> Self {
        Self::new(
            "chat",
            said.memory_id.clone(),
            &said.text,
            Some(said.said_at),
        )
    }
}

/// The beginning of a text, as a conflict shows it.
fn beginning(text: &str) -> String {
    text.chars().take(SHOWN_CHARS).collect()
}
