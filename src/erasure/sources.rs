//! Erases a source: its versions, chunks, words and vectors, the jobs about it, and the categories
//! that it leaves empty. The row of a new source is written with its first text; until then, only
//! jobs know the source and hold its text.

use std::collections::BTreeSet;

use super::names::Names;
use super::{Erased, ErasureError, ErasureOrder, Erasures, Running};
use crate::base::ids::{JobId, SourceId};
use crate::model::call::CallContext;
use crate::model::erasure::{RowCounts, SubjectKind};
use crate::model::job::Job;
use crate::model::source::Source;
use crate::store::{StoreError, Tx};

impl Erasures {
    /// Erases a source, or the jobs of one that is not stored, if `unchanged` accepts its current
    /// state.
    ///
    /// # Errors
    /// [`ErasureError::NotFound`], [`ErasureError::Changed`], or the store's.
    pub async fn source(
        &self,
        order: &ErasureOrder,
        id: &str,
        unchanged: impl Fn(Option<&Source>) -> bool,
    ) -> Result<Erased, ErasureError> {
        let parsed: SourceId = id
            .parse()
            .map_err(|_| ErasureError::not_found("source", id))?;
        let names = self.names_of(&order.call, &parsed).await?;
        let begun = self
            .store
            .retry_as("erase_source", || async {
                let mut tx = self.store.begin().await?;
                let found = tx.find_source(&order.call.space, &parsed).await?;
                if found.is_some() && !unchanged(found.as_ref()) {
                    return Err(ErasureError::Changed("source"));
                }

                let mut running = order.begin(SubjectKind::Source, parsed.as_str());
                let cancelled = if let Some(source) = &found {
                    running.pending().since = source.created_at.as_micros();
                    self.remove_source(&mut tx, source, &names, &mut running)
                        .await?
                } else {
                    let part = self.remove_unstored(&mut tx, &parsed, &mut running);
                    let Some(cancelled) = part.await? else {
                        return Ok(None);
                    };
                    if !unchanged(None) {
                        return Err(ErasureError::Changed("source"));
                    }
                    cancelled
                };
                tx.add_erasure(&running.erasure).await?;
                tx.commit().await?;
                Ok(Some((running, cancelled)))
            })
            .await?;

        let Some((mut running, cancelled)) = begun else {
            return self
                .go_on(order, SubjectKind::Source, parsed.as_str())
                .await;
        };
        self.jobs.announce_cancelled(&cancelled);
        running.jobs_cancelled += cancelled.len();
        self.complete(running).await
    }

    /// Deletes a source that the transaction has locked; returns the jobs that it ended. What is left
    /// to do is added to what is pending.
    pub(super) async fn remove_source(
        &self,
        tx: &mut Tx,
        source: &Source,
        names: &Names,
        running: &mut Running,
    ) -> Result<Vec<Job>, StoreError> {
        let (call, id) = (running.call.clone(), &source.id);
        let space = &call.space;
        tx.lock_chunks(space).await?;
        self.discount_chunks(tx, &call, id).await?;
        let mut counts = tx.count_source_rows(space, id).await?;
        let leaves = tx.list_source_leaves(space, id).await?;
        let chunks = tx.list_chunk_ids_of(space, id).await?;

        let (cancelled, _) = self.erase_jobs_about(tx, id, running).await?;
        tx.remove_source(space, id).await?;
        tx.add_search_change(space, id.as_str()).await?;
        let removed = tx
            .remove_empty_categories(space, &leaves, &mut counts)
            .await?;

        running.add(&counts);
        let pending = running.pending();
        if source.created_at < names.uses_since {
            pending.chunks.extend(chunks);
        }

        names.add_to(pending, &removed);
        Ok(cancelled)
    }

    /// Erases a source that only jobs know; returns those that it ended, or `None` if no job knows it.
    async fn remove_unstored(
        &self,
        tx: &mut Tx,
        id: &SourceId,
        running: &mut Running,
    ) -> Result<Option<Vec<Job>>, StoreError> {
        let (cancelled, jobs) = self.erase_jobs_about(tx, id, running).await?;
        if jobs.is_empty() {
            return Ok(None);
        }

        // A job that ended just before may have stored it. Not locked here: a job that is storing it
        // holds its row and waits for its own, which this transaction holds.
        let stored = BTreeSet::from([id.to_string()]);
        if tx
            .has_texts(&running.call.space, &stored, &BTreeSet::new())
            .await?
        {
            return Err(StoreError::Contended {
                cause: "the source was stored meanwhile".to_owned(),
            });
        }

        Ok(Some(cancelled))
    }

    /// Cancels the jobs that would create a source again, and empties all that were about it; returns
    /// those that it cancelled, and all.
    async fn erase_jobs_about(
        &self,
        tx: &mut Tx,
        id: &SourceId,
        running: &mut Running,
    ) -> Result<(Vec<Job>, Vec<JobId>), StoreError> {
        let space = running.call.space.clone();
        let mut counts = RowCounts::new();
        let cancelled = self.jobs.cancel_about(tx, &running.call, id).await?;
        let jobs = tx.list_jobs_about(&space, id).await?;
        tx.clear_shared_calls(&space, &jobs, &mut counts).await?;
        tx.erase_jobs(&space, &jobs, &mut counts).await?;
        running.add(&counts);
        let pending = running.pending();
        pending.used.push(id.to_string());
        pending.used.extend(jobs.iter().map(ToString::to_string));
        Ok((cancelled, jobs))
    }

    /// Subtracts the chunks of a source from the counts of their categories.
    async fn discount_chunks(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        id: &SourceId,
    ) -> Result<(), StoreError> {
        let Some(content) = tx.find_current_content(&call.space, id).await? else {
            return Ok(());
        };

        let counts = tx.count_version_chunks(&call.space, content).await?;
        let gone = counts
            .into_iter()
            .map(|(category, count)| (category, -count))
            .collect();
        tx.add_chunk_counts(&call.space, &gone).await.map(|_| ())
    }
}
