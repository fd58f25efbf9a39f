//! The job that has stored messages classified again, after another preset became the vocabulary: it
//! gives them to jobs that classify, one for each user and part. Until a message has its new terms,
//! it keeps the old ones; what a user corrected stays.

use std::collections::BTreeMap;

use futures_util::future::{BoxFuture, FutureExt as _};
use serde_json::json;

use super::{Conversation, ConversationError, enrichment, job_error};
use crate::jobs::{JobContext, JobError, Outcome, Work};
use crate::model::job::{Lane, NewJob, Record};

/// The name of this kind of job.
pub const KIND: &str = "reclassify";
/// Messages given to other jobs in one transaction.
const PART: usize = 1000;

/// Runs the job.
#[derive(Clone)]
pub struct ReclassifyWork {
    pub conversation: Conversation,
}

impl Work for ReclassifyWork {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn run(&self, context: JobContext) -> BoxFuture<'static, Result<Outcome, JobError>> {
        let conversation = self.conversation.clone();
        async move { conversation.reclassify(&context).await }.boxed()
    }
}

/// The job for what was not classified with the current vocabulary.
pub fn new_job(max_attempts: i64) -> NewJob {
    NewJob {
        group_size: 1,
        kind: KIND,
        lane: Lane::Background,
        user_id: String::new(),
        source_id: None,
        request: json!({}).to_string(),
        max_attempts,
    }
}

impl Conversation {
    async fn reclassify(&self, context: &JobContext) -> Result<Outcome, JobError> {
        let mut done = 0_usize;
        // Those that a job is asking about go first: what this job sets waiting is not seen again.
        for in_work in [true, false] {
            let mut after = 0;
            while let Some((last, count)) = self.reclassify_part(context, (in_work, after)).await? {
                after = last;
                done += count;
                self.announce();
                context.report("reclassifying", json!({"memories": done}));
            }
        }

        Ok(Outcome::Done(json!({"memories": done})))
    }

    /// Sets the next messages waiting; the number of the last one and how many there were; `None` if
    /// no more are left.
    async fn reclassify_part(
        &self,
        context: &JobContext,
        (in_work, after): (bool, i64),
    ) -> Result<Option<(i64, usize)>, JobError> {
        let call = context.call_now();
        let space = context.space();
        let version = self.vocabulary(&call).await?.version;
        let part = self.store.retry_as("reclassify", || async {
            let mut tx = self.store.begin().await?;
            let held = tx
                .hold_classified_before(space, &version, (in_work, after), PART)
                .await?;
            let Some(last) = held.last().map(|one| one.seq) else {
                return Ok(Some(None));
            };

            let mut by_user: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
            for one in &held {
                by_user.entry(&one.user_id).or_default().push(&one.id);
            }

            for (user_id, ids) in by_user {
                let new = enrichment::new_job(user_id, self.jobs.max_attempts());
                let job = self.jobs.enqueue_for(&mut tx, &call, &new).await?;
                tx.set_pending(space, &ids, &job.id, call.now).await?;
            }

            let step = Record::step(format!("{in_work}/{last}"), json!(held.len()));
            if !context.record_in(&mut tx, step).await? {
                return Ok(None);
            }

            tx.commit().await?;
            Ok::<_, ConversationError>(Some(Some((last, held.len()))))
        });

        part.await.map_err(job_error)?.ok_or(JobError::LeaseLost)
    }
}
