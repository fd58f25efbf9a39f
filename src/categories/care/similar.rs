//! Which categories of a list to merge when there are too many: the most similar pair first.

use std::collections::HashSet;

use memoir_embedded_model::EmbeddedModel;

use crate::model::category::{Category, NamedBy};

/// Children that say what a category is about.
const CHILDREN: usize = 40;
/// Pairs that are considered, because a limit may forbid the first ones.
const MAX_PAIRS: usize = 20;

/// A category of the list, with its children.
pub(super) struct Domain {
    pub id: i64,
    pub name: String,
    pub named_by: NamedBy,
    pub chunk_count: i64,
    pub children: Vec<String>,
}

/// A category and the one that takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair {
    pub from: i64,
    pub into: i64,
}

/// The categories of a list, with the names of the children of each, and who named it.
pub(super) fn domains(
    categories: &[&Category],
    mut children: impl FnMut(i64) -> Vec<String>,
    named_by: impl Fn(i64) -> NamedBy,
) -> Vec<Domain> {
    let one = |category: &&Category| Domain {
        id: category.id,
        name: category.name.clone(),
        named_by: named_by(category.id),
        chunk_count: category.chunk_count,
        children: children(category.id),
    };
    categories.iter().map(one).collect()
}

/// Pairs to merge, the most similar first; those whose children together are few come before others,
/// so that none becomes a category of everything. `refused` are pairs that a person took apart.
pub(super) fn pairs(
    domains: &[Domain],
    refused: &HashSet<(i64, i64)>,
    (few, most): (i64, i64),
) -> Vec<Pair> {
    let vectors: Vec<Vec<f32>> = domains.iter().map(meaning).collect();
    let mut found = Vec::new();
    for (at, one) in domains.iter().enumerate() {
        for (place, other) in domains.iter().enumerate().skip(at + 1) {
            let together = i64::try_from(one.children.len() + other.children.len());
            let together = together.unwrap_or(i64::MAX);
            let Some(pair) = pair(one, other).filter(|_| together <= most) else {
                continue;
            };
            if refused.contains(&(pair.from, pair.into))
                || refused.contains(&(pair.into, pair.from))
            {
                continue;
            }
            let similarity: f32 = vectors[at]
                .iter()
                .zip(&vectors[place])
                .map(|(a, b)| a * b)
                .sum();
            found.push((together > few, similarity, pair));
            // Thousands of categories have millions of pairs.
            if found.len() >= 8 * MAX_PAIRS {
                keep_best(&mut found);
            }
        }
    }

    keep_best(&mut found);
    found.into_iter().map(|(.., pair)| pair).collect()
}

/// Those with few children first, then the most similar; of equals, the first.
fn keep_best(found: &mut Vec<(bool, f32, Pair)>) {
    found.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
    found.truncate(MAX_PAIRS);
}

/// The smaller one goes into the larger one, unless a person named the smaller one; what a person
/// named never goes.
fn pair(one: &Domain, other: &Domain) -> Option<Pair> {
    let (small, large) = if (one.chunk_count, other.id) <= (other.chunk_count, one.id) {
        (one, other)
    } else {
        (other, one)
    };
    let (from, into) = match (small.named_by, large.named_by) {
        (NamedBy::User, NamedBy::User) => return None,
        (NamedBy::User, _) => (large, small),
        _ => (small, large),
    };

    Some(Pair {
        from: from.id,
        into: into.id,
    })
}

fn meaning(domain: &Domain) -> Vec<f32> {
    let children = domain.children.iter().take(CHILDREN);
    let children: Vec<&str> = children.map(String::as_str).collect();
    EmbeddedModel::embed(&format!("{}. {}", domain.name, children.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(id: i64, name: &str, named_by: NamedBy) -> Domain {
        Domain {
            id,
            name: name.to_owned(),
            named_by,
            chunk_count: id,
            children: Vec::new(),
        }
    }

    #[test]
    fn the_most_similar_pair_comes_first() {
        let of_model = NamedBy::Embedded;
        let domains = [
            domain(1, "Cooking", of_model),
            domain(2, "Astronomy", of_model),
            domain(3, "Recipes", of_model),
        ];
        let first = pairs(&domains, &HashSet::new(), (10, 20))[0];
        assert_eq!(first, Pair { from: 1, into: 3 });

        let refused = HashSet::from([(3, 1)]);
        let next = pairs(&domains, &refused, (10, 20))[0];
        assert_ne!(next, first);
        assert!(pairs(&domains, &HashSet::new(), (-1, -1)).is_empty());
    }

    #[test]
    fn the_best_of_many_pairs_are_kept() {
        let mut domains: Vec<Domain> = (1..60)
            .map(|id| domain(id, &format!("Number {id}"), NamedBy::Embedded))
            .collect();
        domains.push(domain(60, "Cooking at home", NamedBy::Embedded));
        domains.push(domain(61, "Cooking at home", NamedBy::Embedded));
        let found = pairs(&domains, &HashSet::new(), (10, 20));
        assert_eq!(found.len(), MAX_PAIRS);
        assert_eq!(found[0], Pair { from: 60, into: 61 });
    }

    #[test]
    fn what_a_person_named_stays() {
        let domains = [
            domain(1, "Cooking", NamedBy::User),
            domain(2, "Recipes", NamedBy::Model),
        ];
        let found = pairs(&domains, &HashSet::new(), (10, 20));
        assert_eq!(found, [Pair { from: 2, into: 1 }]);

        let domains = [
            domain(1, "Cooking", NamedBy::User),
            domain(2, "Recipes", NamedBy::User),
        ];
        assert!(pairs(&domains, &HashSet::new(), (10, 20)).is_empty());
    }
}
