//! The job that classifies messages: up to twenty of a thread in one call, with the current
//! vocabulary; fewer if the model takes too long for so many. Messages that a model leaves out are
//! asked about one by one. A message that it cannot classify is marked as failed and gets no terms.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt as _};
use memoir_index::OwnerKind;
use serde_json::json;

use super::Conversation;
use super::messages_per_call::MessagesPerCall;
use crate::base::ids::memory_group;
use crate::config::llm::EMBEDDED;
use crate::jobs::{JobContext, JobError, Outcome, Work};
use crate::llm::tasks::enrich::{ClassifiedMessage, EnrichMany, EnrichOne, NamedEntity};
use crate::llm::{LlmError, Session};
use crate::model::call::CallContext;
use crate::model::job::{Lane, NewJob, Record};
use crate::model::llm_call::LlmCall;
use crate::model::memory::{Classification, EnrichmentState, LOW_CONFIDENCE, Memory};
use crate::model::vocabulary::Vocabulary;

/// The name of this kind of job.
pub const KIND: &str = "enrich";

/// Runs the job.
#[derive(Clone)]
pub struct EnrichWork {
    pub conversation: Conversation,
    pub per_call: MessagesPerCall,
}

impl Work for EnrichWork {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn run(&self, context: JobContext) -> BoxFuture<'static, Result<Outcome, JobError>> {
        let work = self.clone();
        async move { work.conversation.enrich(&context, &work.per_call).await }.boxed()
    }
}

/// Why several messages were not classified.
enum Unclassified {
    /// The model took too long, perhaps for so many at once.
    TooSlow(LlmError),
    Job(JobError),
}

impl From<LlmError> for Unclassified {
    fn from(error: LlmError) -> Self {
        match &error {
            LlmError::Unavailable {
                timed_out: true, ..
            } => Self::TooSlow(error),
            _ => Self::Job(error.into()),
        }
    }
}

/// The step of a group from whose answer messages were left out, with their number.
const LEFT_OUT: &str = "left out/";

/// How many messages the last such group of an interrupted run left out. Some may be done already;
/// then as many others are asked about one by one.
fn left_out_before(context: &JobContext) -> usize {
    let steps = context.read_saved(|step, value| {
        let last = step.strip_prefix(LEFT_OUT)?;
        Some((last.to_owned(), value.as_u64()?))
    });
    let newest = steps.into_iter().max();
    newest.map_or(0, |(_, count)| usize::try_from(count).unwrap_or(0))
}

/// The job for the messages that carry its id.
pub fn new_job(user_id: &str, max_attempts: i64) -> NewJob {
    NewJob {
        group_size: 1,
        kind: KIND,
        lane: Lane::Background,
        user_id: user_id.to_owned(),
        source_id: None,
        request: json!({}).to_string(),
        max_attempts,
    }
}

impl Conversation {
    async fn enrich(
        &self,
        context: &JobContext,
        per_call: &MessagesPerCall,
    ) -> Result<Outcome, JobError> {
        let session = self
            .llm
            .job_session(context.call_now(), context.id(), context.is_first_run())
            .await?;
        let (mut done, mut failed) = (0, 0);
        // The user for whom the embedded model found messages that fit no topic.
        let mut unfit: Option<String> = None;
        // So many of the next messages were left out of an answer and are asked about one by one.
        let mut alone = left_out_before(context);
        loop {
            let most = if alone > 0 { 1 } else { per_call.limit() };
            let claimed = self.store.retry("claim_pending", || async {
                let mut tx = self.store.begin().await?;
                let claimed = tx
                    .claim_pending(context.space(), context.id(), most)
                    .await?;
                tx.commit().await?;
                Ok(claimed)
            });

            let messages: Vec<Memory> = claimed.await?;
            if messages.is_empty() {
                break;
            }

            let vectors = self.vectors_for(&session, context, &messages).await?;
            let vocabulary = self.vocabulary(&context.call_now()).await?;
            let found = match self.classify(&session, &messages, &vocabulary).await {
                Ok(found) => found,
                Err(Unclassified::TooSlow(_)) if messages.len() > 1 => {
                    // They stay claimed, and the first of them are read again.
                    per_call.was_too_slow(messages.len());
                    continue;
                }
                // The model is there: it has answered about others.
                Err(Unclassified::TooSlow(_)) if alone > 0 && done > 0 => Found::nothing(),
                Err(Unclassified::TooSlow(error)) => return Err(error.into()),
                Err(Unclassified::Job(error)) => return Err(error),
            };
            if found.model == EMBEDDED && found.has_unfit() {
                unfit = messages.first().map(|message| message.user_id.clone());
            }

            let left_out = found.left_out();
            if alone > 0 {
                alone -= 1;
            } else {
                per_call.was_in_time(messages.len());
                alone = left_out;
            }
            let (ok, bad) = self
                .keep(context, messages, (&vocabulary, &found), vectors)
                .await?;
            done += ok;
            failed += bad;
            context.report("enriching", json!({"messages": done, "failed": failed}));
        }

        if let Some(user_id) = unfit {
            let vocabulary = self.vocabulary(&context.call_now()).await?;
            self.propose_topics(context, &user_id, &vocabulary).await?;
        }

        // Its calls must be recorded before it ends.
        self.llm.flush().await?;
        let spent = session.spent();
        Ok(Outcome::Done(json!({
            "messages": done, "failed": failed, "llm_calls": spent.calls, "tokens": spent.tokens,
            "cost_usd": spent.usd,
        })))
    }

