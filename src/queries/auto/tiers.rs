//! The tiers of `auto`: search, decide whether that is enough, and if not, let a model pick.

use std::collections::HashMap;

use memoir_index::rank::NOTHING;

use super::cursor::RankedCursor;
use super::decide::{self, Next};
use super::ranking::{self, RankedChunk};
use super::searching::SearchOutcome;
use super::{Tier, picking};
use crate::queries::steps::{Progress, QueryContext};
use crate::queries::{QueryError, QueryEvent};

/// What the tiers found.
#[derive(Default)]
pub struct Ranking {
    /// In the order of relevance, as far as it is known without the texts.
    pub chunks: Vec<RankedChunk>,
    /// The relevance of each chunk, where a cursor carries it.
    pub carried: HashMap<i64, f64>,
    pub evidence: f64,
    /// Whether a model picked the leaf of the best chunk.
    pub agreed: bool,
    pub found: bool,
}

/// How a tier ended.
#[derive(Debug, Clone, Copy)]
pub struct TierOutcome {
    pub name: &'static str,
    pub evidence: f64,
    /// Whether the query stops there.
    pub stops: bool,
    /// Why it stops or continues.
    pub reason: &'static str,
}

impl Ranking {
    /// The ranking that a cursor carries.
    pub fn resumed(page: &RankedCursor) -> Self {
        let relevance = |share: &u32| f64::from(*share) / 1000.0;
        let chunk = |(result, (chunk_id, share)): (u32, &(i64, u32))| RankedChunk {
            chunk_id: *chunk_id,
            leaf: 0,
            result,
            search: relevance(share),
            pick: 0.0,
            tokens: 0,
        };

        let carried = page.rest.iter().map(|(id, share)| (*id, relevance(share)));
        Self {
            chunks: (0..).zip(&page.rest).map(chunk).collect(),
            carried: carried.collect(),
            evidence: page.evidence,
            agreed: false,
            found: page.evidence >= NOTHING,
        }
    }
}

/// Runs the tiers for a budget of tokens.
pub async fn rank(
    query: &QueryContext<'_>,
    progress: &mut Progress,
    budget: i64,
) -> Result<Ranking, QueryError> {
    let SearchOutcome {
        mut chunks,
        count,
        evidence,
        language_model,
        reach,
        warning,
    } = query.finder.search(budget).await?;
    if let Some(message) = warning {
        progress.result.warn("embedding_model_unavailable", message);
    }

    progress.auto().evidence = evidence;
    let (next, reason) = decide::after_search(&decide::Seen {
        chunks: count,
        evidence,
        language_model,
        reach,
    });
    let outcome = TierOutcome {
        name: "search",
        evidence,
        stops: next != Next::Pick,
        reason,
    };
    report(query, progress, &chunks, outcome);

    let mut agreed = false;
    if next == Next::Pick {
        agreed = picking::pick(query, progress, &mut chunks, (evidence, reach)).await?;
    }

    ranking::sort(&mut chunks);
    Ok(Ranking {
        chunks,
        carried: HashMap::new(),
        evidence,
        agreed,
        found: next != Next::Nothing,
    })
}

/// Reports a tier with the chunks that it found.
pub fn report(
    query: &QueryContext<'_>,
    progress: &mut Progress,
    chunks: &[RankedChunk],
    outcome: TierOutcome,
) {
    let mut leaves: Vec<i64> = chunks.iter().map(|chunk| chunk.leaf).collect();
    leaves.retain(|leaf| *leaf != 0);
    leaves.sort_unstable();
    leaves.dedup();
    let whole = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);

    let recorded = query.finder.recorded_tier(progress.result.tiers.len());
    let recorded = recorded
        .filter(|recorded| recorded.tier == outcome.name)
        .cloned();
    let tier = recorded.unwrap_or_else(|| Tier {
        tier: outcome.name.to_owned(),
        chunks: whole(chunks.len()),
        leaves: whole(leaves.len()),
        evidence: outcome.evidence,
        decision: if outcome.stops { "stop" } else { "continue" }.to_owned(),
        reason: outcome.reason.to_owned(),
    });

    query.events.send(|| QueryEvent::Tier(tier.clone()));
    progress.result.tier = Some(outcome.name.to_owned());
    progress.result.tiers.push(tier);
}
