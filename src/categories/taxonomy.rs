//! The depth of the hierarchy and its limits.

use std::sync::Arc;

use crate::config;
use crate::config::taxonomy::LimitScope;

/// The rules of all hierarchies of this installation.
#[derive(Debug, Clone)]
pub struct Taxonomy {
    depth: i64,
    scope: LimitScope,
    limits: Arc<[i64]>,
    second_look: bool,
}

impl Taxonomy {
    pub fn new(settings: &config::Taxonomy) -> Self {
        let limit = |level| i64::try_from(settings.limit(level)).unwrap_or(i64::MAX);
        Self {
            depth: i64::try_from(settings.hierarchy_depth).unwrap_or(1),
            scope: settings.scope(),
            limits: (1..=settings.hierarchy_depth).map(limit).collect(),
            second_look: settings.second_look,
        }
    }

    /// The level of the leaves.
    pub fn depth(&self) -> i64 {
        self.depth
    }

    pub fn scope(&self) -> LimitScope {
        self.scope
    }

    /// Whether filed chunks are re-examined as others arrive.
    pub fn second_look(&self) -> bool {
        self.second_look
    }

    /// Maximum categories of a level, or of one parent's children on it.
    pub fn limit(&self, level: i64) -> i64 {
        let place = usize::try_from(level - 1).unwrap_or(usize::MAX);
        self.limits.get(place).copied().unwrap_or(0)
    }
}
