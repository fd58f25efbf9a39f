//! Switches a space to another embedding model: every text gets a vector of the new model, then
//! searches switch to it, then the previous vectors are deleted. Until then, searches and new texts
//! use the previous model. Safe to run again from any point: existing vectors stay.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt as _};
use memoir_index::OwnerKind;
use memoir_index::vectors::to_bytes;
use serde_json::{Value, json};

use super::Search;
use crate::base::clock::Timestamp;
use crate::base::ids::Space;
use crate::jobs::{JobContext, JobError, Jobs, JobsError, Outcome, Work};
use crate::model::call::CallContext;
use crate::model::job::{JobFilter, Lane, NewJob, Record};
use crate::model::search::Unembedded;
use crate::store::{JobPage, NewEmbedding};

/// The name of this kind of job.
pub const KIND: &str = "reembed";
/// Texts embedded and written together.
const PART: usize = 256;
/// What has vectors.
const KINDS: [OwnerKind; 2] = [OwnerKind::Chunk, OwnerKind::Memory];

/// Runs the job.
#[derive(Clone)]
pub struct ReembedWork {
    pub search: Search,
}

impl Work for ReembedWork {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn run(&self, context: JobContext) -> BoxFuture<'static, Result<Outcome, JobError>> {
        let search = self.search.clone();
        async move { search.reembed(&context).await }.boxed()
    }
}

impl Search {
    /// Queues a job for every space whose embedding model differs from the settings.
    ///
    /// # Errors
    /// The queue's.
    pub async fn queue_reembedding(&self, jobs: &Jobs, now: Timestamp) -> Result<(), JobsError> {
        let inner = &*self.inner;
        for (space, old) in inner
            .store
            .list_other_embedding_models(&inner.settings.model)
            .await?
        {
            let request = json!({"from": old, "to": inner.settings.model});
            self.queue_once(jobs, &space, KIND, &request, now).await?;
        }

        Ok(())
    }

    /// Queues a job that changes a whole space, unless one of this kind is queued or runs there.
    pub(super) async fn queue_once(
        &self,
        jobs: &Jobs,
        space: &str,
        kind: &'static str,
        request: &Value,
        now: Timestamp,
    ) -> Result<(), JobsError> {
        let Ok(space) = space.parse::<Space>() else {
            return Ok(());
        };
        let call = CallContext::new(space, now);
        let filter = JobFilter {
            kind: Some(kind.to_owned()),
            ..JobFilter::default()
        };
        let page = JobPage {
            before: None,
            limit: 20,
        };

        let known = jobs.list(&call, &filter, &page).await?;
        if known.iter().any(|job| !job.state.is_final()) {
            return Ok(());
        }

        let new = NewJob {
            kind,
            lane: Lane::Background,
            user_id: String::new(),
            source_id: None,
            request: request.to_string(),
            max_attempts: jobs.max_attempts(),
            group_size: 1,
        };

        let mut tx = self.inner.store.begin().await?;
        jobs.enqueue(&mut tx, &call, &new).await?;
        tx.commit().await?;
        jobs.announce();

        tracing::info!(kind, "queued a job that changes a space");
        Ok(())
    }

    async fn reembed(&self, context: &JobContext) -> Result<Outcome, JobError> {
        let (inner, space) = (&*self.inner, context.space());
        // The model as queued: another process may have other settings by now.
        let request = context.take_request();
        let new = request["to"].as_str().unwrap_or(&inner.settings.model);
        let session = inner
            .llm
            .job_session(context.call_now(), context.id(), context.is_first_run())
            .await?;
        let (mut done, mut memories) = (0, 0);

        while let Some(old) = inner
            .store
            .find_embedding_model(space)
            .await?
            .filter(|old| old != new)
        {
            let Some((kind, texts)) = self.next_part(space, &old, new).await? else {
                self.turn(context, &old, new).await?;
                continue;
            };

            let each: Vec<&str> = texts.iter().map(|one| one.text.as_str()).collect();
            let vectors = inner.llm.embed(&session, new, &each).await?;
            self.keep(context, (kind, new), &texts, &vectors).await?;
            context.note_progress();
            if kind == OwnerKind::Chunk {
                done += texts.len();
            } else {
                memories += texts.len();
            }

            context.report(
                "embedding",
                json!({"chunks": done, "memories": memories, "model": new}),
            );
        }

        while inner.store.remove_other_embeddings(space).await? > 0 {}
        let spent = session.spent();
        Ok(Outcome::Done(json!({
            "model": new, "chunks": done, "memories": memories, "llm_calls": spent.calls, "tokens": spent.tokens, "cost_usd": spent.usd,
        })))
    }

