//! Before the tiers of `auto`: the result of the same query, if it is recent and nothing was written
//! to the space since.

use super::auto::{AutoRecord, Tier};
use super::receipt::Receipt;
use super::{Events, Inner, QueryError, QueryEvent, QueryResult, QuerySettings, Start, count};
use crate::base::clock::milliseconds_since;
use crate::base::ids::QueryId;
use crate::config::query::StrategyName;
use crate::llm::Written;
use crate::model::call::CallContext;

/// A query whose result may be used again.
pub struct Reuse {
    /// The space's write counter before it ran.
    pub writes: i64,
    pub earlier: Option<Box<QueryResult>>,
}

/// Whether the result of this query may be used again, with the earlier one if there is any.
pub async fn check(
    inner: &Inner,
    call: &CallContext,
    settings: &QuerySettings,
) -> Result<Option<Reuse>, QueryError> {
    let ttl = i64::try_from(inner.settings.reuse_ttl).unwrap_or(i64::MAX);
    let is_allowed = settings.strategy == StrategyName::Auto
        && settings.reuse
        && settings.cursor.is_none()
        // The write counter knows nothing of memories.
        && !settings.searched.memories();
    if !is_allowed || ttl == 0 || !inner.receipts.are_stored() {
        return Ok(None);
    }

    let writes = inner.store.find_chunk_writes(&call.space).await?;
    let since = call.now.minus_seconds(ttl);
    let earlier = inner.recent.find(&call.space, settings, writes, since);
    Ok(Some(Reuse {
        writes,
        earlier: earlier.map(Box::new),
    }))
}

/// Returns an earlier result under a new id, with its own receipt.
pub async fn recall(
    inner: &Inner,
    call: &CallContext,
    settings: &QuerySettings,
    id: QueryId,
    earlier: QueryResult,
    start: Start,
) -> QueryResult {
    let recalled_from = Some(earlier.id.clone());
    let mut result = recalled(earlier, id.to_string());
    result.elapsed_ms = milliseconds_since(start.begun);
    count(&result, None);
    let receipt = Receipt {
        auto: Some(AutoRecord {
            recalled_from,
            ..AutoRecord::default()
        }),
        ..Receipt::default()
    };

    let receipt = receipt.complete(&mut result, None);
    let receipts = &inner.receipts;
    receipts
        .store(call, settings, id, &result, &receipt, start)
        .await;
    result
}

/// Sends the steps of a recalled result.
pub fn send(result: &QueryResult, events: &Events) {
    for tier in &result.tiers {
        events.send(|| QueryEvent::Tier(tier.clone()));
    }

    if let Some(answer) = &result.answer {
        events.send(|| QueryEvent::Answer(Written::Piece(answer.clone())));
    }
}

/// An earlier result as the result of another query: without its calls and reads.
pub fn recalled(earlier: QueryResult, id: String) -> QueryResult {
    let tier = Tier {
        tier: "recalled".to_owned(),
        chunks: i64::try_from(earlier.chunks.len()).unwrap_or(i64::MAX),
        leaves: i64::try_from(earlier.paths.len()).unwrap_or(i64::MAX),
        evidence: earlier.tiers.last().map_or(0.0, |tier| tier.evidence),
        decision: "stop".to_owned(),
        reason: format!("nothing was written since query {}", earlier.id),
    };

    QueryResult {
        id,
        tier: Some(tier.tier.clone()),
        tiers: vec![tier],
        retrievals: Vec::new(),
        responses: Vec::new(),
        total_latency: 0.0,
        elapsed_ms: 0.0,
        ..earlier
    }
}
