//! What an ingestion writes to make its chunks searchable: their terms and vectors.

use std::ops::Range;
use std::sync::Arc;

use memoir_index::OwnerKind;
use memoir_index::terms::{Analyzer, ChunkTerms};
use memoir_index::vectors::to_bytes;

use super::cache::blocking;
use super::{Search, SearchError};
use crate::base::ids::{SourceId, Space};
use crate::llm::Session;
use crate::model::call::CallContext;
use crate::store::{NewEmbedding, NewEntry, StoreError, Tx};

/// The terms and vectors of a source's chunks, in order.
#[derive(Debug, Default)]
pub struct Prepared {
    terms: Vec<ChunkTerms>,
    /// The model of the vectors.
    model: Option<String>,
    /// Their length, and their bytes as stored.
    vectors: Vec<(i64, Vec<u8>)>,
}

impl Prepared {
    /// With vectors of a model.
    #[must_use]
    pub fn with_vectors(self, model: &str, vectors: &[Vec<f32>]) -> Self {
        let vectors = vectors
            .iter()
            .map(|vector| (i64::try_from(vector.len()).unwrap_or(0), to_bytes(vector)));
        Self {
            model: Some(model.to_owned()),
            vectors: vectors.collect(),
            ..self
        }
    }

    /// The tokens of the only chunk, if there is just one.
    pub fn tokens_of_only(&self) -> Option<&str> {
        match &self.terms[..] {
            [only] => Some(&only.tokens),
            _ => None,
        }
    }

    /// The model of the vectors.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Writes them for the existing chunks of a version. `false`: the space has switched to another
    /// model, so drop the transaction. The caller holds the space's lock.
    pub async fn write(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        chunks: (&SourceId, i64, &str),
    ) -> Result<bool, StoreError> {
        self.write_part(tx, call, chunks, 0..self.terms.len()).await
    }

    /// Writes the terms and vectors of some chunks, in the transaction that writes these chunks: a
    /// loaded index reads only chunks after those it knows.
    pub async fn write_part(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        chunks: (&SourceId, i64, &str),
        range: Range<usize>,
    ) -> Result<bool, StoreError> {
        let (source_id, version_id, profile) = chunks;
        let [first, end] =
            [range.start, range.end].map(|place| i64::try_from(place).unwrap_or(i64::MAX - 1) + 1);
        let ids = tx
            .list_chunk_ids(&call.space, version_id, profile, &(first..end))
            .await?;
        let entries: Vec<NewEntry<'_>> = ids
            .values()
            .zip(self.terms.iter().skip(range.start))
            .map(|(id, terms)| NewEntry {
                owner_id: *id,
                group_id: source_id.as_str(),
                version_id,
                length: i64::from(terms.length),
                tokens: &terms.tokens,
            })
            .collect();

        let entry_ids = tx
            .add_entries_for_ids(&call.space, OwnerKind::Chunk, &entries, call.now)
            .await?;
        let Some(model) = &self.model else {
            return Ok(true);
        };
        if tx
            .settle_embedding_model(&call.space, model, call.now)
            .await?
            != *model
        {
            return Ok(false);
        }

        let chunk_ids: Vec<i64> = ids.into_values().collect();
        let vectors: Vec<NewEmbedding<'_>> = chunk_ids
            .iter()
            .zip(self.vectors.iter().skip(range.start))
            .filter_map(|(chunk_id, (dim, vector))| {
                let entry_id = *entry_ids.get(chunk_id)?;
                Some(NewEmbedding {
                    entry_id,
                    dim: *dim,
                    vector,
                })
            })
            .collect();

        tx.add_embeddings(&call.space, OwnerKind::Chunk, model, &vectors, call.now)
            .await?;
        Ok(true)
    }
}

impl Search {
    /// The embedding model of a space, now or from its first vector on.
    ///
    /// # Errors
    /// The store's.
    pub async fn model_of(&self, space: &Space) -> Result<String, StoreError> {
        let known = self.inner.store.find_embedding_model(space).await?;
        Ok(known.unwrap_or_else(|| self.inner.settings.model.clone()))
    }

    /// The terms of chunks, with those of the headings above each.
    ///
    /// # Errors
    /// The store's, for a bug in memoir.
    pub async fn prepare(
        &self,
        texts: Vec<Arc<str>>,
        headings: Vec<Option<String>>,
    ) -> Result<Prepared, StoreError> {
        let take_apart = move || {
            let mut analyzer = Analyzer::default();
            let above = headings.iter().map(Option::as_deref);
            let above = above.chain(std::iter::repeat(None));
            let texts = texts.iter().zip(above);
            texts
                .map(|(text, heading)| analyzer.chunk_under(text, heading.unwrap_or_default()))
                .collect()
        };

        let terms = blocking(take_apart).await?;
        Ok(Prepared {
            terms,
            ..Prepared::default()
        })
    }

    /// The vectors of chunks.
    ///
    /// # Errors
    /// The model's.
    pub async fn embed(
        &self,
        session: &Session,
        model: &str,
        texts: &[Arc<str>],
    ) -> Result<Vec<Vec<f32>>, SearchError> {
        let texts: Vec<&str> = texts.iter().map(|text| &**text).collect();
        Ok(self.inner.llm.embed(session, model, &texts).await?)
    }
}
