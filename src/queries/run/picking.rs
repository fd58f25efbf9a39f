//! The tiers of `auto` that ask a model: one choice over the leaves that the search found and the
//! level-1 categories that it did not reach; and, from a chosen category of level 1, a walk.

use std::collections::HashSet;

use super::QueryRun;
use crate::config::query::StrategyName;
use crate::queries::QueryError;
use crate::queries::auto::decide::{CHUNKS_PER_PICK, OFFERED_LEAVES, PICKS, Reach};
use crate::queries::auto::ranking::{RankedChunk, add_picks};
use crate::queries::candidates::LeafReader;
use crate::queries::input::Mode;
use crate::queries::strategy::Strategy;
use crate::queries::traversal::{Hierarchy, Level, Offer, Path, Walk, Walker};
use crate::store::LeafPart;

/// The number under which the receipt shows the pick among the levels.
pub const PICK_LEVEL: i64 = 0;

impl<'a> QueryRun<'a> {
    /// Asks a model for leaves, and walks from where it leaves those that the search found.
    /// Returns whether it agrees with the best chunk of the search.
    pub(super) async fn pick(
        &mut self,
        chunks: &mut Vec<RankedChunk>,
        evidence: f64,
    ) -> Result<bool, QueryError> {
        let depth = usize::try_from(self.inner.depth).unwrap_or(1).max(1);
        let walker = self.walker().await?;
        let offers = match &self.known.levels {
            Some(levels) => recorded_offers(levels, depth),
            None => self.offers(&walker, chunks).await?,
        };

        if offers.is_empty() {
            self.add_tier("pick", &[], evidence, true, "there are no categories");
            return Ok(false);
        }

        let mut walk = Walk::default();
        let chosen = walker.choose_among(PICK_LEVEL, &offers, &mut walk).await;
        self.record.levels.clone_from(&walk.levels);
        let Some(chosen) = self.unless_optional(chosen)? else {
            return Ok(false);
        };

        let is_leaf = |path: &Path| path.names.len() == depth;
        let (leaves, tops): (Vec<Path>, Vec<Path>) = chosen.into_iter().partition(is_leaf);
        let best = chunks.first().map_or(0, |chunk| chunk.leaf);
        let agreed = leaves.iter().any(|path| path.leaf() == best && best != 0);
        let walks = !tops.is_empty() && self.known.reach >= Reach::Walk;
        let reason = match (walks, tops.is_empty()) {
            (true, _) => "the pick leads outside the leaves that the search found",
            (false, true) => "the pick stays within the leaves that the search found",
            (false, false) => "the limits of the query leave no calls for a walk",
        };

        let picked = self.add(&leaves, chunks).await?;
        self.add_tier("pick", &picked, evidence, !walks, reason);
        if walks {
            let outcome = walker.run_from(2, tops, &mut walk).await;
            self.record.levels.clone_from(&walk.levels);
            for (path, why) in &walk.dropped {
                self.result.drop_path(path, *why);
            }

            if self.unless_optional(outcome)?.is_some() {
                let found = self.add(&walk.leaves, chunks).await?;
                self.add_tier(
                    "walk",
                    &found,
                    evidence,
                    true,
                    "the walk reached its leaves",
                );
            }
        }

        Ok(agreed)
    }

    /// A query without an answer can do without a pick: the search has already found something.
    fn unless_optional<T>(
        &mut self,
        outcome: Result<T, QueryError>,
    ) -> Result<Option<T>, QueryError> {
        match outcome {
            Err(QueryError::Llm(error)) if self.ask.mode == Mode::Retrieve => {
                let message = format!("no categories were picked: {error}");
                self.result.warn("pick_failed", message);
                Ok(None)
            }
            outcome => outcome.map(Some),
        }
    }

    async fn walker(&self) -> Result<Walker<'a>, QueryError> {
        let map = match (&self.leaf_reader, &self.known.levels) {
            (_, Some(levels)) => Hierarchy::Recorded(levels.clone()),
            (LeafReader::Stored { space, scope, .. }, None) => self.inner.map(space, scope).await?,
            (LeafReader::Recorded { .. }, None) => Hierarchy::Recorded(Vec::new()),
        };

