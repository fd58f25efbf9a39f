//! A node of the hierarchy.

use memoir_text::text::name_key;
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};
use utoipa::ToSchema;

use crate::base::clock::Timestamp;

/// A category.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = CategoryResponse, example = json!({
    "id": 5, "parent_id": 2, "level": 3, "name": "History", "chunk_count": 12,
    "created_at": "2026-01-31T12:00:00.000000Z"
}))]
pub struct Category {
    pub id: i64,
    /// The id of the parent; null on level 1.
    pub parent_id: Option<i64>,
    /// The level, starting at 1.
    pub level: i64,
    pub name: String,
    /// Number of chunks in it and its descendants, from the latest versions of the sources.
    pub chunk_count: i64,
    /// When the category was created. If older chunks were moved into it, the time of the oldest of
    /// them.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

/// A category to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCategory {
    pub parent_id: Option<i64>,
    pub level: i64,
    pub name: String,
    pub name_key: String,
    pub named_by: NamedBy,
}

/// Who gave a category its name. Only the embedded model changes names, and only its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, EnumString, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum NamedBy {
    User,
    /// The embedded model.
    Embedded,
    /// Another model.
    Model,
}

/// A leaf whose number of chunks changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafGrowth {
    pub id: i64,
    /// 0 on level 1.
    pub parent_id: i64,
    /// Names from level 1 to the leaf.
    pub path: Vec<String>,
    pub named_by: NamedBy,
    /// Chunks of current versions before and after the change.
    pub before: i64,
    pub after: i64,
}

/// A text in a leaf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafText {
    pub source_id: String,
    /// The headings above it, and its beginning.
    pub text: String,
}

/// A category that gets another name.
#[derive(Debug, Clone, Copy)]
pub struct Rename<'r> {
    pub id: i64,
    /// 0 on level 1.
    pub parent_id: i64,
    pub from: &'r str,
    pub to: &'r str,
    pub by: NamedBy,
    pub reason: Option<&'r str>,
}

/// What changes alter of a category; it may be closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CategoryState {
    pub id: i64,
    /// 0 on level 1.
    pub parent_id: i64,
    pub level: i64,
    pub name: String,
    pub named_by: NamedBy,
    /// Chunks of current versions below it.
    pub chunk_count: i64,
    /// Merged or removed: nothing is filed in it, and no list shows it.
    pub is_closed: bool,
    /// The category that took its place when it was closed.
    pub merged_into: Option<i64>,
}

impl CategoryState {
    /// Its parent and its normalised name, which no other open category has; a closed one has neither.
    pub fn slot(&self) -> Option<(i64, String)> {
        (!self.is_closed).then(|| (self.parent_id, name_key(&self.name)))
    }

    /// The category that took its place.
    pub fn successor(&self) -> Option<i64> {
        self.merged_into.filter(|_| self.is_closed)
    }
}

/// What a change does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, EnumString)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum ChangeKind {
    Rename,
    /// Another parent.
    Move,
    /// Another category takes its place.
    Merge,
    Remove,
    /// Some of its chunks get leaves of their own, or some of its children other parents.
    Split,
    /// A chunk is filed elsewhere.
    MoveChunk,
}

/// What a change altered, before or after it, as it is stored. Only a rename stores a name, and only
/// that of its own category: an erasure deletes the changes of a category with it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeSide {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named_by: Option<NamedBy>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<CategoryPosition>,
}

/// Where a category was, before or after a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CategoryPosition {
    pub id: i64,
    /// 0 on level 1.
    pub parent_id: i64,
    pub is_closed: bool,
    pub merged_into: Option<i64>,
}

impl From<&CategoryState> for CategoryPosition {
    fn from(state: &CategoryState) -> Self {
        Self {
            id: state.id,
            parent_id: state.parent_id,
            is_closed: state.is_closed,
            merged_into: state.merged_into,
        }
    }
}

/// A change to store.
#[derive(Debug, Clone, Copy)]
pub struct NewChange<'c> {
    pub kind: ChangeKind,
    pub category_id: i64,
    /// The former parent, the category that is closed, or the former leaf of a chunk.
    pub from_id: Option<i64>,
    /// The new parent, the category that takes its place, or the new leaf of a chunk.
    pub to_id: Option<i64>,
    pub chunk_id: Option<i64>,
    pub by: NamedBy,
    pub reason: Option<&'c str>,
}

/// Who changes the hierarchy, and why.
#[derive(Debug, Clone, Copy)]
pub struct ChangeActor<'a> {
    pub by: NamedBy,
    pub reason: Option<&'a str>,
}

impl ChangeActor<'static> {
    pub const USER: Self = Self {
        by: NamedBy::User,
        reason: None,
    };
}

impl<'c> NewChange<'c> {
    /// A change of one category.
    pub fn of(kind: ChangeKind, category_id: i64, actor: ChangeActor<'c>) -> Self {
        Self {
            kind,
            category_id,
            from_id: None,
            to_id: None,
            chunk_id: None,
            by: actor.by,
            reason: actor.reason,
        }
    }
}

/// A stored change, with what undoes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredChange {
    pub id: i64,
    pub category_id: i64,
    pub kind: String,
    pub from_id: Option<i64>,
    pub to_id: Option<i64>,
    pub chunk_id: Option<i64>,
    pub before: ChangeSide,
    pub after: ChangeSide,
    pub undone_at: Option<Timestamp>,
}

/// A change of the hierarchy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = CategoryChangeResponse, example = json!({
    "id": 3, "category_id": 5, "kind": "rename", "from": "Boiler service", "to": "Radiators", "from_id": null,
    "to_id": null, "chunk_id": null, "chunks_moved": 0, "actor": "embedded",
    "reason": "the former name fitted 9 of 32 chunks, the new one fits 27",
    "created_at": "2026-01-31T12:00:00.000000Z", "undone_at": null
}))]
pub struct CategoryChange {
    pub id: i64,
    /// The category, which may have been deleted since. Of `move_chunk`: the leaf where the chunk went.
    pub category_id: i64,
    /// `rename`, `move`, `merge`, `remove`, `split` or `move_chunk`.
    pub kind: String,
    /// The former name; of other kinds, the present name of `from_id`. Empty if that was deleted.
    pub from: String,
    /// The new name; of other kinds, the present name of `to_id`.
    pub to: String,
    /// `move`: the former parent; `merge` and `remove`: the closed category; `split`: the split category; `move_chunk`: the former leaf.
    /// Null for level 1, and for a rename.
    pub from_id: Option<i64>,
    /// `move`: the new parent; `merge` and `remove`: the category that took its place, if any;
    /// `move_chunk`: the new leaf.
    pub to_id: Option<i64>,
    /// The chunk of `move_chunk`.
    pub chunk_id: Option<i64>,
    /// Number of chunks that moved to another leaf, including those of earlier versions.
    pub chunks_moved: i64,
    /// Who made the change: `user`, or `embedded` for the embedded model.
    pub actor: String,
    /// Why the embedded model made the change; null for a change by a user.
    pub reason: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When the change was undone.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub undone_at: Option<Timestamp>,
}

/// The path from level 1 to a category: ids and names.
pub type CategoryPath = Vec<(i64, String)>;

/// A category as a walk sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CategoryOption {
    pub id: i64,
    /// 0 on level 1.
    pub parent_id: i64,
    pub name: String,
}
