//! The depth of the hierarchy and its limits.

use std::sync::Arc;

use crate::config;
use crate::config::taxonomy::{AutoCare, LimitScope};
use crate::model::category::NamedBy;

/// The rules of all hierarchies of this installation.
#[derive(Debug, Clone)]
pub struct Taxonomy {
    depth: i64,
    scope: LimitScope,
    limits: Arc<[i64]>,
    second_look: bool,
    leaf_target: usize,
    children_target: usize,
    auto_care: AutoCare,
}

impl Taxonomy {
    pub fn new(settings: &config::Taxonomy) -> Self {
        let limit = |level| i64::try_from(settings.limit(level)).unwrap_or(i64::MAX);
        Self {
            depth: i64::try_from(settings.hierarchy_depth).unwrap_or(1),
            scope: settings.scope(),
            limits: (1..=settings.hierarchy_depth).map(limit).collect(),
            second_look: settings.second_look,
            leaf_target: usize::try_from(settings.leaf_target).unwrap_or(usize::MAX),
            children_target: usize::try_from(settings.children_target).unwrap_or(usize::MAX),
            auto_care: settings.auto_care,
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

    /// Chunks of a leaf that is neither too large nor too small.
    pub fn leaf_target(&self) -> usize {
        self.leaf_target
    }

    /// A leaf with more chunks is split.
    pub fn max_leaf(&self) -> i64 {
        i64::try_from(self.leaf_target.saturating_mul(2)).unwrap_or(i64::MAX)
    }

    /// Children of a parent that has neither too many nor too few.
    pub fn children_target(&self) -> usize {
        self.children_target
    }

    /// A parent with more children is split; 0 stands for the root, which cannot be split, so that
    /// categories below it are merged.
    pub fn max_children_of(&self, parent_id: i64) -> i64 {
        let target = i64::try_from(self.children_target).unwrap_or(i64::MAX);
        if parent_id == 0 {
            target
        } else {
            target.saturating_mul(2)
        }
    }

    /// Whether the hierarchy is balanced without a person, if this model files texts.
    pub fn balances_itself(&self, named_by: NamedBy) -> bool {
        match self.auto_care {
            AutoCare::Auto => named_by == NamedBy::Embedded,
            AutoCare::Always => true,
            AutoCare::Never => false,
        }
    }

    /// Maximum categories of a level, or of one parent's children on it.
    pub fn limit(&self, level: i64) -> i64 {
        let place = usize::try_from(level - 1).unwrap_or(usize::MAX);
        self.limits.get(place).copied().unwrap_or(0)
    }
}
