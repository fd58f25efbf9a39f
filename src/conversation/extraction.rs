//! The job that extracts facts from what a user said. Each message gets one call; its facts and the
//! step that marks it as done are written in one transaction, so that they are stored once.

use futures_util::future::{BoxFuture, FutureExt as _};
use serde_json::{Value, json};

use super::enrichment::is_of_message;
use super::memories::Replacing;
use super::{Conversation, fact_check, job_error};
use crate::base::clock::Timestamp;
use crate::base::ids::{MemoryId, Space};
use crate::jobs::{JobContext, JobError, Outcome, Work};
use crate::llm::Session;
use crate::llm::tasks::extract::{Extract, ExtractedFact, KnownFact};
use crate::model::job::{Lane, NewJob, Record};
use crate::model::memory::{Evidence, Memory, MemoryKind, USER_PREFERENCE};
use crate::store::{MemoryFilter, MemoryPage, StoreError};

/// The name of this kind of job.
pub const KIND: &str = "extract";
/// Known facts that the model sees.
const MAX_KNOWN: usize = 50;

/// Runs the job.
#[derive(Clone)]
pub struct ExtractWork {
    pub conversation: Conversation,
}

impl Work for ExtractWork {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn run(&self, context: JobContext) -> BoxFuture<'static, Result<Outcome, JobError>> {
        let conversation = self.conversation.clone();
        async move { conversation.extract(&context).await }.boxed()
    }
}

/// The job for some messages.
pub fn new_job(user_id: &str, message_ids: &[&str], max_attempts: i64) -> NewJob {
    NewJob {
        group_size: 1,
        kind: KIND,
        lane: Lane::Background,
        user_id: user_id.to_owned(),
        source_id: None,
        request: json!({"message_ids": message_ids}).to_string(),
        max_attempts,
    }
}

/// What happened to the facts of a message, in numbers.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    facts: u64,
    replaced: u64,
    /// Facts whose quotes do not support them.
    rejected: u64,
    failed: u64,
}

impl Counts {
    fn add(&mut self, saved: &Value) {
        let number = |name: &str| saved[name].as_u64().unwrap_or(0);
        self.facts += number("facts");
        self.replaced += number("replaced");
        self.rejected += number("rejected");
        self.failed += number("failed");
    }

    fn json(self) -> Value {
        json!({
            "facts": self.facts, "replaced": self.replaced, "rejected": self.rejected,
            "failed": self.failed,
        })
    }
}

impl Conversation {
    async fn extract(&self, context: &JobContext) -> Result<Outcome, JobError> {
        let request = context.take_request();
        let ids = request["message_ids"].as_array().into_iter().flatten();
        let ids: Vec<String> = ids
            .filter_map(|id| id.as_str().map(ToOwned::to_owned))
            .collect();
        let session = self
            .llm
            .job_session(context.call_now(), context.id(), context.is_first_run())
            .await?;
        let mut all = Counts::default();
        for (done, id) in (1..).zip(&ids) {
            let step = format!("extracted/{id}");
            let found = match context.saved(&step) {
                Some(saved) => saved,
                None => self.extract_one(context, &session, id, step).await?,
            };
            all.add(&found);
            let mut progress = all.json();
            progress["messages"] = json!(done);
            context.report("extracting", progress);
        }

        // Its calls must be recorded before it ends.
        self.llm.flush().await?;
        let spent = session.spent();
        let mut result = all.json();
        result["messages"] = json!(ids.len());
        result["llm_calls"] = json!(spent.calls);
        result["tokens"] = json!(spent.tokens);
        result["cost_usd"] = json!(spent.usd);
        Ok(Outcome::Done(result))
    }

    /// Asks for the facts of one message and stores those that its quotes support.
    async fn extract_one(
        &self,
        context: &JobContext,
        session: &Session,
        id: &str,
        step: String,
    ) -> Result<Value, JobError> {
        let space = context.space();
        let id = MemoryId::from_stored(id.to_owned());
        let Some(message) = self.store.find_memory(space, &id).await? else {
            // The message was deleted.
            return Ok(json!({}));
        };

        let known = self.known_facts(space, &message.user_id).await?;
        let task = Extract {
            message: message.content.as_str().into(),
            day: message.created_at.day().into(),
            known: (1..)
                .zip(&known)
                .map(|(number, fact)| KnownFact {
                    number,
                    text: fact.content.as_str().into(),
                    day: fact.created_at.day().into(),
                })
                .collect(),
        };
        let mut counts = Counts::default();
        let found = match self.llm.ask(session, task).await {
            Ok(answered) => answered.value.facts,
            Err(error) if is_of_message(&error) => {
                counts.failed = 1;
                Vec::new()
            }
            Err(error) => return Err(error.into()),
        };

        let now = context.clock().now();
        let asked = found.len();
        let facts: Vec<Memory> = found
            .iter()
            .filter_map(|fact| checked(&message, fact, &known, now))
            .collect();
        counts.rejected = (asked - facts.len()) as u64;
        let facts = without_repeats(facts, &known);
        self.keep_facts(context, session, &message, facts, (step, counts))
            .await
    }

