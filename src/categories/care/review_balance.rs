//! Proposals about what has grown too large: leaves, lists of children, and level 1.

use std::collections::HashSet;

use super::review::{Hierarchy, ReviewItem};
use super::review_call::ReviewCall;
use super::similar::{Pair, domains, pairs};
use crate::categories::Taxonomy;
use crate::config::taxonomy::LimitScope;
use crate::model::category::{Category, NamedBy};

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
pub(super) fn crowded(hierarchy: &Hierarchy<'_>, taxonomy: &Taxonomy) -> Vec<ReviewItem> {
    let mut items = Vec::new();
    for (parent, children) in &hierarchy.children {
        let most = taxonomy.max_children_of(*parent);
        if i64::try_from(children.len()).unwrap_or(i64::MAX) <= most {
            continue;
        }

        let parent = hierarchy.by_id.get(parent).copied();
        items.extend(match parent {
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
            _ => most_similar(hierarchy, taxonomy, (parent, children), most),
        });
    }

    items
}

/// The two of these children that are most similar.
fn most_similar(
    hierarchy: &Hierarchy<'_>,
    taxonomy: &Taxonomy,
    (parent, children): (Option<&Category>, &[&Category]),
    most: i64,
) -> Option<ReviewItem> {
    let domains = domains(
        children,
        |id| hierarchy.names_of_children(id),
        |_| NamedBy::Model,
    );
    let few = taxonomy.max_children_of(1);
    let limit = taxonomy.limit(2).max(few);
    let Pair { from, into } = *pairs(&domains, &HashSet::new(), (few, limit)).first()?;
    let (from, into) = (hierarchy.by_id.get(&from)?, hierarchy.by_id.get(&into)?);

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
