//! The messages before and after those that a search found. Only the turns around them are read, so
//! that a long thread costs no more than a short one.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::super::{Search, SearchError};
use crate::base::ids::Space;
use crate::model::memory::{MemoryKind, MemoryOutline};
use crate::store::Turns;

/// Two messages before and after one are at most so many turns away, because every turn has one.
const REACH: i64 = 2;

impl Search {
    /// The numbers of the messages before and after each message that was found, and of those
    /// beside it.
    pub(super) async fn neighbours(
        &self,
        space: &Space,
        memories: &[MemoryOutline],
    ) -> Result<HashMap<i64, Vec<i64>>, SearchError> {
        let mut hits: BTreeMap<String, BTreeSet<i64>> = BTreeMap::new();
        for memory in memories {
            if let (MemoryKind::Message, Some(thread)) = (memory.kind, &memory.thread_id) {
                let turns = hits.entry(thread.to_string()).or_default();
                turns.insert(memory.turn_index);
            }
        }

        let wanted: Vec<(String, Turns)> = hits
            .into_iter()
            .map(|(thread, turns)| (thread, turns_around(&turns)))
            .collect();
        let found = self.inner.store.list_turn_seqs(space, &wanted).await?;

        let mut around: HashMap<i64, Vec<i64>> = HashMap::new();
        for (thread, turns) in &wanted {
            let messages = found.get(thread).map_or(&[][..], Vec::as_slice);
            for pair in messages.windows(2) {
                let ((turn, seq), (next_turn, next)) = (pair[0], pair[1]);
                if has_all_between(turns, turn, next_turn) {
                    around.entry(seq).or_default().push(next);
                    around.entry(next).or_default().push(seq);
                }
            }
        }

        Ok(around)
    }
}

/// The turns within reach of these; all from the first to the last, if that is not much more.
fn turns_around(turns: &BTreeSet<i64>) -> Turns {
    let near: BTreeSet<i64> = turns
        .iter()
        .flat_map(|turn| turn - REACH..=turn + REACH)
        .collect();
    let first = near.first().copied().unwrap_or(0);
    let last = near.last().copied().unwrap_or(0);
    let count = i64::try_from(near.len()).unwrap_or(i64::MAX);
    if last - first < 2 * count {
        Turns::Range(first, last)
    } else {
        Turns::Each(near.into_iter().collect())
    }
}

/// Whether every turn between two was read, so that nothing can be between their messages.
fn has_all_between(turns: &Turns, from: i64, to: i64) -> bool {
    match turns {
        Turns::Range(_, _) => true,
        Turns::Each(each) => {
            let place = |turn: i64| each.binary_search(&turn).unwrap_or(usize::MAX);
            let steps = place(to).saturating_sub(place(from));
            i64::try_from(steps).is_ok_and(|steps| steps == to - from)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_turns_around_the_hits_are_read() {
        let around = |turns: &[i64]| turns_around(&turns.iter().copied().collect());
        assert_eq!(around(&[5]), Turns::Range(3, 7));
        assert_eq!(around(&[5, 9]), Turns::Range(3, 11));
        let far = vec![3, 4, 5, 6, 7, 98, 99, 100, 101, 102];
        assert_eq!(around(&[5, 100]), Turns::Each(far));
    }

    #[test]
    fn messages_with_an_unread_turn_between_them_are_not_neighbours() {
        let turns = Turns::Each(vec![3, 4, 5, 98, 99]);
        assert!(has_all_between(&turns, 3, 4));
        assert!(has_all_between(&turns, 4, 4));
        // Turn 4 was read and has no message any more.
        assert!(has_all_between(&turns, 3, 5));
        assert!(!has_all_between(&turns, 5, 98));
        assert!(has_all_between(&Turns::Range(1, 99), 5, 98));
    }
}
