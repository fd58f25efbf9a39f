//! How a job gets the helper of its source: sent with the text, saved before, stored, generated, or
//! awaited.

use memoir_text::text::basename;
use serde_json::json;

use super::cut_text::CutText;
use super::request::Order;
use super::shared_calls::BatchMember;
use crate::base::ids::SourceId;
use crate::contextual_helpers::{ContextualHelpers, FIRST_CHUNKS, SourceHead, detect_title, tags};
use crate::jobs::{JobContext, JobError};
use crate::llm::{Llm, LlmError, Session};
use crate::model::contextual_helper::{HelperOrigin, NewHelper};
use crate::model::job::Record;
use crate::sources::titled;

/// The step that stores a job's helper.
pub const HELPER: &str = "helper";
/// The kind of the events that say where a helper came from.
pub const HELPER_EVENT: &str = "helper";

/// The helper of a source, as far as it is known.
pub enum HelperOutcome {
    /// The paragraph, and whether it must be stored.
    By(NewHelper, bool),
    /// The user must provide it first.
    Awaited,
    /// No model will be called, or the text is so short that it says itself what it is.
    NotNeeded,
}

pub struct HelperStep<'a> {
    pub llm: &'a Llm,
    /// Where a short text meets others of its request.
    pub member: Option<&'a BatchMember<'a>>,
    pub helpers: &'a ContextualHelpers,
    pub context: &'a JobContext,
}

impl HelperStep<'_> {
    /// The helper for every prompt; `same`: an earlier version has the same content; `is_brief`: the
    /// text needs none.
    pub async fn describe(
        &self,
        session: &Session,
        order: &Order,
        document: &CutText,
        (same, is_brief): (bool, bool),
    ) -> Result<HelperOutcome, JobError> {
        if let Some(saved) = self
            .context
            .saved(HELPER)
            .and_then(|saved| serde_json::from_value(saved).ok())
        {
            return Ok(HelperOutcome::By(saved, true));
        }
        let id = SourceId::from_stored(order.source_id.clone());
        let stored = self
            .helpers
            .current(&self.context.call_now(), &id)
            .await?
            .map(|stored| stored.helper);

        if let Some(given) = &order.helper {
            if stored.as_ref().is_some_and(|stored| {
                stored.text == given.text && stored.origin == HelperOrigin::User
            }) {
                return Ok(HelperOutcome::By(given.clone(), false));
            }

            self.keep(session, given, "provided").await?;
            return Ok(HelperOutcome::By(given.clone(), true));
        }

        if !order.regenerate_helper {
            // A generated helper belongs to the content that it was made from.
            let usable = |helper: &NewHelper| {
                helper.origin == HelperOrigin::User || (order.auto_source_identification && same)
            };
            // Once a source has one, it describes the current version.
            let may_lack = is_brief && stored.is_none();
            match stored.filter(usable) {
                Some(helper) => return Ok(HelperOutcome::By(helper, false)),
                None if same => return Ok(HelperOutcome::NotNeeded),
                None if !order.auto_source_identification => return Ok(HelperOutcome::Awaited),
                None if may_lack => return Ok(HelperOutcome::NotNeeded),
                None => {}
            }
        }

        self.context
            .report("helper", json!({"chunks": document.chunks.len()}));
        let helper = match self.generate(session, head(order, document)).await {
            Ok(helper) => helper,
            Err(error) => {
                // Paid calls are recorded before the job ends.
                self.llm.flush().await?;
                return Err(error.into());
            }
        };

        self.keep(session, &helper, "generated").await?;
        Ok(HelperOutcome::By(helper, true))
    }

    /// Generates a helper, together with those of other texts or alone.
    async fn generate(&self, session: &Session, head: SourceHead) -> Result<NewHelper, LlmError> {
        if let Some(member) = self.member
            && let Some(helper) = member.describe(self.helpers, session, head.clone()).await
        {
            return Ok(helper);
        }

        self.helpers.generate(session, head).await
    }

    /// Saves a helper with the job, and records its origin.
    async fn keep(
        &self,
        session: &Session,
        helper: &NewHelper,
        event: &str,
    ) -> Result<(), JobError> {
        let value = serde_json::to_value(helper).unwrap_or_default();
        let event = json!({
            "event": event, "origin": helper.origin.into_str(), "token_count": helper.token_count,
            "tokens_prompt": helper.tokens_prompt, "tokens_completion": helper.tokens_completion,
        });

        let record = Record {
            events: vec![(HELPER_EVENT, event)],
            ..Record::step(HELPER.to_owned(), value)
        };

        // A helper that was sent is in the request.
        let is_free = helper.origin == HelperOrigin::User || self.llm.describes_for_free(session);
        if is_free {
            self.context.record_later(record);
            return Ok(());
        }

        self.context.record_paid(self.llm.journal(), record).await
    }
}

/// The title of a text: the given one, or what it begins with.
pub fn title(order: &Order) -> Option<String> {
    let given = order.facts.title.clone();
    given.or_else(|| detect_title(&order.text))
}

/// The input for generating a helper: the file name, the title, and the first chunks.
fn head(order: &Order, document: &CutText) -> SourceHead {
    let facts = &order.facts;
    let mut metadata = Vec::new();
    for (name, value) in [
        ("author", facts.author.clone()),
        ("date", facts.date.clone()),
        ("topic", facts.topic.clone()),
        ("note", facts.note.clone()),
        ("provider", facts.provider.clone()),
        ("tags", tags(&order.tags)),
    ] {
        metadata.extend(value.map(|value| (name.to_owned(), value)));
    }

    let named = order
        .filename
        .clone()
        .or_else(|| order.path.as_deref().map(|path| basename(path).to_owned()))
        .or_else(|| titled(facts.title.as_deref()?));

    let first = document.chunks.iter().take(FIRST_CHUNKS);
    SourceHead {
        filename: named.unwrap_or_else(|| "untitled.txt".to_owned()),
        title: title(order),
        metadata,
        chunks: first
            .map(|chunk| (order.text[chunk.range.clone()].into(), chunk.token_count))
            .collect(),
    }
}
