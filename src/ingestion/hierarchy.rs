//! The hierarchy as a job sees it: loaded as far as needed, and the warnings when it is full.

use std::sync::{Mutex, PoisonError};

use super::work::IngestionWork;
use crate::categories::Taxonomy;
use crate::categories::tree::{Node, Tree};
use crate::config::taxonomy::LimitScope;
use crate::jobs::{JobContext, JobError};

impl IngestionWork {
    /// The current hierarchy. If limits count per level, all of it is needed, and the limits keep
    /// it small; otherwise children are loaded when their parents are chosen.
    pub(super) async fn load_tree(&self, context: &JobContext) -> Result<Tree, JobError> {
        if self.settings.taxonomy.scope() == LimitScope::Level {
            return Ok(self.trees.of(context.space()).await?);
        }
        Ok(Tree::new(self.settings.taxonomy.clone()))
    }

    pub(super) async fn load_children(
        &self,
        context: &JobContext,
        tree: &Mutex<Tree>,
        parents: Vec<Node>,
    ) -> Result<(), JobError> {
        if self.settings.taxonomy.scope() == LimitScope::Level {
            return Ok(());
        }

        let ids: Vec<i64> = {
            let tree = tree.lock().unwrap_or_else(PoisonError::into_inner);
            parents
                .iter()
                .filter_map(|parent| tree.stored(*parent))
                .collect()
        };

        let children = self.store.list_children(context.space(), &ids).await?;
        tree.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .load(&children);
        Ok(())
    }
}

/// The warnings for a hierarchy that is full, or nearly so.
pub fn fullness(tree: &Tree, taxonomy: &Taxonomy) -> Option<String> {
    let kept = || tree.keeps_the_rest().then(|| kept_message(taxonomy));
    tree.full_level()
        .map(|(level, limit)| full_message(level, limit))
        .or_else(kept)
}

fn kept_message(taxonomy: &Taxonomy) -> String {
    let depth = taxonomy.depth();
    format!(
        "level {depth} has almost reached its limit of {} categories; the rest is kept free for \
         texts that fit no existing parent. Raise taxonomy.max_categories_default and restart, or delete empty categories",
        taxonomy.limit(depth)
    )
}

fn full_message(level: i64, limit: i64) -> String {
    format!(
        "level {level} has reached its limit of {limit} categories; chunks on new subjects are \
         filed under the nearest existing one. Raise taxonomy.max_categories_default, or delete \
         empty categories"
    )
}
