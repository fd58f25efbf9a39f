//! An erasure: the deletion of a source, a thread, a memory, an end user or a space, and the receipt
//! that is kept of it, without content.

use std::collections::BTreeMap;

use memoir_text::hash::sha256_hex;
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};
use utoipa::ToSchema;

use crate::base::clock::Timestamp;
use crate::base::ids::{ErasureId, Space};

/// What is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, EnumString)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum SubjectKind {
    Source,
    Thread,
    Memory,
    User,
    Space,
}

impl SubjectKind {
    /// The hash by which a receipt names what was deleted: SHA-256 of the words `memoir erasure`, the
    /// space, the kind and the id, each on a line of its own.
    pub fn hash(self, space: &Space, id: &str) -> String {
        sha256_hex(format!("memoir erasure\n{space}\n{}\n{id}", self.into_str()).as_bytes())
    }
}

/// Who deleted something: an API key; neither if the service requires none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErasedBy {
    pub key_id: Option<String>,
    pub key_name: Option<String>,
}

/// Rows deleted or emptied, by table.
pub type RowCounts = BTreeMap<String, u64>;

/// Adds counts to others.
pub fn add_counts(all: &mut RowCounts, more: &RowCounts) {
    for (table, count) in more.iter().filter(|(_, count)| **count > 0) {
        *all.entry(table.clone()).or_default() += count;
    }
}

/// The receipt of a deletion. It is kept without content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ErasureResponse)]
pub struct Erasure {
    #[serde(skip)]
    pub space: Space,
    #[schema(value_type = String)]
    pub id: ErasureId,
    /// `source`, `thread`, `memory`, `user` or `space`.
    #[schema(value_type = String, example = "user")]
    pub kind: SubjectKind,
    /// A hash that names what was deleted, for those who know its id: SHA-256, in hexadecimal, of four
    /// lines joined by line feeds: `memoir erasure`, the space, the kind and the id.
    pub subject_sha256: String,
    /// Number of rows deleted or emptied, by table.
    #[schema(value_type = BTreeMap<String, u64>)]
    pub rows: RowCounts,
    /// The API key of the request; null if the service requires no keys.
    pub key_id: Option<String>,
    /// The name of that key.
    pub key_name: Option<String>,
    /// The time of the request.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When everything was deleted; null while some is left.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub finished_at: Option<Timestamp>,
    /// What is left to do.
    #[serde(skip)]
    pub pending: Option<Pending>,
}

/// What is left to do for an erasure, so that it can be continued after a crash. Deleted from the
/// receipt when it is done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pending {
    /// The id of what is deleted.
    pub subject: String,
    /// The end user whose thread or memory is deleted, or who is deleted.
    pub user_id: Option<String>,
    /// The time from which jobs may hold the text.
    pub since: i64,
    /// Ids whose uses are left to erase.
    pub used: Vec<String>,
    /// Chunks of deleted sources, which older receipts name by their numbers.
    pub chunks: Vec<i64>,
    /// Categories that still have chunks, with the words of their names that deleted texts contain.
    pub doubtful: Vec<(i64, Vec<String>)>,
    /// Names of categories that only deleted text explains, and since when there was one.
    pub names: Vec<String>,
    pub names_since: Option<i64>,
}
