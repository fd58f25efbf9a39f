//! Has a model classify the chunks of a batch, and saves its answers before they are used.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Call, Filing, layer_name, shortlist, write_layer};
use crate::categories::tree::Tree;
use crate::ingestion::saver::Saved;
use crate::jobs::JobError;
use crate::llm::tasks::classify::{ClassifiedChunk, Classify};
use crate::llm::tasks::free_names;
use crate::llm::{Hint, LlmError};
use crate::model::batch::Batch;

/// What a model said about chunks.
struct Classified {
    chunks: Vec<ClassifiedChunk>,
    /// Whether there was a call.
    was_sent: bool,
    retries: usize,
    latency_ms: f64,
    /// The job that the call is recorded with, if it is another one.
    paid_by: Option<String>,
    /// Why chunks have no answer.
    error: Option<LlmError>,
}

impl Filing<'_> {
    /// Classifies chunks with a model, and saves the answers.
    pub(super) async fn ask(
        &self,
        call: &Call<'_>,
        ordinals: &[usize],
        layer: usize,
    ) -> Result<BTreeMap<usize, String>, JobError> {
        let seq = self.calls.seq.fetch_add(1, Ordering::Relaxed);
        let _place = self
            .calls
            .places
            .acquire()
            .await
            .map_err(|_| JobError::Interrupted)?;

        if let Some(error) = self.failure().clone() {
            return Err(error);
        }

        let answered = self.ask_and_save(call, ordinals, layer, seq).await;
        if let Err(error) = &answered {
            self.failure().get_or_insert(error.clone());
        }

        answered
    }

    async fn ask_and_save(
        &self,
        call: &Call<'_>,
        ordinals: &[usize],
        layer: usize,
        seq: i64,
    ) -> Result<BTreeMap<usize, String>, JobError> {
        let (task, parent_path) = self.task(call, ordinals);
        let started_at = self.clock.now();
        let answered = self.classify(task, layer).await?;
        let answers: BTreeMap<usize, String> = answered
            .chunks
            .into_iter()
            .filter_map(|chunk| {
                let ordinal = usize::try_from(chunk.id - 1).ok()?;
                self.note_subject(ordinal, chunk.subject.as_deref());
                Some((ordinal, free_names::entry(&chunk)))
            })
            .collect();

        // Nothing was sent, so there is nothing to log, however often the job returns to a paused
        // provider.
        if answers.is_empty()
            && !answered.was_sent
            && let Some(error) = answered.error
        {
            return Err(error.into());
        }

        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let (sent, successes) = (count(ordinals.len()), count(answers.len()));
        let decisions = match &call.shortlist {
            Some(_) => count(shortlist::decisions(&answers)),
            None => successes,
        };
        let batch = Batch {
            seq,
            level: call.level,
            parent_path,
            chunk_ordinals: ordinals.iter().map(|ordinal| count(ordinal + 1)).collect(),
            chunks_sent: sent,
            successes,
            retries: count(answered.retries),
            failures: sent - successes,
            latency_ms: answered.latency_ms,
            started_at,
            paid_by: answered.paid_by,
        };

        // Also if some or all have no answer: the retry does not repeat valid ones, and its calls
        // follow this one in the log.
        let step = (
            layer_name(&call.step, layer),
            write_layer(seq, &answers, |ordinal| self.subject(ordinal)),
        );
        let saved = Saved {
            step,
            batch,
            decisions,
        };
        self.saver.save(saved).await?;
        match answered.error {
            Some(error) => Err(error.into()),
            None => Ok(answers),
        }
    }

    fn note_subject(&self, ordinal: usize, subject: Option<&str>) {
        if let (Some(free), Some(subject)) = (&self.free, subject) {
            free.note(ordinal, subject);
        }
    }

    /// Has a model classify chunks: in a call shared with other texts, or in one of their own.
    /// What a shared call did not settle is asked alone.
    async fn classify(&self, task: Classify, layer: usize) -> Result<Classified, JobError> {
        if layer == 0
            && let Some((member, job)) = self.member
        {
            let most = self.source.batch_size;
            let shared = member.classify(self.llm, (self.session, job), task.clone(), most);
            if let Some(shared) = shared.await {
                return Ok(Classified {
                    chunks: shared.chunks,
                    was_sent: true,
                    retries: shared.retries,
                    latency_ms: shared.latency_ms,
                    paid_by: Some(shared.paid_by)
                        .filter(|paid_by| paid_by != job)
                        .map(|paid_by| paid_by.to_string()),
                    error: None,
                });
            }
        }

        let answered = self.llm.ask_partly(self.session, task).await?;
        let outputs = answered.value.into_iter();
        Ok(Classified {
            chunks: outputs.flat_map(|output| output.chunks).collect(),
            was_sent: !answered.calls.is_empty(),
            retries: answered.calls.len().saturating_sub(1),
            latency_ms: answered.calls.iter().map(|call| call.latency_ms).sum(),
            paid_by: None,
            error: answered.error,
        })
    }

    fn task(&self, call: &Call<'_>, ordinals: &[usize]) -> (Classify, String) {
        let tree = self.tree();
        let parent: Arc<[String]> = tree.path(call.parent).into();
        let chunk = |ordinal: &usize| {
            (
                i64::try_from(ordinal + 1).unwrap_or(i64::MAX),
                self.chunk(*ordinal).into(),
            )
        };

        let shown = parent.join(" / ");
        let level = |level: i64| u32::try_from(level).unwrap_or(u32::MAX);
        let (helper, title) = (&self.source.helper, &self.source.title);
        let options = call.shortlist.clone();
        let free_names = self.free.is_some();
        let categories = match options {
            Some(options) => options,
            None if free_names => [].into(),
            None => tree.options(call.parent).into(),
        };
        // Where a limit forbids a new one, memoir takes the nearest.
        let is_open = call.shortlist.is_none() && tree.may_create(call.parent);
        let task = Classify {
            contextual_helper: helper.as_ref().or(title.as_ref()).cloned(),
            is_title: helper.is_none(),
            helpers: Vec::new(),
            level: level(call.level),
            depth: level(self.taxonomy.depth()),
            parent,
            categories,
            may_create: free_names || is_open,
            free_names,
            chunks: ordinals.iter().map(chunk).collect(),
            hint: self
                .filed_so_far()
                .map_or_else(Hint::default, |filed_so_far| {
                    Hint::samples(filed_so_far.below(call.parent, &tree))
                        .with_outlined_names(self.outlined_names(call, ordinals, &tree))
                        .of_short_text(!self.source.outline.has_own_category)
                }),
        };

        (task, shown)
    }

    /// The names that the outline gives these chunks on the level of a call. On a level that is half
    /// full, a source without a category of its own joins existing ones.
    fn outlined_names(
        &self,
        call: &Call<'_>,
        ordinals: &[usize],
        tree: &Tree,
    ) -> BTreeMap<i64, String> {
        let outline = self.source.outline;
        let own = outline.has_own_category;
        if !own && call.level > 1 && tree.is_half_full(call.level) {
            return BTreeMap::new();
        }

        let name = |ordinal: &usize| self.outlined_name(call.level, *ordinal).map(str::to_owned);
        ordinals
            .iter()
            .filter_map(|ordinal| Some((i64::try_from(ordinal + 1).ok()?, name(ordinal)?)))
            .collect()
    }

    /// The name that the outline gives a chunk on a level.
    pub(super) fn outlined_name(&self, level: i64, ordinal: usize) -> Option<&str> {
        let level = usize::try_from(level - 1).unwrap_or(usize::MAX);
        self.source
            .outline
            .paths
            .get(ordinal)?
            .get(level)?
            .as_deref()
    }
}
