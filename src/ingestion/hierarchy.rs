//! The hierarchy as a job sees it: loaded as far as needed, and the warnings where it is full.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::work::IngestionWork;
use crate::categories::Taxonomy;
use crate::categories::tree::{Node, Tree};
use crate::config::taxonomy::LimitScope;
use crate::jobs::{JobContext, JobError};

impl IngestionWork {
    /// The current hierarchy. If limits count per level, all of it is needed, and the limits keep
    /// it small; otherwise children are loaded when their parents are chosen, from a cache while the
    /// space is not too large for it.
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

        if let Some(options) = self.options.of(context.space()).await? {
            let children = options.children(&ids);
            let mut tree = tree.lock().unwrap_or_else(PoisonError::into_inner);
            tree.load_options(&children);
            return Ok(());
        }

        let children = self.store.list_children(context.space(), &ids).await?;
        let mut tree = tree.lock().unwrap_or_else(PoisonError::into_inner);
        tree.load(&children);
        Ok(())
    }
}

/// Maximum parents that one job warns about.
const MAX_WARNINGS: usize = 20;

/// A warning: its code and what it says.
pub type Fullness = (&'static str, String);

/// The warnings where the hierarchy is full, or nearly so. `leaves` are those of the source;
/// `forced` is the number of its chunks below each parent that had to take an existing category.
pub fn fullness(
    tree: &Tree,
    taxonomy: &Taxonomy,
    leaves: &[Node],
    forced: &BTreeMap<Node, usize>,
) -> Vec<Fullness> {
    if taxonomy.scope() == LimitScope::Parent {
        let full = tree.full_parents(leaves).into_iter().take(MAX_WARNINGS);
        return full
            .map(|(parent, limit)| {
                let forced = forced.get(&parent).copied().unwrap_or(0);
                (
                    "parent_full",
                    parent_message(&tree.path(parent), limit, forced),
                )
            })
            .collect();
    }

    let forced = forced.values().sum();
    let kept = || {
        tree.keeps_the_rest()
            .then(|| kept_message(taxonomy, forced))
    };
    let message = tree
        .full_level()
        .map(|(level, limit)| level_message(level, limit, forced))
        .or_else(kept);
    message
        .into_iter()
        .map(|message| ("level_full", message))
        .collect()
}

fn parent_message(path: &[String], limit: i64, forced: usize) -> String {
    let parent = if path.is_empty() {
        "level 1".to_owned()
    } else {
        format!("the category {:?}", path.join(" / "))
    };
    format!(
        "{parent} has reached its limit of {limit} categories; {}. Raise taxonomy.max_children and \
         restart, or delete empty categories",
        consequence(forced)
    )
}

fn kept_message(taxonomy: &Taxonomy, forced: usize) -> String {
    let depth = taxonomy.depth();
    format!(
        "level {depth} has almost reached its limit of {} categories, and the rest is kept free for \
         texts that fit no existing parent; {}. Raise taxonomy.max_categories_default and restart, or \
         delete empty categories",
        taxonomy.limit(depth),
        consequence(forced)
    )
}

fn level_message(level: i64, limit: i64, forced: usize) -> String {
    format!(
        "level {level} has reached its limit of {limit} categories; {}. Raise \
         taxonomy.max_categories_default and restart, or delete empty categories",
        consequence(forced)
    )
}

fn consequence(forced: usize) -> String {
    match forced {
        0 => "chunks on new subjects are filed under the nearest existing one".to_owned(),
        1 => "1 chunk of this source had to be filed under an existing one".to_owned(),
        _ => format!("{forced} chunks of this source had to be filed under existing ones"),
    }
}
