//! What a job could not split, so that the next job does not read and compare the same chunks again.
//! A restarted process tries once more.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::ids::Space;
use crate::categories::care::balance::{Imbalance, SplitSize};

/// Maximum splits of all spaces that are remembered.
const MAX_TRIED: usize = 10_000;

/// Why nothing was split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// A limit forbids it for now.
    Full,
    /// Nothing in it can be told apart or may leave.
    Hopeless,
}

#[derive(Debug, Clone, Default)]
pub(super) struct TriedSplits(Arc<Mutex<HashMap<(Space, Imbalance), Tried>>>);

/// How large it was, and why it was not split.
#[derive(Debug, Clone, Copy)]
struct Tried {
    size: SplitSize,
    refusal: Refusal,
}

impl TriedSplits {
    /// Why a split would be refused again: it has not grown by a quarter since, and a limit leaves no
    /// more room than it did.
    pub fn find(&self, space: &Space, imbalance: Imbalance, now: SplitSize) -> Option<Refusal> {
        let tried = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Tried {
            size: then,
            refusal,
        } = *tried.get(&(space.clone(), imbalance))?;
        let has_grown = now.members.saturating_mul(4) >= then.members.saturating_mul(5);
        let has_room = refusal == Refusal::Full
            && (now.room > then.room || (now.has_empty_leaf && !then.has_empty_leaf));
        (!has_grown && !has_room).then_some(refusal)
    }

    pub fn note(&self, space: &Space, imbalance: Imbalance, size: SplitSize, refusal: Refusal) {
        let mut tried = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tried.len() >= MAX_TRIED {
            tried.clear();
        }
        tried.insert((space.clone(), imbalance), Tried { size, refusal });
    }

    /// Forgets what is no longer out of balance in a space.
    pub fn keep(&self, space: &Space, present: &[Imbalance]) {
        let present: BTreeSet<&Imbalance> = present.iter().collect();
        let mut tried = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tried.retain(|(own, imbalance), _| own != space || present.contains(imbalance));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(members: i64, room: i64) -> SplitSize {
        SplitSize {
            members,
            room,
            has_empty_leaf: false,
        }
    }

    #[test]
    fn a_refused_split_is_tried_again_once_it_has_grown_by_a_quarter() {
        let (tried, leaf) = (TriedSplits::default(), Imbalance::Leaf(1));
        let space = Space::default();
        assert_eq!(tried.find(&space, leaf, size(100, 9)), None);
        tried.note(&space, leaf, size(100, 9), Refusal::Hopeless);
        for (members, known) in [(100, true), (124, true), (125, false)] {
            let found = tried.find(&space, leaf, size(members, 50));
            assert_eq!(found.is_some(), known, "{members}");
        }

        assert_eq!(tried.find(&space, Imbalance::Leaf(2), size(100, 9)), None);
        tried.keep(&space, &[Imbalance::Leaf(2)]);
        assert_eq!(tried.find(&space, leaf, size(100, 9)), None);
    }

    #[test]
    fn what_a_limit_forbade_is_tried_again_once_there_is_more_room() {
        let (tried, leaf) = (TriedSplits::default(), Imbalance::Leaf(1));
        let space = Space::default();
        tried.note(&space, leaf, size(100, 1), Refusal::Full);
        let full = Some(Refusal::Full);
        assert_eq!(tried.find(&space, leaf, size(100, 1)), full);
        assert_eq!(tried.find(&space, leaf, size(100, 2)), None);
        let reused = SplitSize {
            has_empty_leaf: true,
            ..size(100, 1)
        };
        assert_eq!(tried.find(&space, leaf, reused), None);
    }

    #[test]
    fn a_limited_number_of_splits_is_remembered() {
        let (tried, space) = (TriedSplits::default(), Space::default());
        for id in 0..20_000 {
            tried.note(&space, Imbalance::Leaf(id), size(1, 1), Refusal::Hopeless);
        }
        assert!(tried.0.lock().unwrap().len() <= MAX_TRIED);
    }
}
