//! A chunk that goes on with what the chunk before it says may share few words with a question that
//! both answer. So the chunks before and after a good one rise a little.
//!
//! The chunks of a source are written together, so their entries have consecutive numbers. Where
//! another space was written to at the same time, there may be a gap, and the two chunks beside it
//! do not count for each other.

use std::collections::HashMap;

use super::entry::OwnerKind;
use super::rank::{Hit, Standing};

/// The share of each neighbour's standing. More than this puts whole stretches of one source first.
const SHARE: f64 = 0.1;

/// Adds the shares of neighbouring chunks, and sorts the hits again. Memories have their own rule, in
/// the service.
pub fn add(hits: &mut [Hit]) {
    let standings: HashMap<(u64, i64), f64> = hits
        .iter()
        .filter(|hit| hit.owner.kind == OwnerKind::Chunk)
        .filter_map(|hit| Some(((hit.group, hit.entry_id), hit.standing?.own())))
        .collect();

    for hit in hits.iter_mut() {
        let (group, entry_id) = (hit.group, hit.entry_id);
        // One that is worse than average does not count against its neighbours.
        let near = |id: i64| standings.get(&(group, id)).copied().unwrap_or(0.0).max(0.0);
        if let Some(standing) = &mut hit.standing {
            standing.neighbours = SHARE * (near(entry_id - 1) + near(entry_id + 1));
        }
    }

    let total = |hit: &Hit| hit.standing.map_or(0.0, Standing::total);
    hits.sort_by(|a, b| {
        total(b)
            .total_cmp(&total(a))
            .then(a.entry_id.cmp(&b.entry_id))
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Owner;

    fn hit(entry_id: i64, group: u64, own: f64) -> Hit {
        Hit {
            owner: Owner {
                kind: OwnerKind::Chunk,
                id: entry_id,
            },
            entry_id,
            group,
            score: 0.0,
            keyword: None,
            fields: None,
            covered: None,
            semantic: None,
            standing: Some(Standing {
                keyword: own,
                semantic: own,
                neighbours: 0.0,
            }),
        }
    }

    fn order(mut hits: Vec<Hit>) -> Vec<i64> {
        add(&mut hits);
        hits.iter().map(|hit| hit.entry_id).collect()
    }

    #[test]
    fn a_chunk_beside_a_good_one_rises_above_its_equals() {
        let hits = vec![hit(1, 1, 0.5), hit(9, 2, 3.0), hit(10, 2, 0.4)];
        assert_eq!(order(hits), [9, 10, 1]);
    }

    #[test]
    fn only_chunks_of_the_same_source_count_and_only_good_ones() {
        let other_source = vec![hit(1, 1, 0.5), hit(9, 2, 3.0), hit(10, 3, 0.4)];
        assert_eq!(order(other_source), [9, 1, 10]);

        let bad = vec![hit(1, 1, 0.5), hit(2, 1, -3.0), hit(5, 1, 0.4)];
        assert_eq!(order(bad), [1, 5, 2]);
    }
}