        Ok(Walker {
            llm: &self.inner.llm,
            session: self.session,
            contextual_helper: self.leaf_reader.described().await?,
            map,
            query: self.ask.query.as_str().into(),
            strategy: Strategy {
                name: StrategyName::WideBranch,
                n: PICKS,
                n2: 0,
                per_level_max: PICKS,
            },
            depth: self.inner.depth,
            contents: self.contents().await?,
            events: self.events,
        })
    }

    /// The leaves of the best chunks by their whole path, then the level-1 categories without any
    /// of them.
    async fn offers(
        &self,
        walker: &Walker<'_>,
        chunks: &[RankedChunk],
    ) -> Result<Vec<(Path, Offer)>, QueryError> {
        let LeafReader::Stored { store, space, .. } = &self.leaf_reader else {
            return Ok(Vec::new());
        };

        let mut leaves: Vec<i64> = Vec::new();
        for chunk in chunks {
            if leaves.len() == OFFERED_LEAVES {
                break;
            }
            if chunk.leaf != 0 && !leaves.contains(&chunk.leaf) {
                leaves.push(chunk.leaf);
            }
        }

        let known = store.find_category_paths(space, &leaves).await?;
        let mut reached = HashSet::new();
        let mut offers = Vec::new();
        for leaf in &leaves {
            let Some(path) = known.get(leaf) else {
                continue;
            };

            let (ids, names): (Vec<i64>, Vec<String>) = path.iter().cloned().unzip();
            reached.extend(ids.first().copied());
            let parent_id = ids.iter().rev().nth(1).copied().unwrap_or(0);
            let path = Path {
                ids,
                names,
                ranks: Vec::new(),
            };

            let label = path.label();
            let offer = Offer {
                id: *leaf,
                parent_id,
                label,
            };
            offers.push((path, offer));
        }

        for top in walker.map.children(1, &[0]).await? {
            if reached.contains(&top.id) {
                continue;
            }

            let offer = Offer {
                id: top.id,
                parent_id: 0,
                label: top.name.clone(),
            };
            let path = Path {
                ids: vec![top.id],
                names: vec![top.name],
                ranks: Vec::new(),
            };
            offers.push((path, offer));
        }

        Ok(offers)
    }

    /// Adds the chunks of picked leaves to those found so far, and returns them.
    async fn add(
        &self,
        leaves: &[Path],
        chunks: &mut Vec<RankedChunk>,
    ) -> Result<Vec<RankedChunk>, QueryError> {
        let LeafReader::Stored {
            store,
            space,
            scope,
        } = &self.leaf_reader
        else {
            // The record holds the result of this step.
            return Ok(Vec::new());
        };

        let part = |path: &Path| LeafPart {
            leaf: path.leaf(),
            after: None,
            limit: CHUNKS_PER_PICK,
        };
        let parts: Vec<LeafPart> = leaves.iter().map(part).collect();
        let candidates = store.list_candidates(space, scope, &parts).await?;
        add_picks(chunks, &shares(leaves), &candidates);
        let picked: HashSet<i64> = leaves.iter().map(Path::leaf).collect();
        let found = chunks.iter().filter(|chunk| picked.contains(&chunk.leaf));
        Ok(found.copied().collect())
    }
}

/// How well each leaf was ranked, 0 to 1.
fn shares(leaves: &[Path]) -> Vec<(i64, f64)> {
    leaves
        .iter()
        .map(|path| (path.leaf(), path.relevance()))
        .collect()
}

/// The options of a recorded pick.
fn recorded_offers(levels: &[Level], depth: usize) -> Vec<(Path, Offer)> {
    // Only the last id counts; those above it are not recorded.
    let path = |offer: &Offer| {
        let length = if offer.parent_id == 0 { 1 } else { depth };
        let mut ids = vec![0; length];
        ids[length - 1] = offer.id;
        Path {
            ids,
            names: vec![offer.label.clone(); length],
            ranks: Vec::new(),
        }
    };

    levels
        .iter()
        .filter(|level| level.level == PICK_LEVEL)
        .flat_map(|level| &level.options)
        .map(|offer| (path(offer), offer.clone()))
        .collect()
}
