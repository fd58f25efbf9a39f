//! The tiers of `auto` that ask a model: one choice over the leaves that the search found and the
//! level-1 categories that it did not reach; and, from a chosen category of level 1, a walk.

use std::collections::HashSet;

use super::decide::{CHUNKS_PER_PICK, OFFERED_LEAVES, PICKS, Reach};
use super::ranking::{RankedChunk, add_picks};
use super::tiers::{TierOutcome, report};
use crate::config::query::StrategyName;
use crate::queries::QueryError;
use crate::queries::finder::Live;
use crate::queries::input::Mode;
use crate::queries::steps::{Progress, QueryContext};
use crate::queries::strategy::Strategy;
use crate::queries::traversal::{Level, Offer, Path, Walk, Walker};
use crate::store::LeafPart;

/// The number under which the receipt shows the pick among the levels.
pub const PICK_LEVEL: i64 = 0;

/// Asks a model for leaves, and walks from where it leaves those that the search found. Returns
/// whether it agrees with the best chunk of the search.
pub async fn pick(
    query: &QueryContext<'_>,
    progress: &mut Progress,
    chunks: &mut Vec<RankedChunk>,
    (evidence, reach): (f64, Reach),
) -> Result<bool, QueryError> {
    let depth = query.inner.depth();
    let walker = Walker {
        query,
        view: query.finder.view().await?,
        strategy: Strategy {
            name: StrategyName::WideBranch,
            n: PICKS,
            n2: 0,
            per_level_max: PICKS,
        },
    };
    let offers = query.finder.offers(&walker, chunks).await?;
    if offers.is_empty() {
        let tier = TierOutcome {
            name: "pick",
            evidence,
            stops: true,
            reason: "there are no categories",
        };
        report(query, progress, &[], tier);
        return Ok(false);
    }

    let mut walk = Walk::default();
    let chosen = walker.choose_among(PICK_LEVEL, &offers, &mut walk).await;
    progress.receipt.levels.clone_from(&walk.levels);
    let Some(chosen) = unless_optional(query, progress, chosen)? else {
        return Ok(false);
    };

    let is_leaf = |path: &Path| path.names.len() == depth;
    let (leaves, tops): (Vec<Path>, Vec<Path>) = chosen.into_iter().partition(is_leaf);
    // By its number: a replay has the chunks in the order in which they were read.
    let best = chunks.iter().min_by_key(|chunk| chunk.result);
    let best = best.map_or(0, |chunk| chunk.leaf);
    let agreed = leaves.iter().any(|path| path.leaf() == best && best != 0);
    let walks = !tops.is_empty() && reach >= Reach::Walk;
    let reason = match (walks, tops.is_empty()) {
        (true, _) => "the pick leads outside the leaves that the search found",
        (false, true) => "the pick stays within the leaves that the search found",
        (false, false) => "the limits of the query leave no calls for a walk",
    };

    let picked = add(query, &leaves, chunks).await?;
    let tier = TierOutcome {
        name: "pick",
        evidence,
        stops: !walks,
        reason,
    };
    report(query, progress, &picked, tier);

    if walks {
        let outcome = walker.run_from(2, tops, &mut walk).await;
        progress.receipt.levels.clone_from(&walk.levels);
        for (path, reason) in &walk.dropped {
            progress.result.drop_path(path, *reason);
        }

        if unless_optional(query, progress, outcome)?.is_some() {
            let found = add(query, &walk.leaves, chunks).await?;
            let tier = TierOutcome {
                name: "walk",
                evidence,
                stops: true,
                reason: "the walk reached its leaves",
            };
            report(query, progress, &found, tier);
        }
    }

    Ok(agreed)
}

/// A query without an answer can do without a pick: the search has already found something.
fn unless_optional<T>(
    query: &QueryContext<'_>,
    progress: &mut Progress,
    outcome: Result<T, QueryError>,
) -> Result<Option<T>, QueryError> {
    match outcome {
        Err(QueryError::Llm(error)) if query.settings.mode == Mode::Retrieve => {
            let message = format!("no categories were picked: {error}");
            progress.result.warn("pick_failed", message);
            Ok(None)
        }
        outcome => outcome.map(Some),
    }
}

/// The leaves of the best chunks by their whole path, then the level-1 categories without any of
/// them.
pub async fn offers(
    live: &Live<'_>,
    walker: &Walker<'_>,
    chunks: &[RankedChunk],
) -> Result<Vec<(Path, Offer)>, QueryError> {
    let mut leaves: Vec<i64> = Vec::new();
    for chunk in chunks {
        if leaves.len() < OFFERED_LEAVES && chunk.leaf != 0 && !leaves.contains(&chunk.leaf) {
            leaves.push(chunk.leaf);
        }
    }

    let known = live
        .inner
        .store
        .find_category_paths(live.space, &leaves, live.scope.as_of)
        .await?;
    let mut reached = HashSet::new();
    let mut offers = Vec::new();
    for path in leaves.iter().filter_map(|leaf| known.get(leaf)) {
        let (ids, names): (Vec<i64>, Vec<String>) = path.iter().cloned().unzip();
        reached.extend(ids.first().copied());
        offers.push(offer(Path {
            ids,
            names,
            ..Path::default()
        }));
    }

    for top in walker.view.hierarchy.children(&[0]).await? {
        if !reached.contains(&top.id) {
            offers.push(offer(Path {
                ids: vec![top.id],
                names: vec![top.name],
                ..Path::default()
            }));
        }
    }

    Ok(offers)
}

fn offer(path: Path) -> (Path, Offer) {
    let offer = Offer {
        id: path.leaf(),
        parent_id: path.ids.iter().rev().nth(1).copied().unwrap_or(0),
        label: path.label(),
    };
    (path, offer)
}

/// The options of a recorded pick.
pub fn recorded_offers(levels: &[Level], depth: usize) -> Vec<(Path, Offer)> {
    // Only the last id counts; those above it are not recorded.
    let path = |offer: &Offer| {
        let length = if offer.parent_id == 0 { 1 } else { depth };
        let mut ids = vec![0; length];
        ids[length - 1] = offer.id;
        Path {
            ids,
            names: vec![offer.label.clone(); length],
            ..Path::default()
        }
    };

    levels
        .iter()
        .filter(|level| level.level == PICK_LEVEL)
        .flat_map(|level| &level.options)
        .map(|offer| (path(offer), offer.clone()))
        .collect()
}

/// Adds the chunks of picked leaves to those found so far, and returns them.
async fn add(
    query: &QueryContext<'_>,
    leaves: &[Path],
    chunks: &mut Vec<RankedChunk>,
) -> Result<Vec<RankedChunk>, QueryError> {
    let part = |path: &Path| LeafPart {
        leaf: path.leaf(),
        after: None,
        limit: CHUNKS_PER_PICK,
    };
    let parts: Vec<LeafPart> = leaves.iter().map(part).collect();
    let read = query.finder.picked_chunks(&parts).await?;

    // How well each leaf was ranked, 0 to 1.
    let shares: Vec<(i64, f64)> = leaves
        .iter()
        .map(|path| (path.leaf(), path.relevance()))
        .collect();
    add_picks(chunks, &shares, &read);
    let picked: HashSet<i64> = leaves.iter().map(Path::leaf).collect();
    let found = chunks.iter().filter(|chunk| picked.contains(&chunk.leaf));
    Ok(found.copied().collect())
}
