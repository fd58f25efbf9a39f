//! What an index is made of: entries, their owners, their vectors, and the groups they belong to.

use strum::IntoStaticStr;

/// What a search can find.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum OwnerKind {
    #[default]
    Chunk,
    /// What is said about a source: its name, its tags, its metadata. The owner is a version.
    Source,
    Memory,
}

impl OwnerKind {
    /// Whether the groups are sources, which have versions.
    pub fn is_of_sources(self) -> bool {
        self != Self::Memory
    }
}

/// The owner of an entry's text: a chunk or a memory, by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    pub kind: OwnerKind,
    pub id: i64,
}

/// An entry as the index knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryRow {
    pub id: i64,
    pub owner_id: i64,
    /// The source of a chunk, or a hash of the user of a memory.
    pub group_id: String,
    /// The end user of its source; empty for a memory.
    pub user_id: String,
    /// The version of its source; 0 if the owner has no versions.
    pub version_id: i64,
    /// In microseconds.
    pub created_at: i64,
    pub length: i64,
    pub tokens: String,
}

/// The vector of an entry, as `vectors::to_bytes` writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VectorRow {
    pub entry_id: i64,
    pub vector: Vec<u8>,
}

/// A source and its visible version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchGroup {
    pub id: String,
    pub version_id: Option<i64>,
    pub eligible: bool,
}

/// The size of what can be searched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SearchSize {
    pub entries: i64,
    /// The sum of their lengths.
    pub terms: i64,
}
