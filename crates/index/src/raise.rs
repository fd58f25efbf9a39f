//! Raises hits that name what a query names, such as a version or an id, above the others: an index
//! knows the words of a text, but not which of them stand together.

use std::collections::HashSet;

use super::rank::Hit;

/// Puts the hits that name most first, each group of equals in its order. `named` has a number for
/// each hit: 0 if it names nothing.
///
/// Scores still never rise down the list: a raised hit gets the score of the best one below it.
pub fn raise(hits: Vec<Hit>, named: &[u32]) -> Vec<Hit> {
    let mut ordered: Vec<(u32, Hit)> = named.iter().copied().zip(hits).collect();
    // Stable, so that equals keep their order.
    ordered.sort_by_key(|(named, _)| std::cmp::Reverse(*named));
    let mut hits: Vec<Hit> = ordered.into_iter().map(|(_, hit)| hit).collect();
    level(&mut hits);
    hits
}

/// The first hit of each group, of the raised hits and then of the others.
pub fn first_of_groups(raised: Vec<Hit>, others: Vec<Hit>) -> Vec<Hit> {
    let mut seen = HashSet::new();
    let mut hits: Vec<Hit> = raised.into_iter().chain(others).collect();
    hits.retain(|hit| seen.insert(hit.group));
    level(&mut hits);
    hits
}

/// Gives each hit at least the score of those below it.
fn level(hits: &mut [Hit]) {
    let mut most = f64::NEG_INFINITY;
    for hit in hits.iter_mut().rev() {
        most = most.max(hit.score);
        hit.score = most;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Owner, OwnerKind};

    fn hit(entry_id: i64, group: u64, score: f64) -> Hit {
        Hit {
            owner: Owner {
                kind: OwnerKind::Chunk,
                id: entry_id,
            },
            entry_id,
            group,
            score,
            keyword: None,
            fields: None,
            covered: None,
            semantic: None,
            standing: None,
        }
    }

    fn shown(hits: &[Hit]) -> Vec<(i64, f64)> {
        hits.iter().map(|hit| (hit.entry_id, hit.score)).collect()
    }

    #[test]
    fn what_names_most_comes_first_and_scores_never_rise() {
        let hits = vec![
            hit(1, 1, 0.9),
            hit(2, 1, 0.5),
            hit(3, 2, 0.4),
            hit(4, 2, 0.1),
        ];
        let raised = raise(hits, &[0, 1, 0, 2]);
        assert_eq!(shown(&raised), [(4, 0.9), (2, 0.9), (1, 0.9), (3, 0.4)]);
    }

    #[test]
    fn of_each_group_the_raised_hit_counts() {
        let raised = vec![hit(4, 2, 0.3)];
        let others = vec![hit(1, 1, 0.8), hit(3, 2, 0.4)];
        assert_eq!(
            shown(&first_of_groups(raised, others)),
            [(4, 0.8), (1, 0.8)]
        );
    }
}
