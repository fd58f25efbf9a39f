//! A node of the hierarchy.

use std::sync::Arc;

use crate::base::clock::Timestamp;

/// A category as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Category {
    pub id: i64,
    /// None at level 1.
    pub parent_id: Option<i64>,
    /// Counted from 1.
    pub level: i64,
    pub name: String,
    /// Chunks below it, of what the sources say now.
    pub chunk_count: i64,
    pub created_at: Timestamp,
}

/// A category to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCategory {
    pub parent_id: Option<i64>,
    pub level: i64,
    pub name: String,
    pub name_key: String,
}

/// The way from level 1 down to a category: ids and names.
pub type CategoryPath = Vec<(i64, String)>;

/// What lies in a category, for models that use samples.
#[derive(Debug, Clone, Default)]
pub struct CategoryContents {
    /// How many chunks.
    pub count: usize,
    /// The first 4 and the latest 12 of them, their first 600 characters.
    pub samples: Vec<Arc<str>>,
    /// More of them, spread over all that is below it.
    pub spread: Vec<Arc<str>>,
}

/// A category as a walk sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CategoryOption {
    pub id: i64,
    /// 0 at level 1.
    pub parent_id: i64,
    pub name: String,
}
