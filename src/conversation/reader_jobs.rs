//! When messages are deleted: ends the jobs that work on them, and queues what those jobs had left to
//! do for other messages.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Conversation, enrichment, extraction};
use crate::base::ids::JobId;
use crate::jobs::JobsError;
use crate::model::call::CallContext;
use crate::model::erasure::RowCounts;
use crate::model::job::{Job, NewJob};
use crate::model::memory::{EnrichmentState, Memory};
use crate::store::{AsStoreError as _, StoreError, Tx};

/// How far the clocks of hosts may differ.
const CLOCKS_DIFFER: Duration = Duration::from_mins(1);
/// The kinds of jobs that read messages; their records quote them.
pub const READER_JOBS: [&str; 2] = [enrichment::KIND, extraction::KIND];

impl Conversation {
    /// Ends the unfinished jobs that worked on these deleted messages of one user, empties them, and queues new
    /// ones for their other messages. Returns those that it ended.
    ///
    /// # Errors
    /// The store's.
    pub async fn end_reader_jobs(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        gone: &[Memory],
    ) -> Result<(Vec<Job>, RowCounts), StoreError> {
        let mut counts = RowCounts::new();
        let enriching = self.end_enrichment(tx, call, gone, &mut counts);
        let mut ended = enriching.await?;
        let extracting = self.end_extraction(tx, call, gone, &mut counts);
        ended.extend(extracting.await?);
        Ok((ended, counts))
    }

    async fn end_enrichment(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        gone: &[Memory],
        counts: &mut RowCounts,
    ) -> Result<Vec<Job>, StoreError> {
        let mut ids = self.jobs_that_asked(tx, call, gone).await?;
        let named = gone
            .iter()
            .filter_map(|memory| memory.enrichment_job.clone());
        ids.extend(named.map(JobId::from_stored));
        let mut ended = Vec::new();
        for id in ids {
            let Some(job) = tx.find_job(&call.space, &id).await? else {
                continue;
            };

            if !job.state.is_final() {
                tx.cancel_job(&job, call.now).await?;
                let others = tx.count_pending_of(&call.space, &id).await?;
                let next = if others > 0 {
                    let new = enrichment::new_job(&job.user_id, self.jobs.max_attempts());
                    self.queue(tx, call, &new).await?
                } else {
                    None
                };
                tx.update_enrichment_job(&call.space, &id, next.as_ref(), call.now)
                    .await?;
                ended.push(job);
            }

            tx.erase_jobs(&call.space, &[id], counts).await?;
        }

        Ok(ended)
    }

    /// The unfinished jobs that may have asked a model about these messages, which were given to other
    /// jobs since. Whoever does that sets `updated_at`, so a job that started later asks about others.
    async fn jobs_that_asked(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        gone: &[Memory],
    ) -> Result<BTreeSet<JobId>, StoreError> {
        let read = gone
            .iter()
            .filter(|memory| memory.enrichment_state != EnrichmentState::Off);
        let Some(last) = read.max_by_key(|memory| memory.updated_at) else {
            return Ok(BTreeSet::new());
        };

        let before = last.updated_at.plus(CLOCKS_DIFFER);
        let found = tx.list_started_jobs(&call.space, enrichment::KIND, &last.user_id, before);
        Ok(found.await?.into_iter().collect())
    }

    async fn end_extraction(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        gone: &[Memory],
        counts: &mut RowCounts,
    ) -> Result<Vec<Job>, StoreError> {
        let Some(user_id) = gone.first().map(|memory| memory.user_id.clone()) else {
            return Ok(Vec::new());
        };

        let ids: BTreeSet<&str> = gone.iter().map(|memory| memory.id.as_str()).collect();
        let mut ended = Vec::new();
        for (job, messages) in tx
            .hold_unfinished_requests(&call.space, extraction::KIND, &user_id)
            .await?
        {
            let asked = messages["message_ids"].as_array().into_iter().flatten();
            let asked: Vec<&str> = asked.filter_map(serde_json::Value::as_str).collect();
            if !asked.iter().any(|id| ids.contains(id)) {
                continue;
            }

            let left = tx
                .list_unsaved(&call.space, &job.id, "extracted/", &asked)
                .await?;
            let left: Vec<&str> = left.into_iter().filter(|id| !ids.contains(id)).collect();
            tx.cancel_job(&job, call.now).await?;
            if !left.is_empty() {
                let new = extraction::new_job(&user_id, &left, self.jobs.max_attempts());
                self.queue(tx, call, &new).await?;
            }

            tx.erase_jobs(&call.space, std::slice::from_ref(&job.id), counts)
                .await?;
            ended.push(job);
        }

        Ok(ended)
    }

    /// Queues a job; none if the queue is full: then the next job of the thread does its work.
    async fn queue(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        new: &NewJob,
    ) -> Result<Option<JobId>, StoreError> {
        match self.jobs.enqueue(tx, call, new).await {
            Ok(job) => Ok(Some(job.id)),
            Err(JobsError::QueueFull { .. }) => Ok(None),
            Err(error) => {
                Err(error
                    .as_store_error()
                    .cloned()
                    .unwrap_or_else(|| StoreError::Broken {
                        cause: error.to_string(),
                    }))
            }
        }
    }
}
