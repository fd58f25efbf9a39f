//! Writes memories with their terms and vectors, in the caller's transaction.

use std::collections::HashMap;

use memoir_index::OwnerKind;
use memoir_index::terms::{Analyzer, ChunkTerms, TERMS_VERSION};
use memoir_index::vectors::to_bytes;

use super::messages::Appended;
use super::{Conversation, ConversationError};
use crate::base::ids::memory_group;
use crate::llm::Session;
use crate::model::call::CallContext;
use crate::model::memory::Memory;
use crate::store::{NewEmbedding, NewEntry, StoreError, Tx};

/// Vectors are counted once per this many writes; with a small limit, after each write.
const COUNTED_EVERY: i64 = 32;
const LARGE_LIMIT: usize = 1000;

/// The terms of memories, and their vectors if computing them costs nothing.
#[derive(Debug, Default)]
pub struct PreparedMemories {
    terms: Vec<ChunkTerms>,
    model: Option<String>,
    vectors: Vec<Vec<f32>>,
}

impl PreparedMemories {
    /// The terms and vectors of the messages that are new.
    pub(super) fn only(&self, appended: &[Appended]) -> Self {
        fn kept<T: Clone>(all: &[T], appended: &[Appended]) -> Vec<T> {
            let fresh = all.iter().zip(appended).filter(|(_, one)| !one.duplicate);
            fresh.map(|(value, _)| value.clone()).collect()
        }

        Self {
            terms: kept(&self.terms, appended),
            model: self.model.clone(),
            vectors: kept(&self.vectors, appended),
        }
    }
}

impl Conversation {
    /// Computes what a search needs, with no transaction open. Vectors of a remote model are left to
    /// the enrichment.
    pub(super) async fn prepare(
        &self,
        call: &CallContext,
        memories: &[Memory],
    ) -> Result<PreparedMemories, ConversationError> {
        let mut analyzer = Analyzer::default();
        let terms = memories
            .iter()
            .map(|memory| analyzer.chunk(&memory.searched_text()))
            .collect();
        let model = self.search.model_of(&call.space).await?;
        if !self.llm.embeds_here(&model) {
            return Ok(PreparedMemories {
                terms,
                ..PreparedMemories::default()
            });
        }

        let session = Session::of_caller(call.unpaid());
        let texts: Vec<&str> = memories
            .iter()
            .map(|memory| memory.content.as_str())
            .collect();
        Ok(PreparedMemories {
            vectors: self.llm.embed(&session, &model, &texts).await?,
            terms,
            model: Some(model),
        })
    }

    /// Prepares memories with vectors even if the model is remote.
    pub(super) async fn prepare_fully(
        &self,
        session: &Session,
        memories: &[Memory],
    ) -> Result<PreparedMemories, ConversationError> {
        let call = session.call();
        let mut prepared = self.prepare(call, memories).await?;
        if prepared.model.is_none() && !memories.is_empty() {
            let model = self.search.model_of(&call.space).await?;
            let texts: Vec<&str> = memories
                .iter()
                .map(|memory| memory.content.as_str())
                .collect();
            prepared.vectors = self.llm.embed(session, &model, &texts).await?;
            prepared.model = Some(model);
        }

        Ok(prepared)
    }

    /// Stores memories of one user and makes them searchable.
    pub(super) async fn write_memories(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        memories: &[Memory],
        prepared: &PreparedMemories,
    ) -> Result<(), StoreError> {
        let Some(first) = memories.first() else {
            return Ok(());
        };

        tx.settle_terms_version(&call.space, TERMS_VERSION, call.now)
            .await?;
        let seqs = tx.add_memories(&call.space, memories).await?;
        let seq_of = |memory: &Memory| seqs.get(memory.id.as_str()).copied();
        let numbers: Vec<i64> = memories.iter().filter_map(seq_of).collect();
        let group = memory_group(&first.user_id);
        let entries: Vec<NewEntry<'_>> = numbers
            .iter()
            .zip(&prepared.terms)
            .map(|(seq, terms)| new_entry(*seq, &group, terms))
            .collect();

        let entries = tx.add_entries_for_ids(&call.space, OwnerKind::Memory, &entries, call.now);
        let entries = entries.await?;
        if let Some(model) = &prepared.model {
            let vectors = (model.as_str(), prepared.vectors.as_slice());
            let placed = (numbers.as_slice(), &entries);
            self.write_vectors(tx, call, &first.user_id, placed, vectors)
                .await?;
        }

        tx.count_entry_write(&call.space, &group).await
    }

    /// Stores the vectors of memories with these numbers and entries, unless the space now has another
    /// model or they already have vectors.
    pub(super) async fn write_vectors(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        user_id: &str,
        (seqs, entries): (&[i64], &HashMap<i64, i64>),
        (model, vectors): (&str, &[Vec<f32>]),
    ) -> Result<(), StoreError> {
        if tx
            .settle_embedding_model(&call.space, model, call.now)
            .await?
            != model
        {
            return Ok(());
        }

        let bytes: Vec<Vec<u8>> = vectors.iter().map(|vector| to_bytes(vector)).collect();
        let rows: Vec<NewEmbedding<'_>> = seqs
            .iter()
            .zip(&bytes)
            .zip(vectors)
            .filter_map(|((seq, bytes), vector)| {
                Some(NewEmbedding {
                    entry_id: *entries.get(seq)?,
                    dim: i64::try_from(vector.len()).unwrap_or(0),
                    vector: bytes,
                })
            })
            .collect();

        tx.add_embeddings(&call.space, OwnerKind::Memory, model, &rows, call.now)
            .await?;
        self.evict_vectors(tx, call, (user_id, model), seqs).await
    }

    /// Removes the vectors of a user's least important memories, if there are too many. These
    /// memories get new entries without a vector, so that every in-memory index notices.
    async fn evict_vectors(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        (user_id, model): (&str, &str),
        written: &[i64],
    ) -> Result<(), StoreError> {
        // Counting takes time, so a few more than allowed may stay until the next count.
        let due = written.iter().any(|seq| seq % COUNTED_EVERY == 0);
        if !due && self.max_vectors >= LARGE_LIMIT {
            return Ok(());
        }

        let group = memory_group(user_id);
        let evicted = tx
            .list_least_important(&call.space, &group, model, self.max_vectors)
            .await?;
        if evicted.is_empty() {
            return Ok(());
        }

        let seqs: Vec<i64> = evicted.iter().map(|memory| memory.seq).collect();
        tx.remove_entries(&call.space, OwnerKind::Memory, &seqs)
            .await?;
        let mut analyzer = Analyzer::default();
        let terms: Vec<ChunkTerms> = evicted
            .iter()
            .map(|memory| analyzer.chunk(&memory.searched_text()))
            .collect();
        let entries: Vec<NewEntry<'_>> = seqs
            .iter()
            .zip(&terms)
            .map(|(seq, terms)| new_entry(*seq, &group, terms))
            .collect();
        tx.add_entries(&call.space, OwnerKind::Memory, &entries, call.now)
            .await
    }
}

fn new_entry<'e>(seq: i64, group: &'e str, terms: &'e ChunkTerms) -> NewEntry<'e> {
    NewEntry {
        owner_id: seq,
        group_id: group,
        version_id: 0,
        length: i64::from(terms.length),
        tokens: &terms.tokens,
    }
}
