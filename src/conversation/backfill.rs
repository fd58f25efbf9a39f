//! The job that adds an approved term to the memories whose classification suggested it.

use futures_util::future::{BoxFuture, FutureExt as _};
use memoir_text::catch_all::is_catch_all;
use serde_json::json;

use super::Conversation;
use super::correcting::MAX_TOPICS;
use crate::jobs::{JobContext, JobError, Outcome, Work};
use crate::model::job::Record;
use crate::model::memory::Memory;
use crate::model::vocabulary::SuggestionKind;

/// The name of this kind of job.
pub const KIND: &str = "backfill";
/// Memories changed in one transaction.
const PART: usize = 200;

/// Runs the job.
#[derive(Clone)]
pub struct BackfillWork {
    pub conversation: Conversation,
}

impl Work for BackfillWork {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn run(&self, context: JobContext) -> BoxFuture<'static, Result<Outcome, JobError>> {
        let conversation = self.conversation.clone();
        async move { conversation.backfill(&context).await }.boxed()
    }
}

impl Conversation {
    async fn backfill(&self, context: &JobContext) -> Result<Outcome, JobError> {
        let request = context.take_request();
        let term = request["suggestion"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let kind = if request["kind"] == "category" {
            SuggestionKind::Category
        } else {
            SuggestionKind::Topic
        };

        let now = context.clock().now();
        let mut done = 0_usize;
        loop {
            let changed = self.store.retry("backfill", || async {
                let mut tx = self.store.begin().await?;
                let held = tx
                    .hold_suggesting(context.space(), kind, &term, PART)
                    .await?;
                for memory in &held {
                    let mut memory = memory.clone();
                    give(&mut memory, kind, &term);
                    memory.updated_at = now;
                    tx.update_memory(context.space(), &memory, true).await?;
                }

                let last = held.last().map_or(0, |memory| memory.seq);
                let step = Record::step(format!("given/{last}"), json!(held.len()));
                let ours = context.record_in(&mut tx, step).await?;
                if ours {
                    tx.commit().await?;
                }

                Ok((ours, held.len()))
            });

            let (ours, count) = changed.await?;
            if !ours {
                return Err(JobError::LeaseLost);
            }

            done += count;
            context.report("backfilling", json!({"memories": done}));
            if count < PART {
                break;
            }
        }

        Ok(Outcome::Done(json!({"memories": done})))
    }
}

/// Adds the term. A memory has at most three topics: a fourth one replaces the catch-all topic, or
/// else the last.
fn give(memory: &mut Memory, kind: SuggestionKind, term: &str) {
    memory.confidence = Some("high".to_owned());
    if kind == SuggestionKind::Category {
        memory.category = Some(term.to_owned());
        return;
    }

    let topics = &mut memory.labels.topics;
    if topics.iter().any(|topic| topic == term) {
        return;
    }

    if topics.len() >= MAX_TOPICS {
        let place = topics.iter().position(|topic| is_catch_all(topic));
        topics.remove(place.unwrap_or(topics.len() - 1));
    }

    topics.push(term.to_owned());
}
