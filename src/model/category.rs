//! A node of the hierarchy.

use std::sync::Arc;

use crate::base::clock::Timestamp;

/// A category as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Category {
    pub id: i64,
    /// `None` on level 1.
    pub parent_id: Option<i64>,
    /// Counted from 1.
    pub level: i64,
    pub name: String,
    /// Chunks of current versions below it.
    pub chunk_count: i64,
    pub created_at: Timestamp,
}

/// A category to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCategory {
    pub parent_id: Option<i64>,
    pub level: i64,
    pub name: String,
    pub name_key: String,
}

/// The path from level 1 to a category: ids and names.
pub type CategoryPath = Vec<(i64, String)>;

/// What a category contains, for the embedded model, which otherwise knows little more than its
/// name.
#[derive(Debug, Clone, Default)]
pub struct CategoryContents {
    /// The number of chunks.
    pub count: usize,
    /// The first 4 and the latest 12 chunks, cut to 600 characters.
    pub samples: Vec<Arc<str>>,
    /// More chunks, spread over everything below it.
    pub spread: Vec<Arc<str>>,
}

/// A category as a walk sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CategoryOption {
    pub id: i64,
    /// 0 on level 1.
    pub parent_id: i64,
    pub name: String,
}
