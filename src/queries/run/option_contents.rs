//! Finds out what categories contain, for a model that selects by more than their names.

use super::QueryRun;
use crate::base::ids::Space;
use crate::queries::QueryError;
use crate::queries::candidates::LeafReader;
use crate::queries::contents::{Contents, Found};
use crate::search::rank::Kind;
use crate::store::Store;

/// Results of the search that tell where to walk.
const RESULTS: usize = 60;

impl QueryRun<'_> {
    /// What categories contain, if the embedded model selects and the hierarchy is the stored one:
    /// where a search finds the query, or, if it finds nothing or fails, samples.
    pub(super) async fn contents(&self) -> Result<Contents, QueryError> {
        let LeafReader::Stored { store, space, .. } = &self.leaf_reader else {
            return Ok(Contents::Nothing);
        };
        if !self.inner.llm.capabilities("select", self.session).samples {
            return Ok(Contents::Nothing);
        }

        // Without the search, the walk still has samples and names.
        let found = self
            .found_below(store, space)
            .await
            .inspect_err(|error| tracing::warn!(%error, "cannot search for categories to walk to"));
        match found {
            Ok(found) if !found.is_empty() => Ok(Contents::Found(found)),
            _ => Ok(Contents::Samples(self.inner.samples.of(space).await?)),
        }
    }

    async fn found_below(&self, store: &Store, space: &Space) -> Result<Found, QueryError> {
        // A named strategy makes no other calls than its own.
        let model = self.inner.search.model_of(space).await?;
        let kind = if self.inner.llm.embeds_here(&model) {
            Kind::Hybrid
        } else {
            Kind::Keyword
        };

        let found = self.search_by(space, kind, RESULTS).await?;
        let (chunks, _) = self.filed_chunks(store, space, &found, i64::MAX).await?;
        let mut leaves: Vec<i64> = chunks.iter().map(|chunk| chunk.leaf).collect();
        leaves.sort_unstable();
        leaves.dedup();
        leaves.retain(|leaf| *leaf != 0);

        let paths = store.find_category_paths(space, &leaves).await?;
        Ok(Found::new(&chunks, &paths))
    }
}