    /// The next texts without a vector of the new model: chunks first, then memories.
    async fn next_part(
        &self,
        space: &Space,
        old: &str,
        new: &str,
    ) -> Result<Option<(OwnerKind, Vec<Unembedded>)>, JobError> {
        for kind in KINDS {
            let store = &self.inner.store;
            let texts = store.list_unembedded(space, kind, old, new, PART).await?;
            if !texts.is_empty() {
                return Ok(Some((kind, texts)));
            }
        }

        Ok(None)
    }

    /// Writes vectors of texts that still exist.
    async fn keep(
        &self,
        context: &JobContext,
        (kind, model): (OwnerKind, &str),
        entries: &[Unembedded],
        vectors: &[Vec<f32>],
    ) -> Result<(), JobError> {
        let (inner, space) = (&*self.inner, context.space());
        let bytes: Vec<Vec<u8>> = vectors.iter().map(|vector| to_bytes(vector)).collect();
        let kept = inner.store.retry("keep_vectors", || async {
            let mut tx = inner.store.begin().await?;
            // Locked, so that no entry is deleted between the check and the write.
            let ids: Vec<i64> = entries.iter().map(|entry| entry.entry_id).collect();
            let there = tx.hold_entries(space, kind, &ids).await?;
            let new: Vec<NewEmbedding<'_>> = entries
                .iter()
                .zip(vectors.iter().zip(&bytes))
                .filter(|(entry, _)| there.contains(&entry.entry_id))
                .map(|(entry, (vector, bytes))| NewEmbedding {
                    entry_id: entry.entry_id,
                    dim: i64::try_from(vector.len()).unwrap_or(0),
                    vector: bytes,
                })
                .collect();

            tx.add_embeddings(space, kind, model, &new, context.clock().now())
                .await?;

            // A step, so that a process that takes over the job knows that it made progress.
            let last = ids.last().copied().unwrap_or_default();
            let ours = context
                .record_in(
                    &mut tx,
                    Record::step(format!("kept/{last}"), json!(ids.len())),
                )
                .await?;

            if ours {
                tx.commit().await?;
            }

            Ok(ours)
        });

        if kept.await? {
            Ok(())
        } else {
            Err(JobError::LeaseLost)
        }
    }

    /// Switches searches to the new model, unless there are texts without its vectors.
    async fn turn(&self, context: &JobContext, old: &str, new: &str) -> Result<(), JobError> {
        let (inner, space) = (&*self.inner, context.space());
        let turned = inner.store.retry("turn_space", || async {
            let mut tx = inner.store.begin().await?;
            tx.lock_chunks(space).await?;
            let now = context.clock().now();
            let unchanged = tx.lock_embedding_model(space).await?.as_deref() == Some(old);
            let mut left = false;
            for kind in KINDS {
                left |= tx.has_unembedded(space, kind, old, new).await?;
            }

            if unchanged && !left {
                tx.update_embedding_model(space, new, now).await?;
                tx.count_all_entry_writes(space).await?;
            }

            tx.commit().await
        });

        Ok(turned.await?)
    }

    /// The job that switches spaces to another model.
    pub fn work(&self) -> Arc<ReembedWork> {
        Arc::new(ReembedWork {
            search: self.clone(),
        })
    }
}
