//! Re-examines filed chunks below the parents that a source's own chunks went to
//! (`categories::second_look`). Only the embedded model does this: it relies on the contents of
//! each category, which have grown, and costs only time.
//!
//! Moves are written with the source. If the second look fails, everything stays where it is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::ids::Space;
use crate::categories::samples::Samples;
use crate::categories::second_look::{ENOUGH, MOST, turns};
use crate::categories::tree::{Node, Tree};
use crate::jobs::JobError;
use crate::llm::tasks::classify::{Classify, ClassifyOutput};
use crate::llm::{Llm, Session};
use crate::model::category::CategoryContents;
use crate::model::chunk::Move;
use crate::store::{Sample, Store};

pub struct SecondLook<'a> {
    pub store: &'a Store,
    pub llm: &'a Llm,
    pub session: &'a Session,
    pub space: &'a Space,
}

/// Chunks below one parent.
struct Look {
    task: Classify,
    /// By their number in the task, minus one.
    chunks: Vec<Sample>,
    /// The categories of the task.
    leaves: Vec<i64>,
}

impl SecondLook<'_> {
    /// Which chunks belong elsewhere, now that those of this source have their leaves.
    ///
    /// # Errors
    /// The store's.
    pub async fn look(
        &self,
        tree: &Mutex<Tree>,
        new: &[Node],
        samples: &Samples,
    ) -> Result<Vec<Move>, JobError> {
        if self.llm.must_spare_calls() {
            return Ok(Vec::new());
        }

        let writes = self.store.find_chunk_writes(self.space).await?;
        let looks = plan(
            &tree.lock().unwrap_or_else(PoisonError::into_inner),
            new,
            samples,
            writes.unsigned_abs(),
        );

        if looks.is_empty() {
            return Ok(Vec::new());
        }

        let mut moves = Vec::new();
        for look in looks {
            match self.llm.ask(self.session, look.task.clone()).await {
                Ok(answered) => moves.extend(look.moves(&answered.value)),
                Err(error) => {
                    tracing::info!(%error, "cannot review the filed chunks");
                    break;
                }
            }
        }

        // Nothing is saved with the job, because repeating it is free. Its calls are reported when
        // it ends.
        self.llm.flush().await?;
        Ok(moves)
    }
}

fn plan(tree: &Tree, new: &[Node], samples: &Samples, write: u64) -> Vec<Look> {
    let mut parents: BTreeMap<Node, usize> = BTreeMap::new();
    for leaf in new {
        *parents.entry(tree.parent(*leaf)).or_default() += 1;
    }

    let mut left = MOST;
    let mut looks = Vec::new();
    for (parent, new) in parents {
        let look = look_below(tree, parent, samples, |pool| {
            let mut places = turns(write, new, pool);
            places.truncate(left);
            places
        });

        left -= look.as_ref().map_or(0, |look| look.chunks.len());
        looks.extend(look);
    }

    looks
}

/// The next ones below a parent.
fn look_below(
    tree: &Tree,
    parent: Node,
    samples: &Samples,
    turns: impl FnOnce(usize) -> Vec<usize>,
) -> Option<Look> {
    let offered = tree.offered(parent).zip(tree.options(parent));
    let stored = offered.filter_map(|(node, name)| Some((tree.stored(node)?, name)));
    let (leaves, categories): (Vec<i64>, Vec<String>) = stored.unzip();
    let contents: Arc<[CategoryContents]> = leaves
        .iter()
        .map(|leaf| samples.get(*leaf).cloned().unwrap_or_default())
        .collect();

    if contents
        .iter()
        .map(|contents| contents.count)
        .sum::<usize>()
        < ENOUGH
    {
        return None;
    }
    // A single chunk stays.
    let full = (0..leaves.len()).filter(|at| contents[*at].count > 1);
    let pool: Vec<(usize, &Sample)> = full
        .flat_map(|at| {
            samples
                .filed(leaves[at])
                .iter()
                .map(move |sample| (at, sample))
        })
        .collect();

    let chosen: Vec<(usize, &Sample)> = turns(pool.len())
        .into_iter()
        .map(|place| pool[place])
        .collect();

    if chosen.is_empty() {
        return None;
    }

    let depth = u32::try_from(tree.path(parent).len() + 1).unwrap_or(u32::MAX);
    let task = Classify {
        contextual_helper: None,
        level: depth,
        depth,
        parent: tree.path(parent).into(),
        categories: categories.into(),
        contents,
        may_create: false,
        chunks: (1..)
            .zip(&chosen)
            .map(|(id, (_, sample))| (id, Arc::clone(&sample.text)))
            .collect(),
        homes: Arc::new(
            (1..)
                .zip(&chosen)
                .map(|(id, (home, _))| (id, *home))
                .collect(),
        ),
    };

    Some(Look {
        task,
        chunks: chosen
            .into_iter()
            .map(|(_, sample)| sample.clone())
            .collect(),
        leaves,
    })
}

impl Look {
    fn moves(&self, answered: &ClassifyOutput) -> Vec<Move> {
        let found = answered.chunks.iter().filter_map(|chunk| {
            let sample = self.chunks.get(usize::try_from(chunk.id - 1).ok()?)?;
            let to = self.leaves[self
                .task
                .categories
                .iter()
                .position(|name| *name == chunk.category)?];

            let filed_at = sample.created_at.as_micros();
            Some(Move {
                chunk_id: sample.id,
                filed_at,
                from: sample.category_id,
                to,
            })
        });
        found.filter(|wish| wish.from != wish.to).collect()
    }
}

/// The moves that leave a chunk in every category, so that a walk finds something there. `held`
/// says how many there are.
pub fn emptying_none(moves: &[Move], mut held: BTreeMap<i64, i64>) -> Vec<Move> {
    let may_go = |wish: &&Move| {
        let left = held.entry(wish.from).or_default();
        *left -= 1;
        *left > 0
    };
    moves.iter().filter(may_go).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_of_a_category_stays() {
        let wish = |chunk_id, from, to| Move {
            chunk_id,
            filed_at: 0,
            from,
            to,
        };

        let moves = [
            wish(1, 7, 8),
            wish(2, 7, 8),
            wish(3, 8, 7),
            wish(4, 9, 7),
            wish(5, 6, 7),
        ];

        let allowed = emptying_none(&moves, BTreeMap::from([(7, 2), (8, 4), (9, 1)]));
        assert_eq!(
            allowed.iter().map(|wish| wish.chunk_id).collect::<Vec<_>>(),
            [1, 3]
        );
    }
}
