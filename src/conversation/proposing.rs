//! Terms that the vocabulary lacks, for the embedded model: where it classifies, and a third of what a
//! user said lately fits no topic, nouns that recur in those messages become their suggested topics.
//! A language model suggests topics itself.

use memoir_embedded_model::EmbeddedModel;
use serde_json::json;

use super::Conversation;
use crate::config::llm::EMBEDDED;
use crate::jobs::{JobContext, JobError};
use crate::model::job::Record;
use crate::model::memory::{CorrectedField, EnrichmentState, LOW_CONFIDENCE};
use crate::model::vocabulary::Vocabulary;

/// The last messages of a user, of which a third must fit no topic.
const LAST: usize = 300;
/// Fewer messages than this say nothing about a vocabulary.
const MIN_MESSAGES: usize = 9;

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

        let texts: Vec<&str> = said.iter().map(|one| one.content.as_str()).collect();
        let proposed = EmbeddedModel::propose_terms(&texts, &vocabulary.terms.topics);
        let mut changed: Vec<(String, Option<String>)> = Vec::new();
        for (one, topic) in said.iter().zip(proposed) {
            if one.suggested_topic != topic {
                changed.push((one.id.clone(), topic));
            }
        }

        if changed.is_empty() {
            return Ok(());
        }

        let ids: Vec<String> = changed.iter().map(|(id, _)| id.clone()).collect();
        let written = self.store.retry("propose_topics", || async {
            let mut tx = self.store.begin().await?;
            for mut memory in tx.hold_memories(space, &ids).await? {
                let topic = changed.iter().find(|(id, _)| *id == memory.id.as_str());
                let is_open = memory.enrichment_state == EnrichmentState::Done
                    && memory.confidence.as_deref() == Some(LOW_CONFIDENCE)
                    && !memory.is_corrected(CorrectedField::Topics);
                if let Some((_, topic)) = topic
                    && is_open
                {
                    memory.suggested_topic.clone_from(topic);
                    memory.updated_at = context.call_now().now;
                    tx.update_memory(space, &memory, false).await?;
                }
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
