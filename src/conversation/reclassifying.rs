//! The job that has stored messages classified again, after another preset became the vocabulary: it
//! gives them to jobs that classify, user by user and one job for each. Until a message has its new
//! terms, it keeps the old ones; what a user corrected stays.

use futures_util::future::{BoxFuture, FutureExt as _};
use serde_json::json;

use super::{Conversation, ConversationError, enrichment, job_error};
use crate::base::ids::JobId;
use crate::jobs::{JobContext, JobError, JobsError, Outcome, Work};
use crate::model::call::CallContext;
use crate::model::job::{Job, JobFilter, JobState, Lane, NewJob, Record};
use crate::store::Tx;

/// The name of this kind of job.
pub const KIND: &str = "reclassify";
/// Messages given to other jobs in one transaction.
const PART: usize = 1000;
/// Jobs that may be asking when the vocabulary changes: more than run at once.
const MAX_ASKING: usize = 10_000;

/// The step after which no job asks with the old terms.
const MOVED: &str = "moved";
/// The step of messages given to jobs, with their number.
const GIVEN: &str = "given/";

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

/// The last user to whom a part of the messages belonged, and the job that got them.
struct Given {
    user_id: String,
    job: JobId,
    /// Messages of the whole part.
    memories: u64,
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
        if context.saved(MOVED).is_none() {
            self.move_asked(context).await?;
        }

        let before = context.read_saved(|step, value| step.strip_prefix(GIVEN).and(value.as_u64()));
        let mut done: u64 = before.into_iter().sum();
        let mut last: Option<Given> = None;
        while let Some(given) = self.give_part(context, last.as_ref()).await? {
            done += given.memories;
            self.announce();
            context.note_progress();
            context.report("reclassifying", json!({"memories": done}));
            last = Some(given);
        }

        Ok(Outcome::Done(json!({"memories": done})))
    }

    /// Moves what jobs may be asking about with the old terms to new jobs: a job stores no answers
    /// about messages that are no longer its own.
    async fn move_asked(&self, context: &JobContext) -> Result<(), JobError> {
        let asking = JobFilter {
            kind: Some(enrichment::KIND.to_owned()),
            ..JobFilter::default()
        };
        let running = self.store.list_matching_jobs(
            context.space(),
            JobState::Running,
            &asking,
            false,
            MAX_ASKING,
        );
        for id in running.await? {
            if let Some(job) = self.store.find_job(context.space(), &id).await? {
                self.move_all_of(context, &job).await?;
            }
        }

        self.announce();
        context.save(MOVED, json!(true)).await
    }

    async fn move_all_of(&self, context: &JobContext, job: &Job) -> Result<(), JobError> {
        let call = context.call_now();
        let moved = self.store.retry_as("reclassify", || async {
            let mut tx = self.store.begin().await?;
            let count = tx.count_pending_of(&call.space, &job.id).await?;
            if count == 0 {
                return Ok(true);
            }

            let new = enrichment::new_job(&job.user_id, self.jobs.max_attempts());
            let next = self.jobs.enqueue_for(&mut tx, &call, &new).await?;
            tx.update_enrichment_job(&call.space, &job.id, Some(&next.id), call.now)
                .await?;
            let step = Record::step(format!("{MOVED}/{}", job.id), json!(count));
            let ours = context.record_in(&mut tx, step).await?;
            if ours {
                tx.commit().await?;
            }

            Ok::<_, ConversationError>(ours)
        });

        if moved.await.map_err(job_error)? {
            Ok(())
        } else {
            Err(JobError::LeaseLost)
        }
    }

    /// Gives the next messages to jobs; `None` if no more are left.
    async fn give_part(
        &self,
        context: &JobContext,
        last: Option<&Given>,
    ) -> Result<Option<Given>, JobError> {
        let call = context.call_now();
        let version = self.vocabulary(&call).await?.version;
        let from = last.map_or("", |given| &given.user_id);
        let listed = self
            .store
            .list_classified_before(&call.space, &version, from, PART)
            .await?;
        if listed.is_empty() {
            return Ok(None);
        }

        let given = self.store.retry_as("reclassify", || async {
            let mut tx = self.store.begin().await?;
            let jobs = self.jobs_for(&mut tx, &call, &listed, last).await?;
            let Some((user_id, job)) = jobs.last().cloned() else {
                return Ok(None);
            };
            // The queue may have no room for jobs of the other users.
            let end = listed.iter().rposition(|(_, user)| *user == user_id);
            let some = &listed[..=end.unwrap_or(0)];
            let ids: Vec<String> = some.iter().map(|(id, _)| id.clone()).collect();
            let memories = tx
                .set_pending(&call.space, &version, &ids, &jobs, call.now)
                .await?;
            let step = format!("{GIVEN}{}", ids.last().map_or("", String::as_str));
            let ours = context
                .record_in(&mut tx, Record::step(step, json!(memories)))
                .await?;
            if !ours {
                return Ok(None);
            }

            tx.commit().await?;
            Ok::<_, ConversationError>(Some(Given {
                user_id,
                job,
                memories,
            }))
        });

        let given = given.await.map_err(job_error)?;
        given.map(Some).ok_or(JobError::LeaseLost)
    }

    /// A job for each user of these messages, or for as many of the first ones as fit into the queue.
    /// Only a job that still waits in the queue gets further messages: a running one may have asked
    /// for the last time what is left for it.
    async fn jobs_for(
        &self,
        tx: &mut Tx,
        call: &CallContext,
        listed: &[(String, String)],
        last: Option<&Given>,
    ) -> Result<Vec<(String, JobId)>, JobsError> {
        let mut users: Vec<&str> = listed.iter().map(|(_, user_id)| user_id.as_str()).collect();
        users.dedup();
        let mut jobs = Vec::with_capacity(users.len());
        if let Some(last) = last.filter(|last| users.first() == Some(&last.user_id.as_str()))
            && let Some(job) = tx.find_job(&call.space, &last.job).await?
            && job.state == JobState::Queued
        {
            users.remove(0);
            jobs.push((job.user_id, job.id));
        }

        let mut new: Vec<NewJob> = users
            .into_iter()
            .map(|user_id| enrichment::new_job(user_id, self.jobs.max_attempts()))
            .collect();
        while !new.is_empty() {
            match self.jobs.enqueue_in_half(tx, call, &new).await {
                Err(JobsError::QueueFull { .. }) if jobs.len() + new.len() > 1 => {
                    new.truncate(new.len() / 2);
                }
                queued => {
                    jobs.extend(queued?.into_iter().map(|job| (job.user_id, job.id)));
                    break;
                }
            }
        }

        Ok(jobs)
    }
}