    /// Asks the model about all messages at once; `None` for those without a usable answer.
    async fn classify(
        &self,
        session: &Session,
        messages: &[Memory],
        vocabulary: &Vocabulary,
    ) -> Result<Found, Unclassified> {
        if let [message] = messages {
            return self.classify_one(session, message, vocabulary).await;
        }

        let numbered = (1_i64..).zip(messages).map(|(number, message)| {
            (
                number,
                message.role.clone(),
                Arc::from(message.content.as_str()),
            )
        });
        let task = EnrichMany {
            messages: numbered.collect(),
            terms: Arc::new(vocabulary.terms.clone()),
        };
        let partly = self.llm.ask_partly(session, task).await;
        let partly = partly.map_err(|error| Unclassified::Job(error.into()))?;
        if let Some(error) = partly.error.filter(|error| !is_of_message(error)) {
            return Err(error.into());
        }

        let model = answering(&partly.calls);
        let mut found = vec![None; messages.len()];
        for message in partly.value.map(|value| value.messages).unwrap_or_default() {
            let place = usize::try_from(message.id - 1).unwrap_or(usize::MAX);
            if let Some(slot) = found.get_mut(place) {
                *slot = Some(message.found);
            }
        }

        Ok(Found {
            model,
            messages: found,
        })
    }

    async fn classify_one(
        &self,
        session: &Session,
        message: &Memory,
        vocabulary: &Vocabulary,
    ) -> Result<Found, Unclassified> {
        let task = EnrichOne {
            message: message.content.as_str().into(),
            role: message.role.clone(),
            terms: Arc::new(vocabulary.terms.clone()),
        };
        match self.llm.ask(session, task).await {
            Ok(answered) => Ok(Found {
                model: answering(&answered.calls),
                messages: vec![Some(answered.value)],
            }),
            Err(error) if is_of_message(&error) => Ok(Found::nothing()),
            Err(error) => Err(error.into()),
        }
    }

    /// Computes the vectors that could not be computed when the messages were stored.
    async fn vectors_for(
        &self,
        session: &Session,
        context: &JobContext,
        messages: &[Memory],
    ) -> Result<Option<(String, Vec<Vec<f32>>)>, JobError> {
        let model = self.search.model_of(context.space()).await?;
        if self.llm.embeds_here(&model) {
            return Ok(None);
        }

        let texts: Vec<&str> = messages
            .iter()
            .map(|message| message.content.as_str())
            .collect();
        let vectors = self.llm.embed(session, &model, &texts).await?;
        Ok(Some((model, vectors)))
    }

