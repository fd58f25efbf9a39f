//! Versions and ids that a query names: the chunks that name them as a whole come first, before those
//! that only have their parts. An index knows the words of a chunk without their order, so the texts
//! of the best results are read. Other queries cost nothing more.

use std::collections::HashMap;
use std::sync::Arc;

use memoir_index::raise::{first_of_groups, raise};
use memoir_index::{Filter, Hit, Kind, OwnerKind};
use memoir_text::identifiers::{Identifiers, Naming};

use super::cache::blocking;
use super::{EntryQuery, FoundEntries, Search, SearchError};
use crate::base::ids::Space;
use crate::llm::Session;
use crate::model::chunk::SourceChunk;
use crate::store::StoreError;

/// How many of the best results are looked at.
const LOOKED_AT: usize = 500;
/// If a number says nothing without its label, such as `§ 12`, only chunks are raised that have at
/// least this share of the best score: every contract has that section.
const CLOSE: f64 = 0.5;

impl Search {
    /// Searches the entries of one kind; chunks that name what the query names come first.
    pub(super) async fn find_filtered(
        &self,
        session: &Session,
        ask: EntryQuery<'_>,
        filter: impl Future<Output = Result<Filter, StoreError>>,
    ) -> Result<FoundEntries, SearchError> {
        let asked = identifiers(ask);
        if asked.is_empty() {
            return self.find_entries(session, ask, filter).await;
        }

        let filter = filter.await?;
        let of_groups = ask.by_group.then(|| filter.clone());
        let wide = EntryQuery {
            k: ask.k.max(LOOKED_AT),
            by_group: false,
            ..ask
        };
        let mut found = self
            .find_entries(session, wide, async { Ok(filter) })
            .await?;
        let asked = Arc::new(asked);
        let named = self.named(session.space(), &asked, &found.hits).await?;
        let most = named.iter().copied().max().unwrap_or_default();
        found.identified = match most {
            0 => asked.are_needed().then_some(false),
            most => (most >= Naming::Exactly as u32).then_some(true),
        };

        let mut hits = raise(found.hits, &named);
        if let Some(filter) = of_groups {
            let raised = named.iter().filter(|named| **named > 0).count();
            hits.truncate(raised);
            let others = self.find_entries(session, ask, async { Ok(filter) });
            hits = first_of_groups(hits, others.await?.hits);
        }

        hits.truncate(ask.k);
        found.hits = hits;
        Ok(found)
    }

    /// How well each hit names what is asked for.
    async fn named(
        &self,
        space: &Space,
        asked: &Arc<Identifiers>,
        hits: &[Hit],
    ) -> Result<Vec<u32>, StoreError> {
        let best = hits.first().map_or(0.0, |hit| hit.score);
        let is_close = |hit: &&Hit| !asked.need_labels() || hit.score >= CLOSE * best;
        let ids: Vec<i64> = hits
            .iter()
            .filter(is_close)
            .map(|hit| hit.owner.id)
            .collect();
        let chunks = self
            .inner
            .store
            .list_source_chunks(space, &ids, None)
            .await?;
        let asked = Arc::clone(asked);
        let scores: HashMap<i64, u32> = blocking(move || {
            let score = |chunk: &SourceChunk| asked.score(&chunk.text, &chunk.about());
            chunks
                .iter()
                .map(|chunk| (chunk.id, score(chunk)))
                .collect()
        })
        .await?;

        let score = |hit: &Hit| scores.get(&hit.owner.id).copied().unwrap_or_default();
        Ok(hits.iter().map(score).collect())
    }
}

/// What a search compares as a whole. The nearest meanings are what they are.
fn identifiers(ask: EntryQuery<'_>) -> Identifiers {
    if ask.owner_kind == OwnerKind::Chunk && ask.kind != Kind::Semantic {
        Identifiers::of(ask.text)
    } else {
        Identifiers::default()
    }
}
