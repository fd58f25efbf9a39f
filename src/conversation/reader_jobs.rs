//! When messages are deleted: ends the jobs that work on them, and queues what those jobs had left to
//! do for other messages.

use std::collections::BTreeSet;

use super::{Conversation, enrichment, extraction};
use crate::base::ids::JobId;
use crate::jobs::JobsError;
use crate::model::call::CallContext;
use crate::model::erasure::RowCounts;
use crate::model::job::{Job, NewJob};
use crate::model::memory::Memory;
use crate::store::{AsStoreError as _, StoreError, Tx};

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
        let ids: BTreeSet<&String> = gone
            .iter()
            .filter_map(|memory| memory.enrichment_job.as_ref())
            .collect();
        let mut ended = Vec::new();
        for id in ids {
            let id = JobId::from_stored(id.clone());
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
                tx.update_enrichment_job(&call.space, &id, next.as_ref())
                    .await?;
                ended.push(job);
            }

            tx.erase_jobs(&call.space, &[id], counts).await?;
        }

        Ok(ended)
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
