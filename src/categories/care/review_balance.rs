//! Proposals about what has grown too large: leaves, lists of children, and level 1.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::review::{Hierarchy, ReviewItem};
use super::review_call::ReviewCall;
use super::similar::{Pair, domains, pairs};
use crate::categories::{Categories, CategoryError, Taxonomy};
use crate::config::taxonomy::LimitScope;
use crate::model::call::CallContext;
use crate::model::category::{Category, ChangeKind, NamedBy};

/// What persons have decided about categories that may be split or merged: the names that they gave,
/// and what they undid.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    named_by: HashMap<i64, NamedBy>,
    undone_splits: HashSet<i64>,
    undone_merges: HashSet<(i64, i64)>,
}

impl Decisions {
    pub fn refuses_split(&self, id: i64) -> bool {
        self.undone_splits.contains(&id)
    }

    pub fn refuses_merge(&self, id: i64, other: Option<i64>) -> bool {
        other.is_some_and(|other| {
            self.undone_merges.contains(&(id, other)) || self.undone_merges.contains(&(other, id))
        })
    }

    fn named_by(&self, id: i64) -> NamedBy {
        self.named_by.get(&id).copied().unwrap_or(NamedBy::User)
    }
}

impl Categories {
    pub(super) async fn find_decisions(
        &self,
        call: &CallContext,
        categories: &[Category],
    ) -> Result<Decisions, CategoryError> {
        let ids = concerned(&Hierarchy::of(categories), &self.taxonomy);
        let space = &call.space;
        let mut tx = self.store.begin().await?;
        let states = tx.list_states(space, &ids).await?;
        let splits = tx.list_undone(space, ChangeKind::Split, &ids).await?;
        let merges = tx.list_undone(space, ChangeKind::Merge, &ids).await?;

        let named_by = states.into_iter().map(|(id, state)| (id, state.named_by));
        let merges = merges.into_iter();
        Ok(Decisions {
            named_by: named_by.collect(),
            undone_splits: splits.into_iter().map(|(id, _)| id).collect(),
            undone_merges: merges.filter_map(|(id, into)| Some((id, into?))).collect(),
        })
    }
}

/// Level 1, what has grown too large, and the children of what is merged because it cannot be split.
fn concerned(hierarchy: &Hierarchy<'_>, taxonomy: &Taxonomy) -> Vec<i64> {
    let mut ids = BTreeSet::new();
    for (parent, children) in &hierarchy.children {
        let level = hierarchy.by_id.get(parent).map_or(0, |one| one.level);
        let is_crowded = has_too_many(taxonomy, *parent, children);
        if level == 0 || (level == 1 && is_crowded) {
            ids.extend(children.iter().map(|child| child.id));
        } else if is_crowded {
            ids.insert(*parent);
        }
    }

    let categories = hierarchy.by_id.values();
    let full = categories.filter(|one| is_too_large(taxonomy, one));
    ids.extend(full.map(|one| one.id));
    ids.into_iter().collect()
}

fn is_too_large(taxonomy: &Taxonomy, category: &Category) -> bool {
    category.level == taxonomy.depth() && category.chunk_count > taxonomy.max_leaf()
}

fn has_too_many(taxonomy: &Taxonomy, parent: i64, children: &[&Category]) -> bool {
    i64::try_from(children.len()).unwrap_or(i64::MAX) > taxonomy.max_children_of(parent)
}

/// A leaf with too many chunks.
pub(super) fn over_full(
    hierarchy: &Hierarchy<'_>,
    taxonomy: &Taxonomy,
    leaf: &Category,
) -> Option<ReviewItem> {
    let most = taxonomy.max_leaf();
    (leaf.chunk_count > most).then(|| {
        let evidence = format!(
            "it has {} chunks; up to {most} are easy to choose from{}",
            leaf.chunk_count,
            forbidden(hierarchy, taxonomy, leaf)
        );
        hierarchy.item(
            "over_full",
            (leaf, None),
            evidence,
            ReviewCall::split(leaf.id),
        )
    })
}

/// Parents with too many children, level 1 first.
pub(super) fn crowded(
    hierarchy: &Hierarchy<'_>,
    taxonomy: &Taxonomy,
    decisions: &Decisions,
) -> Vec<ReviewItem> {
    let mut items = Vec::new();
    for (parent, children) in &hierarchy.children {
        if !has_too_many(taxonomy, *parent, children) {
            continue;
        }

        let most = taxonomy.max_children_of(*parent);
        let parent = hierarchy.by_id.get(parent).copied();
        items.extend(match parent {
            // Leaves on level 1 are split, which merging them would undo.
            None if taxonomy.depth() == 1 => None,
            Some(parent) if decisions.refuses_split(parent.id) => None,
            Some(parent) if parent.level > 1 => {
                let evidence = format!(
                    "it has {} children; up to {most} are easy to choose from{}",
                    children.len(),
                    forbidden(hierarchy, taxonomy, parent)
                );
                let apply = ReviewCall::split(parent.id);
                Some(hierarchy.item("too_many_children", (parent, None), evidence, apply))
            }
            // Level 1 never splits.
            _ => most_similar(hierarchy, taxonomy, decisions, (parent, children)),
        });
    }

    items
}

/// The two of these children that are most similar.
fn most_similar(
    hierarchy: &Hierarchy<'_>,
    taxonomy: &Taxonomy,
    decisions: &Decisions,
    (parent, children): (Option<&Category>, &[&Category]),
) -> Option<ReviewItem> {
    let most = taxonomy.max_children_of(parent.map_or(0, |parent| parent.id));
    let domains = domains(
        children,
        |id| hierarchy.names_of_children(id),
        |id| decisions.named_by(id),
    );
    let few = taxonomy.max_children_of(1);
    let limit = taxonomy.limit(2).max(few);
    let pairs = pairs(&domains, &decisions.undone_merges, (few, limit));
    let mut pairs = pairs.into_iter().filter_map(|Pair { from, into }| {
        Some((hierarchy.by_id.get(&from)?, hierarchy.by_id.get(&into)?))
    });
    // Others would be split again.
    let (from, into) = pairs.find(|(from, into)| {
        let together = from.chunk_count.saturating_add(into.chunk_count);
        from.level < taxonomy.depth() || together <= taxonomy.max_leaf()
    })?;

    let list = parent.map_or("level 1", |parent| parent.name.as_str());
    let evidence = format!(
        "{list} has {} categories; up to {most} are easy to choose from, and these two are the most similar",
        children.len()
    );
    let apply = ReviewCall::merge(from.id, into.id);
    Some(hierarchy.item("too_many_children", (from, Some(into)), evidence, apply))
}

/// The limit that forbids a split, if any.
fn forbidden(hierarchy: &Hierarchy<'_>, taxonomy: &Taxonomy, category: &Category) -> String {
    let (level, limit) = (category.level, taxonomy.limit(category.level));
    let (count, place, setting) = match taxonomy.scope() {
        LimitScope::Parent => (
            hierarchy.siblings(category).len() + 1,
            "its parent".to_owned(),
            "taxonomy.max_children",
        ),
        LimitScope::Level => (
            hierarchy
                .by_id
                .values()
                .filter(|one| one.level == level)
                .count(),
            format!("level {level}"),
            "taxonomy.max_categories_default",
        ),
    };
    if i64::try_from(count).unwrap_or(i64::MAX) < limit {
        return String::new();
    }

    format!(
        "; it cannot be split while {place} has {count} categories, which is the limit ({setting})"
    )
}
