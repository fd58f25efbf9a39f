//! Terms that the vocabulary lacks, for the embedded model: where it classifies, and a third of what a
//! user said lately fits no topic, nouns that recur in those messages become their suggested topics.
//! A language model suggests topics itself. After a suggestion, the next ones wait for more messages
//! that fit no topic.

use std::collections::{BTreeMap, HashMap};

use memoir_embedded_model::EmbeddedModel;
use serde_json::json;

use super::Conversation;
use crate::config::llm::EMBEDDED;
use crate::jobs::{Failure, JobContext, JobError};
use crate::model::job::Record;
use crate::model::memory::{CorrectedField, EnrichmentState, LOW_CONFIDENCE};
use crate::model::vocabulary::Vocabulary;
use crate::store::Said;

/// The last messages of a user, of which a third must fit no topic.
const LAST: usize = 300;
/// Fewer messages than this say nothing about a vocabulary.
const MIN_MESSAGES: usize = 9;
/// So many messages that fit no topic must follow the last one with a suggestion.
const MIN_FURTHER: usize = 20;

impl Conversation {
    /// Suggests topics for the last messages of a user, if the vocabulary fits too few of them.
    pub(super) async fn propose_topics(
        &self,
        context: &JobContext,
        user_id: &str,
        vocabulary: &Vocabulary,
    ) -> Result<(), JobError> {
        let space = context.space();
        let mut said = self.store.list_said(space, user_id, LAST).await?;
        said.retain(|one| {
            one.enrichment_model.as_deref() == Some(EMBEDDED)
                && one.vocabulary_version.as_ref() == Some(&vocabulary.version)
        });
        let total = said.len();
        said.retain(|one| one.confidence.as_deref() == Some(LOW_CONFIDENCE));
        if total < MIN_MESSAGES || said.len() * 3 < total {
            return Ok(());
        }

        let suggesting = said.iter().filter(|one| one.suggested_topic.is_some());
        if let Some(last) = suggesting.map(|one| one.seq).max()
            && said.iter().filter(|one| one.seq > last).count() < MIN_FURTHER
        {
            return Ok(());
        }

        let changed = propose(said, vocabulary.terms.topics.clone()).await?;
        if changed.is_empty() {
            return Ok(());
        }

        let ids: Vec<String> = changed.keys().cloned().collect();
        let now = context.call_now().now;
        let written = self.store.retry("propose_topics", || async {
            let mut tx = self.store.begin().await?;
            let mut by_topic: BTreeMap<Option<&String>, Vec<String>> = BTreeMap::new();
            for memory in tx.hold_memories(space, &ids).await? {
                let is_open = memory.enrichment_state == EnrichmentState::Done
                    && memory.confidence.as_deref() == Some(LOW_CONFIDENCE)
                    && !memory.is_corrected(CorrectedField::Topics);
                if let Some(topic) = changed.get(memory.id.as_str())
                    && is_open
                {
                    let same = by_topic.entry(topic.as_ref()).or_default();
                    same.push(memory.id.to_string());
                }
            }

            for (topic, ids) in by_topic {
                tx.suggest_topic(space, &ids, topic, now).await?;
            }

            let step = Record::step(format!("proposed/{user_id}"), json!(ids.len()));
            let ours = context.record_in(&mut tx, step).await?;
            if ours {
                tx.commit().await?;
            }

            Ok(ours)
        });

        if written.await? {
            Ok(())
        } else {
            Err(JobError::LeaseLost)
        }
    }
}

/// The messages whose suggestion changes, each with the new one. Computes on a blocking thread.
async fn propose(
    said: Vec<Said>,
    known: Vec<String>,
) -> Result<HashMap<String, Option<String>>, JobError> {
    let work = move || {
        let texts: Vec<&str> = said.iter().map(|one| one.content.as_str()).collect();
        let proposed = EmbeddedModel::propose_terms(&texts, &known);
        let each = said.iter().zip(proposed);
        let changed = each.filter(|(one, topic)| one.suggested_topic != *topic);
        changed
            .map(|(one, topic)| (one.id.clone(), topic))
            .collect()
    };
    #[expect(
        clippy::disallowed_methods,
        reason = "pure computation that ends by itself"
    )]
    let proposed = tokio::task::spawn_blocking(work).await;

    // The panic message may quote the text.
    proposed.map_err(|_| JobError::fail(Failure::panicked()))
}