    /// Writes what was found to the messages that still exist and still wait. Messages that were
    /// left out of an answer go on waiting.
    async fn keep(
        &self,
        context: &JobContext,
        messages: Vec<Memory>,
        (vocabulary, found): (&Vocabulary, &Found),
        vectors: Option<(String, Vec<Vec<f32>>)>,
    ) -> Result<(usize, usize), JobError> {
        let ids: Vec<String> = messages
            .iter()
            .map(|message| message.id.to_string())
            .collect();
        let call = context.call_now();
        let left_out = found.left_out();
        let kept = self.store.retry("keep_enrichment", || async {
            let mut tx = self.store.begin().await?;
            let held = tx.hold_memories(context.space(), &ids).await?;
            let (mut done, mut failed) = (0, 0);
            for mut memory in held {
                let place = ids.iter().position(|id| id == memory.id.as_str());
                let answer = place
                    .and_then(|place| found.messages.get(place))
                    .cloned()
                    .flatten();
                // Another job may have been asked since, with another vocabulary.
                let is_ours = memory.enrichment_job.as_deref() == Some(context.id().as_str());
                if memory.enrichment_state != EnrichmentState::Pending || !is_ours {
                    continue;
                }

                if let Some(answer) = answer {
                    memory.classify(classification(answer, vocabulary, &found.model));
                    done += 1;
                } else if left_out > 0 {
                    continue;
                } else {
                    memory.enrichment_state = EnrichmentState::Failed;
                    failed += 1;
                }

                memory.updated_at = call.now;
                tx.update_memory(context.space(), &memory, true).await?;
            }

            if let Some((model, vectors)) = &vectors {
                let seqs: Vec<i64> = messages.iter().map(|message| message.seq).collect();
                if let Some(message) = messages.first() {
                    let (space, user_id) = (context.space(), &message.user_id);
                    let entries = tx.list_entry_ids(space, OwnerKind::Memory, &seqs).await?;
                    let placed = (seqs.as_slice(), &entries);
                    let vectors = (model.as_str(), vectors.as_slice());
                    self.write_vectors(&mut tx, &call, user_id, placed, vectors)
                        .await?;
                    tx.count_entry_write(space, &memory_group(user_id)).await?;
                }
            }

            let last = ids.last().cloned().unwrap_or_default();
            let step = if left_out > 0 {
                Record::step(format!("{LEFT_OUT}{last}"), json!(left_out))
            } else {
                Record::step(format!("enriched/{last}"), json!(done))
            };
            let ours = context.record_in(&mut tx, step).await?;
            if ours {
                tx.commit().await?;
            }

            Ok((ours, done, failed))
        });

        let (ours, done, failed) = kept.await?;
        if !ours {
            return Err(JobError::LeaseLost);
        }

        context.note_progress();
        Ok((done, failed))
    }

    /// Queues the classification of one memory again.
    ///
    /// # Errors
    /// [`super::ConversationError::NotFound`], the queue's, or the store's.
    pub async fn enrich_again(
        &self,
        tx: &mut crate::store::Tx,
        call: &CallContext,
        id: &str,
    ) -> Result<crate::model::job::Job, super::ConversationError> {
        let held = tx.hold_memories(&call.space, &[id.to_owned()]).await?;
        let mut memory = held
            .into_iter()
            .next()
            .ok_or_else(|| super::ConversationError::no_memory(id))?;
        let new = new_job(&memory.user_id, self.jobs.max_attempts());
        let job = self.jobs.enqueue_for(tx, call, &new).await?;
        memory.enrichment_state = EnrichmentState::Pending;
        memory.enrichment_job = Some(job.id.to_string());
        memory.updated_at = call.now;
        tx.update_memory(&call.space, &memory, false).await?;
        Ok(job)
    }
}

/// How a model classified messages, in their order.
struct Found {
    model: String,
    messages: Vec<Option<ClassifiedMessage>>,
}

impl Found {
    /// No usable answer about one message.
    fn nothing() -> Self {
        Self {
            model: String::new(),
            messages: vec![None],
        }
    }

    /// Whether no topic fits one of them.
    fn has_unfit(&self) -> bool {
        let mut found = self.messages.iter().flatten();
        found.any(|one| one.confidence == LOW_CONFIDENCE)
    }

    /// How many messages have no usable answer, if others have one: the model can classify, but not
    /// so many at once. A model that answered nothing is not asked again.
    fn left_out(&self) -> usize {
        let without = self.messages.iter().filter(|found| found.is_none()).count();
        if without == self.messages.len() {
            return 0;
        }

        without
    }
}

/// The model that gave the last answer.
fn answering(calls: &[LlmCall]) -> String {
    calls
        .last()
        .map(|call| call.model.clone())
        .unwrap_or_default()
}

/// Whether an error concerns the message and not the model: asking again would not help.
pub(super) fn is_of_message(error: &LlmError) -> bool {
    matches!(
        error,
        LlmError::InvalidOutput { .. } | LlmError::Refused { .. } | LlmError::Truncated { .. }
    )
}

fn classification(
    answer: ClassifiedMessage,
    vocabulary: &Vocabulary,
    model: &str,
) -> Classification {
    let entities = answer.entities.unwrap_or_default();
    Classification {
        topics: answer.topics,
        category: Some(answer.category),
        message_type: Some(answer.message_type),
        entities: entities.into_iter().map(NamedEntity::into_entity).collect(),
        importance: Some(answer.importance),
        confidence: Some(answer.confidence),
        suggested_topic: answer.suggested_topic,
        suggested_category: answer.suggested_category,
        vocabulary_version: Some(vocabulary.version.clone()),
        enrichment_model: Some(model.to_owned()),
    }
}
