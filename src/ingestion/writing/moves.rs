//! Moves chunks of other sources to the categories that a second look found for them.

use std::collections::BTreeMap;

use super::{Draft, Writer, Written};
use crate::base::clock::Timestamp;
use crate::ingestion::write_error::{During as _, WriteError};
use crate::model::call::CallContext;
use crate::model::category::LeafGrowth;
use crate::model::chunk::Move;
use crate::store::Tx;

impl Writer<'_> {
    /// Moves re-examined chunks, if they are still in the same category; returns the leaves that have
    /// changed.
    pub(super) async fn move_others(
        &self,
        tx: &mut Tx,
        draft: &Draft<'_>,
        written: &mut Written,
        call: &CallContext,
    ) -> Result<Vec<LeafGrowth>, WriteError> {
        if draft.moves.is_empty() {
            return Ok(Vec::new());
        }

        let space = self.context.space();
        let left: Vec<i64> = draft
            .moves
            .iter()
            .map(|chunk_move| chunk_move.from)
            .collect();
        let held = tx
            .find_chunk_counts(space, &left)
            .await
            .during("count chunks", "categories")?;

        let mut counts: BTreeMap<i64, i64> = BTreeMap::new();
        let mut oldest: BTreeMap<i64, i64> = BTreeMap::new();
        let moves = emptying_none(&draft.moves, held);
        let done = tx
            .move_chunks(space, &moves, call.now)
            .await
            .during("move chunks", "chunks")?;
        for chunk_move in &done {
            *counts.entry(chunk_move.from).or_default() -= 1;
            *counts.entry(chunk_move.to).or_default() += 1;
            // Not before it was filed: the time of a request may be in the past.
            let moved_at = call.now.as_micros().max(chunk_move.filed_at);
            let oldest = oldest.entry(chunk_move.to).or_insert(moved_at);
            *oldest = moved_at.min(*oldest);
        }
        written.moved.extend(done);

        for (leaf, moment) in oldest {
            let dated = tx
                .date_back(space, &[leaf], Timestamp::from_micros(moment))
                .await;
            dated.during("set the creation times of categories", "categories")?;
        }

        self.add_counts(tx, &counts).await
    }
}

/// The moves that leave at least one chunk in every category, so that a walk never ends in an empty
/// one. `held` is the number of chunks in each.
fn emptying_none(moves: &[Move], mut held: BTreeMap<i64, i64>) -> Vec<Move> {
    let may_go = |chunk_move: &&Move| {
        let left = held.entry(chunk_move.from).or_default();
        *left -= 1;
        *left > 0
    };
    moves.iter().filter(may_go).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_chunk_of_a_category_stays() {
        let chunk_move = |chunk_id, from, to| Move {
            chunk_id,
            filed_at: 0,
            from,
            to,
        };

        let moves = [
            chunk_move(1, 7, 8),
            chunk_move(2, 7, 8),
            chunk_move(3, 8, 7),
            chunk_move(4, 9, 7),
            chunk_move(5, 6, 7),
        ];

        let allowed = emptying_none(&moves, BTreeMap::from([(7, 2), (8, 4), (9, 1)]));
        assert_eq!(
            allowed
                .iter()
                .map(|chunk_move| chunk_move.chunk_id)
                .collect::<Vec<_>>(),
            [1, 3]
        );
    }
}
