//! Erases a source: its versions, chunks, words and vectors, the jobs about it, and the categories
//! that it leaves empty.

use super::names::Names;
use super::{Erased, ErasureError, ErasureOrder, Erasures, Running};
use crate::base::ids::SourceId;
use crate::model::call::CallContext;
use crate::model::erasure::SubjectKind;
use crate::model::job::Job;
use crate::model::source::Source;
use crate::store::{StoreError, Tx};

impl Erasures {
    /// Erases a source, if `unchanged` accepts its current state.
    ///
    /// # Errors
    /// [`ErasureError::NotFound`], [`ErasureError::Changed`], or the store's.
    pub async fn source(
        &self,
        order: &ErasureOrder,
        id: &str,
        unchanged: impl Fn(&Source) -> bool,
    ) -> Result<Erased, ErasureError> {
        let parsed: SourceId = id
            .parse()
            .map_err(|_| ErasureError::not_found("source", id))?;
        let names = self.names_of(&order.call, &parsed).await?;
        let begun = self
            .store
            .retry_as("erase_source", || async {
                let mut tx = self.store.begin().await?;
                let Some(source) = tx.find_source(&order.call.space, &parsed).await? else {
                    return Ok(None);
                };

                if !unchanged(&source) {
                    return Err(ErasureError::Changed("source"));
                }

                let mut running = order.begin(SubjectKind::Source, source.id.as_str());
                running.pending().since = source.created_at.as_micros();
                let cancelled = self
                    .remove_source(&mut tx, &source, &names, &mut running)
                    .await?;
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

        // Jobs that would create it again are cancelled; all are emptied.
        let cancelled = self.jobs.cancel_about(tx, &call, id).await?;
        let jobs = tx.list_jobs_about(space, id).await?;
        tx.clear_shared_calls(space, &jobs, &mut counts).await?;
        tx.erase_jobs(space, &jobs, &mut counts).await?;
        tx.remove_source(space, id).await?;
        tx.add_search_change(space, id.as_str()).await?;
        let removed = tx
            .remove_empty_categories(space, &leaves, &mut counts)
            .await?;

        running.add(&counts);
        let pending = running.pending();
        pending.used.push(id.to_string());
        pending.used.extend(jobs.iter().map(ToString::to_string));
        if source.created_at < names.uses_since {
            pending.chunks.extend(chunks);
        }

        names.add_to(pending, &removed);
        Ok(cancelled)
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
