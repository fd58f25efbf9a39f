//! Re-examines filed chunks below the parents that a source's own chunks went to; `turns` chooses
//! them. Only models that declare the capability do this: they rely on the contents of each
//! category, which have grown, and cost only time.
//!
//! [`SecondLook::look`] is the entry point. Its result is written with the source. If the model
//! does not respond, everything stays where it is.
//!
//! A chunk moves only if it is still where it was and part of the current version; the last chunk of
//! a category stays, and earlier versions stay where they are filed. One that a person has moved stays
//! as well. A client that pages through a category meanwhile may miss a moved chunk.

mod turns;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

pub use turns::{ENOUGH, turns};

use turns::MAX_TURNS;

use crate::base::ids::Space;
use crate::categories::Taxonomy;
use crate::categories::samples::Samples;
use crate::categories::tree::{Node, Tree};
use crate::jobs::JobError;
use crate::llm::tasks::classify::{Classify, ClassifyOutput};
use crate::llm::{Hint, Llm, Session};
use crate::model::chunk::Move;
use crate::store::{Sample, Store};

pub struct SecondLook<'a> {
    pub store: &'a Store,
    pub llm: &'a Llm,
    pub session: &'a Session,
    pub space: &'a Space,
    pub taxonomy: &'a Taxonomy,
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
        if !self.taxonomy.second_look() || !self.llm.takes_a_second_look(self.session) {
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

    let mut left = MAX_TURNS;
    let mut looks = Vec::new();
    for (parent, new) in parents {
        let look = look_below(tree, parent, samples, |pool, children| {
            let mut places = turns(write, new, pool, children);
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
    turns: impl FnOnce(usize, usize) -> Vec<usize>,
) -> Option<Look> {
    let offered = tree.offered(parent).zip(tree.options(parent));
    let stored = offered.filter_map(|(node, name)| Some((tree.stored(node)?, name)));
    let (leaves, categories): (Vec<i64>, Vec<String>) = stored.unzip();
    let contents = samples.whole_of_each(&leaves);

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

    let chosen: Vec<(usize, &Sample)> = turns(pool.len(), leaves.len())
        .into_iter()
        .map(|place| pool[place])
        .collect();

    if chosen.is_empty() {
        return None;
    }

    let depth = u32::try_from(tree.path(parent).len() + 1).unwrap_or(u32::MAX);
    let task = Classify {
        contextual_helper: None,
        is_title: false,
        free_names: false,
        helpers: Vec::new(),
        level: depth,
        depth,
        parent: tree.path(parent).into(),
        categories: categories.into(),
        may_create: false,
        chunks: (1..)
            .zip(&chosen)
            .map(|(id, (_, sample))| (id, Arc::clone(&sample.text)))
            .collect(),
        hint: Hint::second_look(
            contents,
            Arc::new(
                (1..)
                    .zip(&chosen)
                    .map(|(id, (leaf, _))| (id, *leaf))
                    .collect(),
            ),
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
        found
            .filter(|chunk_move| chunk_move.from != chunk_move.to)
            .collect()
    }
}