    /// The newest facts about a user that are in force.
    pub(super) async fn known_facts(
        &self,
        space: &Space,
        user_id: &str,
    ) -> Result<Vec<Memory>, StoreError> {
        let filter = MemoryFilter {
            user_id: Some(user_id.to_owned()),
            kinds: vec![
                MemoryKind::Fact.into_str(),
                MemoryKind::Preference.into_str(),
            ],
            ..MemoryFilter::default()
        };
        let page = MemoryPage {
            from: None,
            newest_first: true,
            limit: MAX_KNOWN,
        };
        self.store.list_memories(space, &filter, &page).await
    }

    /// Writes facts, marks those that they replace, and marks the message as done, all or nothing.
    async fn keep_facts(
        &self,
        context: &JobContext,
        session: &Session,
        message: &Memory,
        facts: Vec<Memory>,
        (step, counts): (String, Counts),
    ) -> Result<Value, JobError> {
        let space = context.space();
        let prepared = self
            .prepare_fully(session, &facts)
            .await
            .map_err(job_error)?;
        let call = context.call_now();
        let kept = self.store.retry("keep_facts", || async {
            let mut tx = self.store.begin().await?;
            let (mut counts, mut facts) = (counts, facts.clone());
            let there = tx.hold_memories(space, &[message.id.to_string()]).await?;
            if !there.is_empty() {
                for fact in &mut facts {
                    if let Some(later) = &fact.superseded_by
                        && tx
                            .hold_memories(space, std::slice::from_ref(later))
                            .await?
                            .is_empty()
                    {
                        (fact.superseded_by, fact.superseded_at) = (None, None);
                    }

                    match self.mark_replaced(&mut tx, &call, fact).await? {
                        Replacing::Marked => counts.replaced += 1,
                        // Replaced or deleted since it was read: the fact stands on its own.
                        _ => forget_replaced(fact),
                    }
                }

                self.write_memories(&mut tx, &call, &facts, &prepared)
                    .await?;
                counts.facts = facts.len() as u64;
            }

            let ours = context
                .record_in(&mut tx, Record::step(step.clone(), counts.json()))
                .await?;
            if ours {
                tx.commit().await?;
            }

            Ok((ours, counts))
        });

        let (ours, counts) = kept.await?;
        if !ours {
            return Err(JobError::LeaseLost);
        }

        context.note_progress();
        Ok(counts.json())
    }
}

/// A fact as a memory, if its quote supports it.
fn checked(
    message: &Memory,
    fact: &ExtractedFact,
    known: &[Memory],
    now: Timestamp,
) -> Option<Memory> {
    let (start, end) = fact_check::range(&message.content, &fact.quote)?;
    if !fact_check::carries(&fact.quote, &fact.content) {
        return None;
    }

    let old = fact
        .replaces
        .and_then(|number| usize::try_from(number - 1).ok())
        .and_then(|place| known.get(place));
    // What was said later is in force, whichever was stored first: an old chat may be imported last.
    let (old, later) = match old {
        Some(old) if old.created_at > message.created_at => (None, Some(old)),
        old => (old, None),
    };
    let kind = fact.kind.parse().ok()?;
    let (user_id, content) = (message.user_id.clone(), fact.content.trim().to_owned());
    Some(Memory {
        // Belongs to the thread and is deleted with it, because it quotes it.
        thread_id: message.thread_id.clone(),
        source: "model".to_owned(),
        category: (kind == MemoryKind::Preference).then(|| USER_PREFERENCE.to_owned()),
        evidence: Some(Evidence {
            message_ids: vec![message.id.to_string()],
            start_char: i64::try_from(start).ok(),
            end_char: i64::try_from(end).ok(),
            quote: Some(fact.quote.trim().to_owned()),
            supersedes: old.map(|old| old.id.to_string()),
        }),
        superseded_by: later.map(|later| later.id.to_string()),
        superseded_at: later.map(|later| later.created_at),
        created_at: message.created_at,
        ..Memory::new(kind, user_id, content, now)
    })
}

fn forget_replaced(fact: &mut Memory) {
    if let Some(evidence) = &mut fact.evidence {
        evidence.supersedes = None;
    }
}

/// Facts that are new, each once: none of the known ones has the same words.
fn without_repeats(mut facts: Vec<Memory>, known: &[Memory]) -> Vec<Memory> {
    let mut seen: std::collections::HashSet<String> =
        known.iter().map(|fact| fact.content_hash.clone()).collect();
    facts.retain(|fact| seen.insert(fact.content_hash.clone()));
    facts
}
