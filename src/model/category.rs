//! A node of the hierarchy.

use serde::Serialize;
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, EnumString)]
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

/// A change of the hierarchy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = CategoryChangeResponse, example = json!({
    "id": 3, "category_id": 5, "kind": "rename", "from": "Boiler service", "to": "Radiators",
    "actor": "embedded", "reason": "the former name fitted 9 of 32 chunks, the new one fits 27",
    "created_at": "2026-01-31T12:00:00.000000Z"
}))]
pub struct CategoryChange {
    pub id: i64,
    /// The category, which may have been deleted since.
    pub category_id: i64,
    /// `rename`.
    pub kind: String,
    /// The former name.
    pub from: String,
    /// The new name.
    pub to: String,
    /// Who made the change: `user`, or `embedded` for the embedded model.
    pub actor: String,
    /// Why the embedded model made the change; null for a change by a user.
    pub reason: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
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
